// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in the documents for users: each block as it is printed.
//!
//! A block of commands is fenced by `sh` and a mark. `run`: it needs no root and no second host.
//! `first` and `second`: a pair, one on each of two hosts; the first waits for the second. `link`:
//! as root, on a host with an interface. `installs` and `removes`: in the clean root of the stage
//! `packages`. The marks of [`BY_HAND`] are tried by hand; no other mark is possible.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_harness::process::{Output, Program};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_harness::{interrupt, paths};

const DOCUMENTS: [&str; 4] =
    ["docs/install.md", "docs/quickstart.md", "docs/troubleshooting.md", "docs/TUNING.md"];
/// Marks of blocks that this file does not run: those of the stage `packages`, then a build of
/// minutes, the distribution's own systemd, a network card, another distribution.
const ELSEWHERE: [&str; 2] = ["installs", "removes"];
const BY_HAND: [&str; 4] = ["source", "systemd", "card", "other"];
/// Time limit of a block.
const BLOCK_MAX: Duration = Duration::from_secs(60);
/// The ports on which `fi_pingpong` and `xdp-perf` wait for a client, and the words it prints.
const SERVERS: [(&str, &str); 2] = [(":47592", "usec/xfer"), (":7471", "99.999 %")];

/// A block of commands.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Block {
    /// Document and line.
    place: String,
    /// The word behind `sh`, or nothing.
    mark: String,
    commands: String,
}

/// The blocks of a document.
fn blocks(document: &str) -> anyhow::Result<Vec<Block>> {
    let text = std::fs::read_to_string(paths::workspace().join(document))?;
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(fence), None) => {
                let mark = fence.strip_prefix("sh").with_context(|| format!("{document}: {line}"));
                let (mark, place) = (mark?.trim().to_owned(), format!("{document}:{}", index + 1));
                open = Some(Block { place, mark, commands: String::new() });
            }
            (None, Some(block)) => block.commands += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    ensure!(open.is_none(), "{document}: a block has no end");
    Ok(found)
}

/// The blocks of a document by their marks.
#[derive(Default, Debug)]
struct Sorted {
    pairs: Vec<[Block; 2]>,
    /// Those marked `run`.
    single: Vec<Block>,
    /// Those marked `link`.
    link: Vec<Block>,
}

fn sorted(blocks: Vec<Block>) -> anyhow::Result<Sorted> {
    let (mut sorted, mut waiting) = (Sorted::default(), None);
    for block in blocks {
        match (block.mark.as_str(), waiting.take()) {
            ("run", None) => sorted.single.push(block),
            ("link", None) => sorted.link.push(block),
            ("first", None) => waiting = Some(block),
            ("second", Some(first)) => sorted.pairs.push([first, block]),
            (mark, None) if ELSEWHERE.contains(&mark) || BY_HAND.contains(&mark) => {}
            (mark, _) => anyhow::bail!("{}: mark {mark:?} has no place here", block.place),
        }
    }
    ensure!(waiting.is_none(), "{waiting:?} has no second block");
    Ok(sorted)
}

/// The shell that runs a block with the built programs, and ends at the first command that fails.
fn shell(commands: &str) -> anyhow::Result<Program> {
    let starter = paths::program("xdp-run")?;
    let built = starter.parent().unwrap_or_else(|| Path::new("/"));
    let path = format!("{}:{}", built.display(), std::env::var("PATH")?);
    let program = Program::new("sh").args(["-euc", commands]).envs([("PATH", path)]);
    Ok(program.envs([("FI_PROVIDER_PATH", paths::provider()?)]))
}

#[test]
fn commands_of_documents_run() -> anyhow::Result<()> {
    for document in DOCUMENTS {
        let Sorted { pairs, single, .. } = sorted(blocks(document)?)?;
        ensure!(!single.is_empty() || !pairs.is_empty(), "{document} has none");
        for block in single {
            let output = shell(&block.commands)?.run(BLOCK_MAX).and_then(Output::success);
            output.with_context(|| block.place.clone())?;
        }
    }
    Ok(())
}

#[test]
fn a_command_that_fails_ends_its_block_in_error() -> anyhow::Result<()> {
    for commands in ["false\ntrue\n", "no-such-command-anywhere\n", "echo $NO_SUCH_VARIABLE\n"] {
        let output = shell(commands)?.run(BLOCK_MAX)?;
        ensure!(output.success().is_err(), "{commands:?} passed");
    }
    Ok(())
}

#[test]
fn a_block_with_a_wrong_mark_is_an_error() {
    let block = |mark: &str| Block {
        place: "a:1".to_owned(),
        mark: mark.to_owned(),
        commands: String::new(),
    };
    let wrong: [&[&str]; 6] =
        [&[""], &["rum"], &["first"], &["second"], &["first", "run"], &["first", "first"]];
    for wrong in wrong {
        assert!(sorted(wrong.iter().map(|mark| block(mark)).collect()).is_err(), "{wrong:?}");
    }
    let right = ["card", "first", "second", "run", "link", "installs"];
    let Sorted { pairs, single, link } = sorted(right.into_iter().map(block).collect()).unwrap();
    assert_eq!((pairs.len(), single.len(), link.len()), (1, 1, 1));
}

#[test]
fn root_commands_of_documents_run_between_two_hosts() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let mut tried = 0;
    for document in DOCUMENTS {
        let Sorted { pairs, link, .. } = sorted(blocks(document)?)?;
        for [first, second] in pairs {
            let both = || format!("{} and {}", first.place, second.place);
            pair(&fixture, &first.commands, &second.commands).with_context(both)?;
            tried += 1;
        }
        for block in link {
            let commands = block.commands.replace("INTERFACE", fixture.interface());
            let program = fixture.program(Side::B, shell(&commands)?)?;
            program.run(BLOCK_MAX).and_then(Output::success).with_context(|| block.place)?;
            tried += 1;
        }
    }
    ensure!(tried > 1, "no document has a pair, or none has a block for an interface");
    Ok(())
}

/// Runs a pair of blocks, with the names that a reader puts in.
fn pair(fixture: &TwoHostFixture, first: &str, second: &str) -> anyhow::Result<()> {
    let address = fixture.hosts().link(0).v4(Side::A).to_string();
    let named = |commands: &str| {
        commands.replace("ADDRESS", &address).replace("INTERFACE", fixture.interface())
    };
    let first = fixture.program(Side::A, shell(&named(first))?)?.start()?;
    let wanted = interrupt::wait_until("a program that waits for its client", TIMEOUT, || {
        let sockets = Program::new("ss").args(["--listening", "--tcp", "--numeric"]);
        let sockets = fixture.program(Side::A, sockets)?.run(TIMEOUT)?.success()?;
        let waits = SERVERS.iter().find(|(port, _)| sockets.stdout.contains(port));
        Ok(waits.map(|(_, shown)| *shown))
    })?;
    let second = fixture.program(Side::B, shell(&named(second))?)?.start()?;
    let shown = second.finish(BLOCK_MAX).and_then(Output::success)?.stdout;
    first.finish(TIMEOUT)?.success()?;
    ensure!(shown.contains(wanted), "no {wanted:?} in:\n{shown}");
    Ok(())
}
