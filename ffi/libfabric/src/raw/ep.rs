// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_endpoint(3)`, `fi_cm(3)` and `fi_msg(3)`.

use std::ffi::{c_int, c_void};

use super::abi;
use super::mem::iovecs;
use super::{Answer, Context, Fid, Mem, Object, counted, done, empty_slots, is_fid, posted, sized};

/// `struct fid_ep`: an endpoint, a scalable one, a context of that, or a shared receive context.
#[derive(Debug)]
pub struct Ep {
    pub(super) object: Object<abi::fid_ep>,
}

is_fid!(Ep);

/// The arguments of the `msg` variants: `struct fi_msg`.
#[derive(Clone, Debug)]
pub struct Message {
    /// Local buffers, in order.
    pub parts: Vec<Mem>,
    /// The peer.
    pub peer: u64,
    /// The context that the completion gives back.
    pub context: Context,
    /// Remote CQ data.
    pub data: u64,
}

impl Message {
    /// One buffer, no data.
    pub fn new(mem: Mem, peer: u64, context: Context) -> Self {
        Self { parts: vec![mem], peer, context, data: 0 }
    }
}

impl Ep {
    /// `fi_enable`.
    pub fn enable(&self) -> Answer {
        self.control(abi::FI_ENABLE, std::ptr::null_mut())
    }

    /// `fi_cancel`.
    pub fn cancel(&self, context: *mut c_void) -> Answer {
        let ep = self.object.get();
        posted(call!(fi_cancel(ep, context)))
    }

    /// `fi_getopt` into `room` bytes: the bytes that it wrote.
    pub fn getopt(&self, level: c_int, name: c_int, room: usize) -> Answer<Vec<u8>> {
        let ep = self.object.get();
        let mut value = vec![0_u8; room];
        let mut len = room;
        let to = value.as_mut_ptr().cast();
        done(call!(fi_getopt(ep, level, name, to, &raw mut len)))?;
        value.truncate(len);
        Ok(value)
    }

    /// `fi_setopt`.
    pub fn setopt(&self, level: c_int, name: c_int, value: &[u8]) -> Answer {
        let ep = self.object.get();
        let from = value.as_ptr().cast();
        done(call!(fi_setopt(ep, level, name, from, value.len())))
    }

    /// `fi_rx_size_left`.
    pub fn rx_size_left(&self) -> Answer<usize> {
        let ep = self.object.get();
        sized(call!(fi_rx_size_left(ep)))
    }

    /// `fi_tx_size_left`.
    pub fn tx_size_left(&self) -> Answer<usize> {
        let ep = self.object.get();
        sized(call!(fi_tx_size_left(ep)))
    }

    /// `fi_getname` with `room` bytes: the address and its whole length, or the error and that
    /// length.
    pub fn getname(&self, room: usize) -> (Answer<Vec<u8>>, usize) {
        let ep = self.object.get();
        let mut name = vec![0_u8; room];
        let mut len = room;
        let answer = done(call!(fi_getname(ep, name.as_mut_ptr().cast(), &raw mut len)));
        name.truncate(len);
        (answer.map(|()| name), len)
    }

    /// `fi_setname`.
    pub fn setname(&self, name: &[u8]) -> Answer {
        let ep = self.object.get();
        let mut name = name.to_vec();
        done(call!(fi_setname(ep, name.as_mut_ptr().cast(), name.len())))
    }

    /// `fi_getpeer`.
    pub fn getpeer(&self) -> Answer<Vec<u8>> {
        let ep = self.object.get();
        let mut name = vec![0_u8; 64];
        let mut len = name.len();
        done(call!(fi_getpeer(ep, name.as_mut_ptr().cast(), &raw mut len)))?;
        name.truncate(len);
        Ok(name)
    }

    /// `fi_connect` to an address.
    pub fn connect(&self, name: &[u8]) -> Answer {
        self.connect_with(name, &[])
    }

    /// `fi_connect` to an address, with data for the listener.
    pub fn connect_with(&self, name: &[u8], data: &[u8]) -> Answer {
        let ep = self.object.get();
        let (to, param) = (name.as_ptr().cast(), data.as_ptr().cast());
        done(call!(fi_connect(ep, to, param, data.len())))
    }

    /// `fi_accept`.
    pub fn accept(&self) -> Answer {
        self.accept_with(&[])
    }

    /// `fi_accept`, with data for the peer.
    pub fn accept_with(&self, data: &[u8]) -> Answer {
        let ep = self.object.get();
        done(call!(fi_accept(ep, data.as_ptr().cast(), data.len())))
    }

    /// `fi_shutdown`.
    pub fn shutdown(&self) -> Answer {
        let ep = self.object.get();
        done(call!(fi_shutdown(ep, 0)))
    }

    /// `fi_ep_alias`.
    pub fn alias(&self, flags: u64) -> Answer<Self> {
        let mut alias = std::ptr::null_mut();
        let mut argument = abi::fi_alias { fid: &raw mut alias, flags };
        self.control(abi::FI_ALIAS, (&raw mut argument).cast())?;
        Ok(Self { object: Object::new(alias.cast()) })
    }

    /// `fi_control(FI_GETOPSFLAG)` for the direction that `flags` names.
    pub fn op_flags(&self, direction: u64) -> Answer<u64> {
        let mut flags = direction;
        self.control(abi::FI_GETOPSFLAG, (&raw mut flags).cast())?;
        Ok(flags)
    }

    /// `fi_control(FI_SETOPSFLAG)`.
    pub fn set_op_flags(&self, mut flags: u64) -> Answer {
        self.control(abi::FI_SETOPSFLAG, (&raw mut flags).cast())
    }

    /// `fi_tx_context`; the provider writes to `attr`.
    pub fn tx_context(&self, index: c_int, attr: Option<&mut abi::fi_tx_attr>) -> Answer<Self> {
        let ep = self.object.get();
        let attr = attr.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let (mut tx, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        done(call!(fi_tx_context(ep, index, attr, &raw mut tx, none)))?;
        Ok(Self { object: Object::new(tx) })
    }

    /// `fi_rx_context`; the provider writes to `attr`.
    pub fn rx_context(&self, index: c_int, attr: Option<&mut abi::fi_rx_attr>) -> Answer<Self> {
        let ep = self.object.get();
        let attr = attr.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let (mut rx, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        done(call!(fi_rx_context(ep, index, attr, &raw mut rx, none)))?;
        Ok(Self { object: Object::new(rx) })
    }

    /// A barrier of all peers (`fi_collective(3)`): whether it is implemented.
    pub fn barrier(&self) -> Answer {
        let ep = self.object.get();
        posted(call!(fi_barrier(ep, 0, std::ptr::null_mut())))
    }

    /// `fi_send`.
    pub fn send(&self, mem: Mem, peer: u64, context: Context) -> Answer {
        self.send_with(mem, std::ptr::null_mut(), peer, context)
    }

    /// `fi_send` with a region's descriptor.
    #[inline]
    pub fn send_with(&self, mem: Mem, desc: *mut c_void, peer: u64, context: Context) -> Answer {
        let ep = self.object.get();
        posted(call!(fi_send(ep, mem.ptr(), mem.len(), desc, peer, context.ptr())))
    }

    /// `fi_sendv`.
    pub fn sendv(&self, parts: &[Mem], peer: u64, context: Context) -> Answer {
        let ep = self.object.get();
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (from, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_sendv(ep, from, desc, count, peer, context.ptr())))
    }

    /// `fi_sendmsg`.
    pub fn sendmsg(&self, message: &Message, flags: u64) -> Answer {
        let ep = self.object.get();
        let iov = iovecs(&message.parts);
        let arguments = message.arguments(&iov);
        posted(call!(fi_sendmsg(ep, &raw const arguments, flags)))
    }

    /// `fi_sendmsg` of one buffer, without an allocation.
    #[inline]
    pub fn send_flags(&self, mem: Mem, peer: u64, context: Context, flags: u64) -> Answer {
        let ep = self.object.get();
        let iov = mem.iovec();
        let arguments = abi::fi_msg {
            msg_iov: &raw const iov,
            desc: std::ptr::null_mut(),
            iov_count: 1,
            addr: peer,
            context: context.ptr(),
            data: 0,
        };
        posted(call!(fi_sendmsg(ep, &raw const arguments, flags)))
    }

    /// `fi_inject`.
    #[inline]
    pub fn inject(&self, mem: Mem, peer: u64) -> Answer {
        let ep = self.object.get();
        posted(call!(fi_inject(ep, mem.ptr(), mem.len(), peer)))
    }

    /// `fi_senddata`.
    pub fn senddata(&self, mem: Mem, data: u64, peer: u64, context: Context) -> Answer {
        let ep = self.object.get();
        let (from, len, desc) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        posted(call!(fi_senddata(ep, from, len, desc, data, peer, context.ptr())))
    }

    /// `fi_injectdata`.
    pub fn injectdata(&self, mem: Mem, data: u64, peer: u64) -> Answer {
        let ep = self.object.get();
        posted(call!(fi_injectdata(ep, mem.ptr(), mem.len(), data, peer)))
    }

    /// `fi_recv`.
    pub fn recv(&self, mem: Mem, peer: u64, context: Context) -> Answer {
        self.recv_with(mem, std::ptr::null_mut(), peer, context)
    }

    /// `fi_recv` with a region's descriptor.
    #[inline]
    pub fn recv_with(&self, mem: Mem, desc: *mut c_void, peer: u64, context: Context) -> Answer {
        let ep = self.object.get();
        posted(call!(fi_recv(ep, mem.ptr(), mem.len(), desc, peer, context.ptr())))
    }

    /// `fi_recvv`.
    pub fn recvv(&self, parts: &[Mem], peer: u64, context: Context) -> Answer {
        let ep = self.object.get();
        let (iov, desc) = (iovecs(parts), std::ptr::null_mut());
        let (to, count) = (iov.as_ptr(), iov.len());
        posted(call!(fi_recvv(ep, to, desc, count, peer, context.ptr())))
    }

    /// `fi_recvmsg`.
    pub fn recvmsg(&self, message: &Message, flags: u64) -> Answer {
        let ep = self.object.get();
        let iov = iovecs(&message.parts);
        let arguments = message.arguments(&iov);
        posted(call!(fi_recvmsg(ep, &raw const arguments, flags)))
    }

    /// The number that `fi_getopt` gives for `name` of level `FI_OPT_ENDPOINT`.
    pub fn number(&self, name: c_int) -> Answer<usize> {
        let bytes = self.getopt(abi::FI_OPT_ENDPOINT, name, size_of::<usize>())?;
        let bytes = bytes.try_into().map_err(|_| super::Errno(abi::FI_ETOOSMALL))?;
        Ok(usize::from_ne_bytes(bytes))
    }

    /// `fi_atomicvalid`, `fi_fetch_atomicvalid` or `fi_compare_atomicvalid`, by `flags`: elements.
    pub fn atomic_valid(
        &self,
        datatype: abi::fi_datatype,
        op: abi::fi_op,
        flags: u64,
    ) -> Answer<usize> {
        let ep = self.object.get();
        let mut count = 0;
        let to = &raw mut count;
        let code = if flags == abi::FI_FETCH_ATOMIC {
            call!(fi_fetch_atomicvalid(ep, datatype, op, to))
        } else if flags == abi::FI_COMPARE_ATOMIC {
            call!(fi_compare_atomicvalid(ep, datatype, op, to))
        } else {
            call!(fi_atomicvalid(ep, datatype, op, to))
        };
        counted(code).map(|_| count)
    }

    /// The name of each operation table, and how many of its slots are NULL.
    pub fn empty_slots(&self) -> Vec<(&'static str, usize)> {
        // SAFETY: the endpoint is open (`Object`).
        let ep = unsafe { *self.raw() };
        vec![
            ("ops", empty_slots(ep.fid.ops)),
            ("ep", empty_slots(ep.ops)),
            ("cm", empty_slots(ep.cm)),
            ("msg", empty_slots(ep.msg)),
            ("rma", empty_slots(ep.rma)),
            ("tagged", empty_slots(ep.tagged)),
            ("atomic", empty_slots(ep.atomic)),
            ("collective", empty_slots(ep.collective)),
        ]
    }

    /// The endpoint, for the other files of this folder.
    pub(super) fn raw(&self) -> *mut abi::fid_ep {
        self.object.get()
    }
}

impl Message {
    fn arguments(&self, iov: &[abi::iovec]) -> abi::fi_msg {
        abi::fi_msg {
            msg_iov: iov.as_ptr(),
            desc: std::ptr::null_mut(),
            iov_count: iov.len(),
            addr: self.peer,
            context: self.context.ptr(),
            data: self.data,
        }
    }
}
