// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_av(3)`.

use std::ffi::{CString, c_char, c_int, c_void};

use super::abi;
use super::{Answer, Context, Object, counted, done, is_fid};

/// `struct fid_av`.
#[derive(Debug)]
pub struct Av {
    pub(super) object: Object<abi::fid_av>,
}

is_fid!(Av);

impl Av {
    /// `fi_av_insert` of addresses one after the other in `packed`: how many were inserted, and the
    /// fabric addresses.
    pub fn insert_all(
        &self,
        packed: &[u8],
        count: usize,
        flags: u64,
        context: *mut c_void,
    ) -> Answer<(usize, Vec<u64>)> {
        let av = self.object.get();
        let mut peers = vec![0xdead_beef; count];
        let from = packed.as_ptr().cast();
        let inserted =
            counted(call!(fi_av_insert(av, from, count, peers.as_mut_ptr(), flags, context)))?;
        Ok((inserted, peers))
    }

    /// `fi_av_insert` that wants no fabric addresses back.
    pub fn insert_blind(&self, packed: &[u8], count: usize) -> Answer<usize> {
        let av = self.object.get();
        let (none, context) = (std::ptr::null_mut(), std::ptr::null_mut());
        counted(call!(fi_av_insert(av, packed.as_ptr().cast(), count, none, 0, context)))
    }

    /// `fi_av_insert` of one address.
    pub fn insert(&self, name: &[u8]) -> Answer<u64> {
        let (count, peers) = self.insert_all(name, 1, 0, Context::null().ptr())?;
        if count == 1 { Ok(peers[0]) } else { Err(super::Errno(abi::FI_EINVAL)) }
    }

    /// `fi_av_insertsvc`.
    pub fn insertsvc(&self, node: &str, service: &str) -> Answer<(usize, u64)> {
        let av = self.object.get();
        let (node, service) = (c_string(node), c_string(service));
        let (node, service) = (node.as_ptr(), service.as_ptr());
        let mut peer = 0xdead_beef;
        let context = std::ptr::null_mut();
        let count = counted(call!(fi_av_insertsvc(av, node, service, &raw mut peer, 0, context)))?;
        Ok((count, peer))
    }

    /// `fi_av_insertsym`.
    pub fn insertsym(
        &self,
        node: &str,
        nodes: usize,
        service: &str,
        services: usize,
    ) -> Answer<(usize, Vec<u64>)> {
        let av = self.object.get();
        let (node, service) = (c_string(node), c_string(service));
        let (node, service) = (node.as_ptr(), service.as_ptr());
        let mut peers = vec![0xdead_beef; nodes * services];
        let (to, context) = (peers.as_mut_ptr(), std::ptr::null_mut());
        let count =
            counted(call!(fi_av_insertsym(av, node, nodes, service, services, to, 0, context)))?;
        Ok((count, peers))
    }

    /// `fi_av_remove`.
    pub fn remove(&self, peers: &[u64]) -> Answer {
        let av = self.object.get();
        let mut peers = peers.to_vec();
        done(call!(fi_av_remove(av, peers.as_mut_ptr(), peers.len(), 0)))
    }

    /// `fi_av_lookup` into `room` bytes: the bytes that were written, and the address's length.
    pub fn lookup(&self, peer: u64, room: usize) -> Answer<(Vec<u8>, usize)> {
        let av = self.object.get();
        let mut name = vec![0_u8; room];
        let mut len = room;
        done(call!(fi_av_lookup(av, peer, name.as_mut_ptr().cast(), &raw mut len)))?;
        name.truncate(len);
        Ok((name, len))
    }

    /// `fi_av_straddr` into `room` bytes: the text and the length that it needs.
    pub fn straddr(&self, name: &[u8], room: usize) -> (String, usize) {
        let av = self.object.get();
        let mut text = vec![0_u8; room.max(1)];
        let mut len = room;
        let (from, to) = (name.as_ptr().cast(), text.as_mut_ptr().cast::<c_char>());
        let answer = call!(fi_av_straddr(av, from, to, &raw mut len));
        (super::info::text(answer), len)
    }

    /// `fi_av_set`: whether it is implemented.
    pub fn av_set(&self) -> Answer {
        let av = self.object.get();
        let (attr, mut set) = (std::ptr::null_mut(), std::ptr::null_mut());
        let code: c_int = call!(fi_av_set(av, attr, &raw mut set, std::ptr::null_mut()));
        done(code)
    }
}

/// `fi_rx_addr`: the address of a receive context of the scalable endpoint `peer`.
pub const fn rx_addr(peer: u64, context: u64, bits: u32) -> u64 {
    context << (u64::BITS - bits) | peer
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("no zero byte")
}
