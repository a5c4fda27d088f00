// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulated cards, a pair for each driver, each pair between two hosts of its own.

use std::fs;

use anyhow::Context;

use ofi_xdp_tests::bed::{Bed, PATIENCE};
use ofi_xdp_tests::process::Program;
use ofi_xdp_tests::topology::TwoHosts;

/// A pair of cards; the number is in their link-layer addresses (`xtask/src/vm/machine.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pair {
    /// virtio-net whose buffers the kernel maps: zero-copy.
    Zerocopy = 0,
    /// virtio-net as it is by default: no zero-copy.
    Plain = 1,
    /// e1000e, whose driver has no XDP at all.
    E1000e = 2,
    /// igb, a second driver with zero-copy; only newer emulators have it.
    Igb = 3,
}

/// Every pair in its place.
#[derive(Debug)]
pub(crate) struct Cards {
    /// [`Pair::Zerocopy`].
    pub(crate) zerocopy: Bed,
    /// [`Pair::Plain`].
    pub(crate) plain: Bed,
    /// [`Pair::E1000e`].
    pub(crate) e1000e: Bed,
    /// [`Pair::Igb`], where the emulator has it.
    pub(crate) igb: Option<Bed>,
}

impl Cards {
    /// Gives every card to its host.
    ///
    /// # Errors
    /// When one is missing.
    pub(crate) fn deal() -> anyhow::Result<Self> {
        Ok(Self {
            zerocopy: bed(Pair::Zerocopy)?,
            plain: bed(Pair::Plain)?,
            e1000e: bed(Pair::E1000e)?,
            igb: if has(Pair::Igb)? { Some(igb()?) } else { None },
        })
    }
}

/// The bed of one pair.
///
/// # Errors
/// When a card is missing.
pub(crate) fn bed(pair: Pair) -> anyhow::Result<Bed> {
    let devices = [device(pair, 0)?, device(pair, 1)?];
    Bed::on(TwoHosts::with_devices([&devices[0], &devices[1]])?)
}

/// Cards of igb, each with one queue: packets then find the socket.
fn igb() -> anyhow::Result<Bed> {
    for end in 0..2 {
        let device = device(Pair::Igb, end)?;
        let set = Program::new("ethtool").args(["--set-channels", &device, "combined", "1"]);
        set.run(PATIENCE)?.success()?;
    }
    bed(Pair::Igb)
}

/// Whether there is such a pair.
fn has(pair: Pair) -> anyhow::Result<bool> {
    Ok(find(pair, 0)?.is_ok())
}

/// The name of a card.
fn device(pair: Pair, end: u8) -> anyhow::Result<String> {
    find(pair, end)?.map_err(|seen| anyhow::anyhow!("no card of {pair:?}; there are {seen:?}"))
}

/// The name of a card, or the addresses of those that there are.
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
