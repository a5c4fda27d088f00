// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs without debug symbols, and the symbols where debuggers look for them.
//!
//! In: programs. Out: stripped copies, and `usr/lib/debug/.build-id/XX/REST.debug` below `debug`,
//! which gdb finds by the build id ("Debugging Information in Separate Files"). Called by
//! `package`. Bound: the programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object as _};

use super::origin::output;

/// Puts each program into `folder`, stripped, and its symbols below `folder/debug`.
pub(super) fn split(programs: &[PathBuf], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for program in programs {
        let name = program.file_name().context("a program has a name")?;
        let bytes = fs::read(program).with_context(|| format!("no {}", program.display()))?;
        let id = build_id(&bytes).with_context(|| format!("{}", program.display()))?;
        let symbols = folder.join("debug").join(place(&id));
        fs::create_dir_all(symbols.parent().context("a file has a folder")?)?;
        output(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&symbols))?;
        let mut strip = Command::new("strip");
        output(strip.arg("--strip-unneeded").arg("-o").arg(folder.join(name)).arg(program))?;
    }
    Ok(())
}

fn build_id(bytes: &[u8]) -> Result<Vec<u8>> {
    let file = ElfFile::<FileHeader64<Endianness>>::parse(bytes)?;
    Ok(file.build_id()?.context("the linker gave it no build id")?.to_owned())
}

fn place(id: &[u8]) -> String {
    let hex: Vec<String> = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at(hex.len().min(1));
    format!("usr/lib/debug/.build-id/{}/{}.debug", first.concat(), rest.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_lie_where_gdb_looks() {
        assert_eq!(place(&[0xab, 1, 0xff]), "usr/lib/debug/.build-id/ab/01ff.debug");
    }

    #[test]
    fn a_program_is_split_in_two() {
        let folder = std::env::temp_dir().join(format!("xtask-split-{}", std::process::id()));
        let (source, program) = (folder.join("a.c"), folder.join("a"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&source, "static int f(void) { return 0; }\nint main(void) { return f(); }\n")
            .unwrap();
        let mut cc = Command::new("cc");
        output(cc.args(["-g", "-Wl,--build-id", "-o"]).arg(&program).arg(&source)).unwrap();
        split(std::slice::from_ref(&program), &folder.join("out")).unwrap();
        let stripped = fs::read(folder.join("out/a")).unwrap();
        let id = build_id(&stripped).unwrap();
        let symbols = fs::read(folder.join("out/debug").join(place(&id))).unwrap();
        let has = |bytes: &[u8]| {
            let file = ElfFile::<FileHeader64<Endianness>>::parse(bytes).unwrap();
            file.section_by_name(".debug_info").is_some()
        };
        assert!(has(&symbols) && !has(&stripped));
        fs::remove_dir_all(&folder).unwrap();
    }
}
