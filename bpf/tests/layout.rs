// SPDX-License-Identifier: MIT OR Apache-2.0
//! `wire.h` repeats parts of the packet format and of `layout.rs`; these tests compare them.

use ofi_xdp_bpf::{QUEUES, SLOTS, Verdict};

const WIRE_H: &str = include_str!("../src/bpf/wire.h");

/// The value of `#define name value`.
fn define(name: &str) -> &str {
    WIRE_H
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter_map(|line| line.split_once(' '))
        .find(|(defined, _)| *defined == name)
        .unwrap_or_else(|| panic!("wire.h does not define {name}"))
        .1
        .trim()
}

fn number(name: &str) -> usize {
    define(name).parse().unwrap()
}

#[test]
fn constants_are_those_of_the_packet_format() {
    use ofi_xdp_core::wire;
    assert_eq!(number("WIRE_VERSION"), usize::from(wire::VERSION));
    assert_eq!(number("WIRE_PACKET_MIN"), wire::HEADER_LEN);
    // docs/PROTOCOL.md §3.1: byte 0, high nibble.
    assert_eq!((number("WIRE_VERSION_OFFSET"), number("WIRE_VERSION_SHIFT")), (0, 4));
    // §3.2: bytes 1 and 2.
    let byte = |name| u8::from_str_radix(define(name).trim_start_matches("0x"), 16);
    assert_eq!(byte("WIRE_DATA"), Ok(wire::PacketKind::Data as u8));
    assert_eq!(byte("WIRE_HEAD_CHECKSUM"), Ok(wire::Flags::HEAD_CHECKSUM.bits()));
    assert_eq!((number("WIRE_KIND_OFFSET"), number("WIRE_FLAGS_OFFSET")), (1, 2));
}

#[test]
fn map_sizes_are_those_of_the_loader() {
    assert_eq!(number("SOCKETS_MAX"), SLOTS as usize);
    assert_eq!(define("PORTS_MAX"), "SOCKETS_MAX");
    assert_eq!(number("QUEUES_MAX"), QUEUES as usize);
}

#[test]
fn verdicts_stand_in_the_same_order() {
    let (_, after) = WIRE_H.split_once("enum verdict {").unwrap();
    let (body, _) = after.split_once('}').unwrap();
    let names: Vec<String> = body
        .split(',')
        .map(|name| name.trim().to_lowercase())
        .filter(|name| !name.is_empty() && name != "verdicts")
        .collect();
    let expected: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
    assert_eq!(names, expected);
}

#[test]
fn the_count_of_passed_packets_has_a_cache_line_for_each_slot() {
    let (_, after) = WIRE_H.split_once("struct kernel_rx_line {").unwrap();
    let (body, _) = after.split_once('}').unwrap();
    let fields: Vec<&str> =
        body.lines().filter_map(|line| line.split_once(';')).map(|f| f.0.trim()).collect();
    assert_eq!(fields, ["__u64 packets", "__u64 other_queue", "__u64 unused[6]"]);
}

#[test]
fn the_port_entry_has_the_layout_of_the_loader() {
    let (_, after) = WIRE_H.split_once("struct port_entry {").unwrap();
    let (body, _) = after.split_once('}').unwrap();
    let fields: Vec<&str> = body
        .lines()
        .filter_map(|line| line.split_once(';'))
        .map(|(field, _)| field.trim())
        .collect();
    let expected = [
        "__u32 queue",
        "__u32 slot",
        "__u32 longest",
        "__u32 broadcast",
        "__u8 address[16]",
        "__u16 mac[3]",
        "__u16 any_payload",
        "__u8 further[QUEUES_MAX]",
    ];
    assert_eq!(fields, expected);
}
