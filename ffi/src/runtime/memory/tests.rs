// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies from and to buffers of every shape.

use std::ffi::c_void;

use super::*;
use crate::sys::abi;

fn iov(parts: &mut [&mut [u8]]) -> Buffer {
    let iov: Vec<abi::iovec> = parts
        .iter_mut()
        .map(|part| abi::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
        .collect();
    Buffer::scattered(&iov).unwrap()
}

fn memory() -> AppMemory {
    let config = Config { sends: 2, recvs: 2, slices: 1, ..Config::new(ofi_xdp_checksum::crc32c) };
    AppMemory::new(&config, None).unwrap()
}

#[test]
fn scattered_bytes_are_gathered_from_any_offset() {
    let (mut a, mut b, mut c) = (*b"ab", *b"", *b"cdefg");
    let buffer = iov(&mut [&mut a, &mut b, &mut c]);
    let mut memory = memory();
    let op = OpId::new(1, 7);
    memory.attach_op(op, buffer);
    for offset in 0..7 {
        for len in 0..=7 - offset {
            let mut packet = vec![b'?'; len];
            memory.gather(
                Gather { source: Source::Op(op), offset: offset as u64, more: false },
                &mut packet,
            );
            assert_eq!(packet, b"abcdefg"[offset..offset + len]);
        }
    }
    // Beyond the end there are zeros, not other memory.
    let mut packet = [b'?'; 4];
    memory.gather(Gather { source: Source::Op(op), offset: 5, more: false }, &mut packet);
    assert_eq!(&packet, b"fg\0\0");
}

#[test]
fn an_injected_buffer_may_change_at_once() {
    let mut bytes = *b"before";
    let buffer = iov(&mut [&mut bytes]).injected().unwrap();
    let mut memory = memory();
    let op = OpId::new(0, 0);
    memory.attach_op(op, buffer);
    bytes.copy_from_slice(b"after!");
    let mut packet = [0; 6];
    memory.gather(Gather { source: Source::Op(op), offset: 0, more: false }, &mut packet);
    assert_eq!(&packet, b"before");
}

#[test]
fn placements_are_cut_to_the_buffer() {
    let (mut a, mut b) = ([0; 3], [0; 3]);
    let buffer = iov(&mut [&mut a, &mut b[..2]]);
    let mut memory = memory();
    let recv = RecvId::new(1, 3);
    memory.attach_recv(recv, buffer);
    memory.place(Placement { target: Target::Recv(recv), offset: 1, more: false }, b"123456");
    memory.place(Placement { target: Target::Recv(recv), offset: 99, more: false }, b"no");
    memory.place(Placement { target: Target::Recv(RecvId::NONE), offset: 0, more: false }, b"no");
    assert_eq!((&a, &b), (b"\x0012", b"34\0"));
}

#[test]
fn the_following_bytes_are_prefetched_as_far_as_there_are_any() {
    let (mut a, mut b) = ([0; 3], [0; 2]);
    let buffer = iov(&mut [&mut a, &mut b]);
    let mut memory = memory();
    let (recv, op) = (RecvId::new(1, 3), OpId::new(0, 0));
    memory.attach_recv(recv, buffer);
    memory.attach_op(op, buffer);
    for offset in 0..7 {
        memory.place(Placement { target: Target::Recv(recv), offset, more: true }, b"xy");
        let mut packet = [b'?'; 2];
        memory.gather(Gather { source: Source::Op(op), offset, more: true }, &mut packet);
        let expected = [b"xy", b"xy", b"xy", b"xy", b"x\0", b"\0\0", b"\0\0"];
        assert_eq!(&packet, expected[offset as usize]);
    }
    assert_eq!((&a, &b), (b"xxx", b"xx"));
}

#[test]
fn a_slice_is_the_rest_of_its_buffer() {
    let (mut a, mut b) = ([0; 3], [0; 4]);
    let buffer = iov(&mut [&mut a, &mut [], &mut b]);
    let mut memory = memory();
    let (whole, part) = (RecvId::new(1, 3), RecvId::new(2, 0));
    memory.attach_recv(whole, buffer);
    for (offset, expected) in [
        (0, a.as_ptr()),
        (2, a.as_ptr().wrapping_add(2)),
        (3, b.as_ptr()),
        (7, b.as_ptr().wrapping_add(4)),
    ] {
        memory.attach_slice(part, whole, offset);
        assert_eq!(memory.address_of(part), expected.addr());
    }
    memory.attach_slice(part, whole, 2);
    memory.place(Placement { target: Target::Recv(part), offset: 0, more: false }, b"12");
    memory.attach_slice(part, whole, 4);
    memory.place(Placement { target: Target::Recv(part), offset: 1, more: false }, b"345");
    assert_eq!((&a, &b), (b"\0\x001", b"2\x0034"));
    assert_eq!(memory.address_of(RecvId::NONE), 0);
}

#[test]
fn a_stored_message_is_delivered() {
    let mut bytes = [0; 4];
    let mut memory = memory();
    let (id, recv) = (UnexpectedId::new(0, 0), RecvId::new(0, 0));
    memory.place(Placement { target: Target::Unexpected(id), offset: 0, more: false }, b"ab");
    memory.place(Placement { target: Target::Unexpected(id), offset: 2, more: false }, b"cd");
    memory.attach_recv(recv, iov(&mut [&mut bytes]));
    memory.deliver(id, recv, 3);
    assert_eq!(&bytes, b"abc\0");
}

#[test]
fn long_messages_are_copied_whole() {
    let message: Vec<u8> = (0..INJECT_MAX).map(|at| (at % 251) as u8).collect();
    let mut memory = memory();
    for op in [OpId::new(0, 1), OpId::new(1, 1)] {
        let mut sent = message.clone();
        memory.attach_op(op, iov(&mut [&mut sent]).injected().unwrap());
        sent.fill(0);
    }
    for (op, offset) in [(0, 0), (1, 0), (0, 1), (1, 4095), (1, INJECT_MAX - 1)] {
        let source = Source::Op(OpId::new(op, 1));
        let mut packet = vec![0; INJECT_MAX - offset];
        memory.gather(Gather { source, offset: offset as u64, more: false }, &mut packet);
        assert_eq!(packet, message[offset..]);
    }
    let (mut a, mut b) = (vec![0; 5000], vec![0; INJECT_MAX - 5000]);
    let recv = RecvId::new(0, 0);
    memory.attach_recv(recv, iov(&mut [&mut a, &mut b]));
    memory.place(Placement { target: Target::Recv(recv), offset: 0, more: false }, &message);
    assert_eq!([a, b].concat(), message);
}

#[test]
fn impossible_buffers_are_refused() {
    let null = std::ptr::null_mut();
    assert!(Buffer::contiguous(null, 0).is_ok());
    assert_eq!(Buffer::contiguous(null, 1).err(), Some(Error::Invalid));
    let part = |iov_len| abi::iovec { iov_base: std::ptr::dangling_mut::<c_void>(), iov_len };
    assert!(Buffer::scattered(&[part(1); IOV_MAX]).is_ok());
    assert_eq!(Buffer::scattered(&[part(1); IOV_MAX + 1]).err(), Some(Error::Invalid));
    assert_eq!(Buffer::scattered(&[part(usize::MAX), part(1)]).err(), Some(Error::Invalid));
    let long = Buffer::scattered(&[part(INJECT_MAX), part(1)]).unwrap();
    assert_eq!(long.injected().err(), Some(Error::TooLong));
}
