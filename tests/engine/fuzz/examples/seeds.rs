// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the corpus: `cargo run --example seeds` in `tests/engine/fuzz`.
//!
//! Out: some tens of small files in `corpus/`, one idea each, always the same. libFuzzer starts
//! from them. Its new inputs go to the target folder, and an input that finds a fault becomes a
//! story here.

use std::fs;
use std::path::Path;

use ofi_xdp_core::wire::{self, PacketKind};
use ofi_xdp_fuzz::input::Input;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, bytes) in decode() {
        write(&corpus.join("decode"), &name, &bytes)?;
    }
    for seed in 0..16 {
        // Choices are bytes: any bytes are valid, and different lengths reach different depths.
        let bytes = random(seed, 64 << (seed % 4));
        write(&corpus.join("ingest"), &format!("random-{seed:02}"), &bytes)?;
        write(&corpus.join("operations"), &format!("random-{seed:02}"), &bytes)?;
        write(&corpus.join("agents"), &format!("random-{seed:02}"), &bytes)?;
        write(&corpus.join("connections"), &format!("random-{seed:02}"), &bytes)?;
    }
    for (name, bytes) in agents() {
        write(&corpus.join("agents"), name, &bytes)?;
    }
    for (name, bytes) in connections() {
        write(&corpus.join("connections"), name, &bytes)?;
    }
    for (name, bytes) in operations() {
        write(&corpus.join("operations"), name, &bytes)?;
    }
    Ok(())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(name), bytes)
}

/// One packet of each kind, with bodies of some lengths.
fn decode() -> Vec<(String, Vec<u8>)> {
    let kinds = [
        PacketKind::Ack,
        PacketKind::Hello,
        PacketKind::HelloAck,
        PacketKind::Retry,
        PacketKind::Reset,
        PacketKind::Ping,
        PacketKind::Close,
        PacketKind::Data,
    ];
    let mut files = Vec::new();
    for kind in kinds {
        for len in [0, 8, 16, 40] {
            let mut packet = vec![0; 32 + len];
            packet[0] = wire::VERSION << 4;
            packet[1] = kind as u8;
            wire::seal(&mut packet, crc32c::crc32c_append);
            files.push((format!("{kind:?}-{len}").to_lowercase(), packet));
        }
    }
    for kind in [0x10u8, 0x11, 0x12, 0x13, 0x20, 0x30, 0x31, 0x40, 0x41, 0x50] {
        let mut packet = vec![0; 32 + 64];
        packet[0] = wire::VERSION << 4;
        packet[1] = PacketKind::Data as u8;
        packet[32] = kind;
        packet[34] = 8;
        wire::seal(&mut packet, crc32c::crc32c_append);
        files.push((format!("record-{kind:02x}"), packet));
    }
    files
}

/// Short exchanges, in the bytes that `agents` reads.
fn agents() -> Vec<(&'static str, Vec<u8>)> {
    /// A request with one byte of data; a time in which it arrives; an acceptance; a rejection.
    const CONNECT: [u8; 3] = [0, 1, 7];
    const WAIT: [u8; 2] = [3, 2];
    const ACCEPT: [u8; 5] = [1, 0, 0, 0, 0];
    const REJECT: [u8; 5] = [1, 0, 0, 1, 0];
    vec![
        ("accepted", [&CONNECT[..], &WAIT, &ACCEPT, &WAIT].concat()),
        ("rejected", [&CONNECT[..], &WAIT, &REJECT, &WAIT].concat()),
        ("cancelled", [&CONNECT[..], &WAIT, &[2, 0, 0, 0], &WAIT].concat()),
        ("backlog", [&CONNECT.repeat(4)[..], &WAIT, &ACCEPT.repeat(4), &WAIT].concat()),
        ("no-answer", [&CONNECT[..], &[4, 3, 0, 0], &[3, 14, 3, 14]].concat()),
        ("bad-link", [&[4, 1, 1, 1], &CONNECT[..], &WAIT, &ACCEPT, &[3, 14]].concat()),
        ("forged", [&CONNECT[..], &WAIT, &[5, 0, 0, 0, 0, 4, 1, 0, 1, 0, 0, 1, 1]].concat()),
    ]
}

/// Short stories, in the bytes that `connections` reads.
fn connections() -> Vec<(&'static str, Vec<u8>)> {
    const OPEN: u8 = 0;
    const ROUNDS: u8 = 15;
    // Of the first and of the second connection, from the opener to the other side.
    let first = [0x13, 0, 0x01, 0, 40, 0];
    let second = [0x13, 1, 0x01, 0, 50, 1];
    let long = [0x13, 0, 0x01, 4, 255, 0];
    let pair = [OPEN, 0x10, ROUNDS];
    vec![
        ("two", [&pair[..], &first, &second, &[ROUNDS]].concat()),
        ("crossed", [&pair[..], &second, &first, &[8, 1, 0, 8, 0, 0, ROUNDS]].concat()),
        ("end-of-one", [&pair[..], &first, &second, &[5, 0, ROUNDS]].concat()),
        ("end-under-way", [&pair[..], &long, &second, &[8, 0, 0, 0x15, 0, ROUNDS]].concat()),
        ("both-end", [&pair[..], &long, &[5, 0, 0x15, 0, ROUNDS]].concat()),
        ("unexpected", [&pair[..], &[0x01, 0, 40, 0, ROUNDS, 0x13, 0, ROUNDS]].concat()),
        ("lost-hello", [&[OPEN, 6, 0, 0, 14][..], &first, &[ROUNDS]].concat()),
        ("refused-hello", [&[OPEN, 0x15, 0, ROUNDS][..], &first, &[ROUNDS]].concat()),
        ("again", [&pair[..], &[5, 0, 0x15, 0, ROUNDS, 13, 255, 13, 255], &pair, &first].concat()),
        ("silence", [&pair[..], &first, &[6, 0, 0, 13, 255, 13, 255, 14, 6, 0, 0, 14]].concat()),
    ]
}

/// Short stories, in the bytes that `operations` reads.
fn operations() -> Vec<(&'static str, Vec<u8>)> {
    const ROUNDS: u8 = 15;
    vec![
        ("one-message", vec![0x13, 0, 64, 0x00, 0, 32, ROUNDS]),
        ("unexpected", vec![0x00, 0, 32, ROUNDS, 0x13, 0, 64, ROUNDS]),
        ("many-packets", vec![0x13, 4, 255, 0x00, 4, 200, ROUNDS, ROUNDS]),
        ("lost-hello", vec![0x00, 0, 32, 7, 0, 0, 14, ROUNDS]),
        ("crossed-hellos", vec![0x00, 0, 8, 0x10, 1, 8, ROUNDS]),
        ("no-room", [[0x00, 4, 255].repeat(8), vec![ROUNDS], [0x13, 4, 255].repeat(8)].concat()),
        ("repeated", vec![0x13, 0, 64, 0x00, 0, 32, 8, 0, 0, 8, 0, 0, ROUNDS, 8, 0, 0, ROUNDS]),
        ("write-and-read", vec![0x02, 0x10, 99, 1, 0x12, 0x02, 99, 1, ROUNDS, ROUNDS]),
        ("fetch-add", vec![0x02, 4, 0, 0, 0x02, 4, 0, 0, 0x12, 5, 0, 0, ROUNDS, ROUNDS]),
        ("wrong-key", vec![0x02, 0xc0, 9, 0, 0x02, 0xc2, 9, 0, 0x02, 0xc4, 0, 0, ROUNDS]),
        ("region-renewed", vec![0x02, 0x02, 200, 0, 0x12, 0xe0, 0, 0, ROUNDS]),
        ("fence", vec![0x02, 0, 99, 0, 0x02, 0x0a, 9, 0, 0x02, 0x0c, 0, 0, ROUNDS, ROUNDS]),
        ("rendezvous", vec![0x13, 4, 255, 0x00, 4, 255, ROUNDS, ROUNDS, ROUNDS]),
        // A long message was announced, the peer was removed, then a receive was posted.
        ("announced-then-removed", vec![0x81, 0x66, 0xff, 0xff, 0xad, 0xd1, 0xfa, 0xf6, 0x51]),
        // A receive of no bytes matches a long message while others wait for their rendezvous.
        (
            "rendezvous-without-bytes",
            hex(&["020004ff0004ff0004ff0004ff0004ff0004ff1304ff1304ffff13040000000f"]),
        ),
        // An accepted peer became silent before its hello was answered.
        (
            "accepted-and-idle",
            hex(&[
                "cabe12618618000000306c12443af5501139c30000f4ec0d64ba4aec7295c000",
                "00096d3272af914965f4ecf64bfc0100004627dd9b4dd60d64badd9b4dd672af",
                "91494965f4ecf4ec6d3272af914965f4ec65f4ecf64bfcc27e425a27dd9b4dd6",
                "0d64ba4add9b4dd60d64ba4aec7295c00965f4ecec",
            ]),
        ),
        ("removed", vec![0x00, 4, 99, ROUNDS, 0x00, 4, 255, 6, 0, ROUNDS]),
        // Each side gave up before the hello of the other arrived: the numbers must still agree.
        (
            "stale-hellos",
            vec![0x20, 0x5d, 0x50, 0xa0, 0x36, 0x80, 0x3d, 0xb6, 0xad, 0xeb, 0x2f, 0x20, 0xe1],
        ),
        ("peer-timeout", vec![0x00, 0, 32, 7, 0, 0, 13, 255, 13, 255, 14, 7, 0, 0, 14]),
    ]
}

/// Bytes from their hexadecimal digits, as libFuzzer's findings are best kept.
fn hex(lines: &[&str]) -> Vec<u8> {
    let digits = lines.concat();
    let pairs = (0..digits.len()).step_by(2);
    pairs.filter_map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

/// `count` bytes that follow from `seed` (`SplitMix64`).
fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    let mut input = Input::new(&bytes);
    input.slice(count).to_vec()
}
