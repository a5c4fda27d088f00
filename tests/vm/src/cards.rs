// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulated cards: a pair for each driver, each pair between two hosts of its own.

use std::fs;

use anyhow::Context;

use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::topology::TwoHosts;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};

/// A test: its name, and a function of the cards.
pub(crate) type Test = (&'static str, fn(&Cards) -> anyhow::Result<()>);

/// A pair of cards; its number is part of their link-layer addresses (`xtask/src/vm/machine.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pair {
    /// virtio-net with buffers that the kernel maps: zero-copy.
    Zerocopy = 0,
    /// virtio-net with default settings: no zero-copy.
    Plain = 1,
    /// e1000e: its driver has no XDP.
    E1000e = 2,
    /// igb: a second driver with zero-copy. Only newer emulators have it.
    Igb = 3,
}

/// All pairs, each as a fixture.
#[derive(Debug)]
pub(crate) struct Cards {
    /// [`Pair::Zerocopy`].
    pub(crate) zerocopy: TwoHostFixture,
    /// [`Pair::Plain`].
    pub(crate) plain: TwoHostFixture,
    /// [`Pair::E1000e`].
    pub(crate) e1000e: TwoHostFixture,
    /// [`Pair::Igb`], if the emulator has it.
    pub(crate) igb: Option<TwoHostFixture>,
}

impl Cards {
    /// Moves every card to its host.
    ///
    /// # Errors
    /// When one is missing.
    pub(crate) fn deal() -> anyhow::Result<Self> {
        Ok(Self {
            zerocopy: fixture(Pair::Zerocopy)?,
            plain: fixture(Pair::Plain)?,
            e1000e: fixture(Pair::E1000e)?,
            igb: if has(Pair::Igb)? { Some(igb()?) } else { None },
        })
    }
}

/// The fixture of one pair.
///
/// # Errors
/// When a card is missing.
pub(crate) fn fixture(pair: Pair) -> anyhow::Result<TwoHostFixture> {
    let devices = [device(pair, 0)?, device(pair, 1)?];
    TwoHostFixture::on(TwoHosts::with_devices([&devices[0], &devices[1]])?)
}

/// Cards of igb, each with one queue: packets then find the socket.
fn igb() -> anyhow::Result<TwoHostFixture> {
    for end in 0..2 {
        let device = device(Pair::Igb, end)?;
        let set = Program::new("ethtool").args(["--set-channels", &device, "combined", "1"]);
        set.run(TIMEOUT)?.success()?;
    }
    fixture(Pair::Igb)
}

/// Whether the machine has such a pair.
fn has(pair: Pair) -> anyhow::Result<bool> {
    Ok(find(pair, 0)?.is_ok())
}

/// The name of a card.
fn device(pair: Pair, end: u8) -> anyhow::Result<String> {
    find(pair, end)?.map_err(|seen| anyhow::anyhow!("no card of {pair:?}; there are {seen:?}"))
}

/// The name of a card, or the addresses of the existing ones.
fn find(pair: Pair, end: u8) -> anyhow::Result<Result<String, Vec<String>>> {
    let wanted = format!("02:fd:00:00:{:02x}:{end:02x}", pair as u8);
    let mut seen = Vec::new();
    for entry in fs::read_dir("/sys/class/net")? {
        let entry = entry?;
        let address = fs::read_to_string(entry.path().join("address")).unwrap_or_default();
        if address.trim() == wanted {
            return Ok(Ok(entry.file_name().into_string().ok().context("a strange name")?));
        }
        seen.push(address);
    }
    Ok(Err(seen))
}
