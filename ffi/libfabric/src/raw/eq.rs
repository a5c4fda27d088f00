// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_eq(3)`.

use std::ffi::{c_char, c_int, c_void};

use super::abi;
use super::{Answer, Errno, Fid, Info, Object, is_fid, sized};

/// `struct fid_eq`.
#[derive(Debug)]
pub struct Eq {
    pub(super) object: Object<abi::fid_eq>,
}

is_fid!(Eq);

/// An event with its `struct fi_eq_entry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqEvent {
    /// The kind of event.
    pub event: u32,
    /// The object that the event is about.
    pub fid: *mut abi::fid,
    /// The context that this object was opened with, or that the call had.
    pub context: *mut c_void,
    /// A value that depends on the kind of event.
    pub data: u64,
    /// Bytes that the read answered.
    pub len: usize,
}

/// An event of connection management, with its `struct fi_eq_cm_entry`.
#[derive(Debug)]
pub struct CmEvent {
    /// The kind of event.
    pub event: u32,
    /// The object that the event is about.
    pub fid: *mut abi::fid,
    /// The entry that a connection request comes with.
    pub info: Option<Info>,
    /// Data that the other side has added.
    pub data: Vec<u8>,
}

/// An error event.
#[derive(Clone, Debug)]
pub struct EqError {
    /// The object that the event is about.
    pub fid: *mut abi::fid,
    /// The context that this object was opened with, or that the call had.
    pub context: *mut c_void,
    /// A value that depends on the kind of event.
    pub data: u64,
    /// The error.
    pub err: Errno,
    /// The provider's number of the error.
    pub prov_errno: c_int,
    /// Data that the other side has added.
    pub err_data: Vec<u8>,
}

const EMPTY: abi::fi_eq_entry =
    abi::fi_eq_entry { fid: std::ptr::null_mut(), context: std::ptr::null_mut(), data: 0 };

impl Eq {
    fn taken(event: u32, entry: abi::fi_eq_entry, len: usize) -> EqEvent {
        EqEvent { event, fid: entry.fid, context: entry.context, data: entry.data, len }
    }

    /// `fi_eq_read` into `room` bytes, at most those of an entry.
    pub fn read(&self, room: usize, flags: u64) -> Answer<EqEvent> {
        let eq = self.object.get();
        let (mut event, mut entry) = (0, EMPTY);
        let room = room.min(size_of_val(&entry));
        let to = (&raw mut entry).cast();
        let len = sized(call!(fi_eq_read(eq, &raw mut event, to, room, flags)))?;
        Ok(Self::taken(event, entry, len))
    }

    /// `fi_eq_sread`.
    pub fn sread(&self, timeout_ms: c_int) -> Answer<EqEvent> {
        let eq = self.object.get();
        let (mut event, mut entry) = (0, EMPTY);
        let (to, room) = ((&raw mut entry).cast(), size_of_val(&entry));
        let len = sized(call!(fi_eq_sread(eq, &raw mut event, to, room, timeout_ms, 0)))?;
        Ok(Self::taken(event, entry, len))
    }

    /// `fi_eq_sread` of an event of connection management: its kind, and the entry that a
    /// connection request comes with.
    pub fn sread_cm(&self, timeout_ms: c_int) -> Answer<(u32, Option<Info>)> {
        let eq = self.object.get();
        // SAFETY: zero is a value of every field: null pointers, counts and numbers.
        let mut entry: abi::fi_eq_cm_entry = unsafe { std::mem::zeroed() };
        let mut event = 0;
        let (to, room) = ((&raw mut entry).cast(), size_of_val(&entry));
        sized(call!(fi_eq_sread(eq, &raw mut event, to, room, timeout_ms, 0)))?;
        Ok((event, Info::adopted(entry.info)))
    }

    /// `fi_eq_read` of an event of connection management with up to `room` bytes of data.
    pub fn read_cm(&self, room: usize) -> Answer<CmEvent> {
        const ENTRY: usize = size_of::<abi::fi_eq_cm_entry>() / size_of::<u64>();
        let eq = self.object.get();
        // Words, so that the entry at the beginning is aligned.
        let mut words = vec![0_u64; ENTRY + room.div_ceil(size_of::<u64>())];
        let (mut event, to) = (0, words.as_mut_ptr());
        let len = size_of::<abi::fi_eq_cm_entry>() + room;
        let len = sized(call!(fi_eq_read(eq, &raw mut event, to.cast(), len, 0)))?;
        // SAFETY: the buffer begins with an entry, aligned, written by the call or zero.
        let entry = unsafe { &*to.cast::<abi::fi_eq_cm_entry>() };
        let (fid, info) = (entry.fid, Info::adopted(entry.info));
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        let data = bytes.take(len).skip(size_of::<abi::fi_eq_cm_entry>()).collect();
        Ok(CmEvent { event, fid, info, data })
    }

    /// `fi_eq_write` of an entry.
    pub fn write(&self, event: u32, context: *mut c_void, data: u64) -> Answer<usize> {
        let eq = self.object.get();
        let entry = abi::fi_eq_entry { fid: self.fid(), context, data };
        let (from, len) = ((&raw const entry).cast(), size_of_val(&entry));
        sized(call!(fi_eq_write(eq, event, from, len, 0)))
    }

    /// `fi_eq_readerr`.
    pub fn readerr(&self) -> Answer<EqError> {
        let eq = self.object.get();
        // SAFETY: zero is a value of every field: null pointers, counts and numbers.
        let mut entry: abi::fi_eq_err_entry = unsafe { std::mem::zeroed() };
        if sized(call!(fi_eq_readerr(eq, &raw mut entry, 0)))? == 0 {
            return Err(Errno(abi::FI_EAGAIN));
        }
        let abi::fi_eq_err_entry { fid, context, data, err, prov_errno, .. } = entry;
        let err_data = super::info::bytes(entry.err_data.cast(), entry.err_data_size);
        Ok(EqError { fid, context, data, err: Errno(err), prov_errno, err_data })
    }

    /// `fi_eq_strerror`.
    pub fn strerror(&self, prov_errno: c_int) -> String {
        let eq = self.object.get();
        let mut buffer = vec![0_u8; 128];
        let (to, len) = (buffer.as_mut_ptr().cast::<c_char>(), buffer.len());
        let data = std::ptr::null();
        let text = call!(fi_eq_strerror(eq, prov_errno, data, to, len));
        super::info::text(text)
    }
}
