// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-top`: statistics of all endpoints on this machine, live.
//!
//! In: the statistics pages of all processes. Out: pages on a terminal, or plain tables; or once,
//! JSON; or text for Prometheus, once or over HTTP. It reads files only and needs no privilege.
//! Bound: the pages of one folder.

mod clock;
mod format;
mod live;
mod meaning;
mod plain;
mod prometheus;
mod rates;
mod serve;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;
use ofi_xdp_statistics::{FOLDER, Page, read_all};

/// Statistics of the endpoints of the xdp provider on this machine.
#[derive(Debug, Parser)]
#[command(name = "xdp-top", version)]
struct Cli {
    /// Print the pages once, as JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print the pages once, as text for Prometheus (text format, version 0.0.4)
    #[arg(long)]
    prometheus: bool,
    /// Serve the text for Prometheus at this address, or at this port of loopback: GET /metrics
    #[arg(long, value_name = "ADDRESS:PORT", requires = "prometheus")]
    #[arg(value_parser = serve::address)]
    listen: Option<SocketAddr>,
    /// Print tables as plain text, also on a terminal
    #[arg(long)]
    plain: bool,
    /// Print this number of tables as plain text
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Seconds between two tables
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = interval)]
    interval: f64,
    /// Folder of the pages
    #[arg(long, default_value = FOLDER, value_name = "FOLDER")]
    folder: PathBuf,
    /// Print the completions of this shell
    #[arg(long, hide = true, value_name = "SHELL")]
    completions: Option<Shell>,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{text:?} is not a number from 0.1 to 3600")),
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xdp-top: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    if let Some(shell) = cli.completions {
        clap_complete::generate(shell, &mut Cli::command(), "xdp-top", &mut std::io::stdout());
        return Ok(());
    }
    if cli.json {
        let text = serde_json::to_string_pretty(&pages(&cli.folder)?)?;
        plain::show(&(text + "\n"));
        return Ok(());
    }
    if let Some(address) = cli.listen {
        return serve::serve(&cli.folder, address);
    }
    if cli.prometheus {
        plain::show(&prometheus::text(&pages(&cli.folder)?));
        return Ok(());
    }
    if cli.count.is_none() && !cli.plain && live::is_interactive() {
        return live::run(&cli.folder, Duration::from_secs_f64(cli.interval));
    }
    print_tables(cli)
}

/// Prints tables, one behind the other.
fn print_tables(cli: &Cli) -> Result<()> {
    let mut before = (clock::now(), pages(&cli.folder)?);
    // bound: the count, a closed output, or a signal
    for _ in 0..cli.count.unwrap_or(u32::MAX) {
        std::thread::sleep(Duration::from_secs_f64(cli.interval));
        let now = (clock::now(), pages(&cli.folder)?);
        let elapsed = now.0.duration_since(before.0).as_secs_f64();
        if !plain::show(&plain::text(&before.1, &now.1, elapsed)) {
            break;
        }
        before = now;
    }
    Ok(())
}

fn pages(folder: &Path) -> Result<Vec<Page>> {
    read_all(folder).with_context(|| format!("cannot read {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        assert!(Cli::try_parse_from(["xdp-top", "--interval", "0"]).is_err());
        assert!(Cli::try_parse_from(["xdp-top", "--json", "--prometheus"]).is_err());
        assert!(Cli::try_parse_from(["xdp-top", "--listen", "9841"]).is_err());
        assert!(Cli::try_parse_from(["xdp-top", "--prometheus", "--listen", "9841"]).is_ok());
    }
}
