// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_fabric(3)`, `fi_domain(3)` and `fi_poll(3)`.

use std::ffi::{c_int, c_void};

use super::abi;
use super::{
    Answer, Av, Cntr, Context, Cq, Ep, Eq, Fid, Info, Mem, Mr, Object, counted, done, empty_slots,
    is_fid,
};

/// `struct fid_fabric`.
#[derive(Debug)]
pub struct Fabric {
    pub(super) object: Object<abi::fid_fabric>,
}

/// `struct fid_domain`.
#[derive(Debug)]
pub struct Domain {
    pub(super) object: Object<abi::fid_domain>,
}

/// `struct fid_poll`.
#[derive(Debug)]
pub struct Poll {
    pub(super) object: Object<abi::fid_poll>,
}

/// `struct fid_wait`.
#[derive(Debug)]
pub struct WaitSet {
    pub(super) object: Object<abi::fid_wait>,
}

/// `struct fid_pep`.
#[derive(Debug)]
pub struct Pep {
    pub(super) object: Object<abi::fid_pep>,
}

/// A shared transmit context.
#[derive(Debug)]
pub struct Stx {
    pub(super) object: Object<abi::fid_stx>,
}

is_fid!(Fabric, Domain, Pep, Poll, WaitSet, Stx);

impl Fabric {
    /// `fi_fabric`.
    pub fn open(info: &Info, context: Context) -> Answer<Self> {
        let mut fabric = std::ptr::null_mut();
        // SAFETY: the attributes belong to a complete entry.
        let code =
            unsafe { abi::fi_fabric(info.entry().fabric_attr, &raw mut fabric, context.ptr()) };
        done(code)?;
        Ok(Self { object: Object::new(fabric) })
    }

    /// `fi_domain`.
    pub fn domain(&self, info: &Info, context: Context) -> Answer<Domain> {
        let fabric = self.object.get();
        let mut domain = std::ptr::null_mut();
        done(call!(fi_domain(fabric, info.ptr(), &raw mut domain, context.ptr())))?;
        Ok(Domain { object: Object::new(domain) })
    }

    /// `fi_eq_open`.
    pub fn eq(&self, attr: &mut abi::fi_eq_attr, context: Context) -> Answer<Eq> {
        let fabric = self.object.get();
        let mut eq = std::ptr::null_mut();
        done(call!(fi_eq_open(fabric, attr, &raw mut eq, context.ptr())))?;
        Ok(Eq { object: Object::new(eq) })
    }

    /// `fi_wait_open`.
    pub fn wait_set(&self, attr: &mut abi::fi_wait_attr) -> Answer<WaitSet> {
        let fabric = self.object.get();
        let mut set = std::ptr::null_mut();
        done(call!(fi_wait_open(fabric, attr, &raw mut set)))?;
        Ok(WaitSet { object: Object::new(set) })
    }

    /// `fi_passive_ep`.
    pub fn passive_ep(&self, info: &Info) -> Answer<Pep> {
        let fabric = self.object.get();
        let mut pep = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        done(call!(fi_passive_ep(fabric, info.ptr(), &raw mut pep, context)))?;
        Ok(Pep { object: Object::new(pep) })
    }

    /// `fi_trywait`.
    pub fn trywait(&self, objects: &[&dyn Fid]) -> Answer {
        let fabric = self.object.get();
        let mut fids: Vec<*mut abi::fid> = objects.iter().map(|object| object.fid()).collect();
        done(call!(fi_trywait(fabric, fids.as_mut_ptr(), fids.len() as c_int)))
    }
}

impl Domain {
    /// `fi_endpoint`.
    pub fn endpoint(&self, info: &Info, context: Context) -> Answer<Ep> {
        let domain = self.object.get();
        let mut ep = std::ptr::null_mut();
        done(call!(fi_endpoint(domain, info.ptr(), &raw mut ep, context.ptr())))?;
        Ok(Ep { object: Object::new(ep) })
    }

    /// `fi_scalable_ep`.
    pub fn scalable_ep(&self, info: &Info) -> Answer<Ep> {
        let domain = self.object.get();
        let mut ep = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        done(call!(fi_scalable_ep(domain, info.ptr(), &raw mut ep, context)))?;
        Ok(Ep { object: Object::new(ep) })
    }

    /// `fi_srx_context`.
    pub fn srx(&self, info: &Info) -> Answer<Ep> {
        let domain = self.object.get();
        let mut ep = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        done(call!(fi_srx_context(domain, info.entry().rx_attr, &raw mut ep, context)))?;
        Ok(Ep { object: Object::new(ep) })
    }

    /// `fi_stx_context`, with the attributes of `info`.
    pub fn stx(&self, info: Option<&Info>) -> Answer<Stx> {
        let domain = self.object.get();
        let attr = info.map_or(std::ptr::null_mut(), |info| info.entry().tx_attr);
        let mut stx = std::ptr::null_mut();
        let context = std::ptr::null_mut();
        done(call!(fi_stx_context(domain, attr, &raw mut stx, context)))?;
        Ok(Stx { object: Object::new(stx) })
    }

    /// `fi_cq_open`; `attr` is written to where the provider chooses.
    pub fn cq(&self, attr: &mut abi::fi_cq_attr, context: Context) -> Answer<Cq> {
        let domain = self.object.get();
        let mut cq = std::ptr::null_mut();
        done(call!(fi_cq_open(domain, attr, &raw mut cq, context.ptr())))?;
        Ok(Cq { object: Object::new(cq), format: attr.format })
    }

    /// `fi_cntr_open` of a counter that can be waited for.
    pub fn cntr(&self) -> Answer<Cntr> {
        self.cntr_named(Context::null())
    }

    /// `fi_cntr_open` with a context.
    pub fn cntr_named(&self, context: Context) -> Answer<Cntr> {
        let domain = self.object.get();
        let attr = &mut abi::fi_cntr_attr {
            events: abi::FI_CNTR_EVENTS_COMP,
            wait_obj: abi::FI_WAIT_UNSPEC,
            wait_set: std::ptr::null_mut(),
            flags: 0,
        };
        let mut cntr = std::ptr::null_mut();
        done(call!(fi_cntr_open(domain, attr, &raw mut cntr, context.ptr())))?;
        Ok(Cntr { object: Object::new(cntr) })
    }

    /// `fi_av_open`.
    pub fn av(&self, attr: &mut abi::fi_av_attr, context: Context) -> Answer<Av> {
        let domain = self.object.get();
        let mut av = std::ptr::null_mut();
        done(call!(fi_av_open(domain, attr, &raw mut av, context.ptr())))?;
        Ok(Av { object: Object::new(av) })
    }

    /// `fi_poll_open`.
    pub fn poll_set(&self, flags: u64) -> Answer<Poll> {
        let domain = self.object.get();
        let mut attr = abi::fi_poll_attr { flags };
        let mut poll = std::ptr::null_mut();
        done(call!(fi_poll_open(domain, &raw mut attr, &raw mut poll)))?;
        Ok(Poll { object: Object::new(poll) })
    }

    /// `fi_query_atomic`: elements per operation and bytes per element.
    pub fn query_atomic(
        &self,
        datatype: abi::fi_datatype,
        op: abi::fi_op,
        flags: u64,
    ) -> Answer<(usize, usize)> {
        let domain = self.object.get();
        let mut attr = abi::fi_atomic_attr { count: 0, size: 0 };
        done(call!(fi_query_atomic(domain, datatype, op, &raw mut attr, flags)))?;
        Ok((attr.count, attr.size))
    }

    /// `fi_mr_map_raw`: the key to use.
    pub fn map_raw(&self, base_addr: u64, raw_key: &[u8]) -> Answer<u64> {
        let mut key = abi::FI_KEY_NOTAVAIL;
        let mut map = abi::fi_mr_map_raw {
            flags: 0,
            base_addr,
            raw_key: raw_key.as_ptr().cast_mut(),
            key_size: raw_key.len(),
            key: &raw mut key,
        };
        self.control(abi::FI_MAP_RAW_MR, (&raw mut map).cast())?;
        Ok(key)
    }

    /// `fi_mr_unmap_key`.
    pub fn unmap_key(&self, mut key: u64) -> Answer {
        self.control(abi::FI_UNMAP_KEY, (&raw mut key).cast())
    }

    /// `fi_mr_reg`.
    pub fn mr(&self, mem: Mem, access: u64, key: u64) -> Answer<Mr> {
        self.mr_with(mem, access, 0, key, 0)
    }

    /// `fi_mr_reg` with every argument.
    pub fn mr_with(&self, mem: Mem, access: u64, offset: u64, key: u64, flags: u64) -> Answer<Mr> {
        let domain = self.object.get();
        let (memory, len, context) = (mem.ptr(), mem.len(), std::ptr::null_mut());
        let mut mr = std::ptr::null_mut();
        done(call!(fi_mr_reg(
            domain,
            memory,
            len,
            access,
            offset,
            key,
            flags,
            &raw mut mr,
            context
        )))?;
        Ok(Mr { object: Object::new(mr) })
    }

    /// `fi_mr_regv`.
    pub fn mr_v(&self, parts: &[Mem], access: u64, key: u64) -> Answer<Mr> {
        let domain = self.object.get();
        let iov = super::mem::iovecs(parts);
        let (iov, count, context) = (iov.as_ptr(), iov.len(), std::ptr::null_mut());
        let mut mr = std::ptr::null_mut();
        done(call!(fi_mr_regv(domain, iov, count, access, 0, key, 0, &raw mut mr, context)))?;
        Ok(Mr { object: Object::new(mr) })
    }

    /// `fi_mr_regattr`; `change` may set further attributes.
    pub fn mr_attr(
        &self,
        parts: &[Mem],
        access: u64,
        key: u64,
        change: impl FnOnce(&mut abi::fi_mr_attr),
    ) -> Answer<Mr> {
        let domain = self.object.get();
        let iov = super::mem::iovecs(parts);
        // SAFETY: zero is a value of every field: null pointers, counts and numbers.
        let mut attr: abi::fi_mr_attr = unsafe { std::mem::zeroed() };
        (attr.mr_iov, attr.iov_count) = (iov.as_ptr(), iov.len());
        (attr.access, attr.requested_key) = (access, key);
        change(&mut attr);
        let mut mr = std::ptr::null_mut();
        done(call!(fi_mr_regattr(domain, &raw const attr, 0, &raw mut mr)))?;
        Ok(Mr { object: Object::new(mr) })
    }
}

impl Domain {
    /// The name of each operation table, and how many of its slots are NULL.
    pub fn empty_slots(&self) -> Vec<(&'static str, usize)> {
        // SAFETY: the domain is open (`Object`).
        let domain = unsafe { *self.object.get() };
        vec![("domain", empty_slots(domain.ops)), ("mr", empty_slots(domain.mr))]
    }
}

impl Pep {
    /// `fi_getname` with `room` bytes.
    pub fn getname(&self, room: usize) -> Answer<Vec<u8>> {
        let pep = self.object.get();
        let mut name = vec![0_u8; room];
        let mut len = room;
        done(call!(fi_getname_passive(pep, name.as_mut_ptr().cast(), &raw mut len)))?;
        name.truncate(len);
        Ok(name)
    }

    /// `fi_setname`.
    pub fn setname(&self, name: &[u8]) -> Answer {
        let pep = self.object.get();
        let mut name = name.to_vec();
        let (address, len) = (name.as_mut_ptr().cast(), name.len());
        done(call!(fi_setname_passive(pep, address, len)))
    }

    /// `FI_OPT_CM_DATA_SIZE`.
    pub fn data_size(&self) -> Answer<usize> {
        let pep = self.object.get();
        let mut size = 0;
        let mut len = size_of_val(&size);
        let (level, name) = (abi::FI_OPT_ENDPOINT, abi::FI_OPT_CM_DATA_SIZE);
        let to = (&raw mut size).cast();
        done(call!(fi_getopt_passive(pep, level, name, to, &raw mut len)))?;
        Ok(size)
    }

    /// `fi_control(FI_BACKLOG)`.
    pub fn set_backlog(&self, mut backlog: c_int) -> Answer {
        self.control(abi::FI_BACKLOG, (&raw mut backlog).cast())
    }

    /// `fi_reject` of the request that an event has brought, with data for the peer.
    pub fn reject(&self, request: &Info, data: &[u8]) -> Answer {
        let pep = self.object.get();
        let handle = request.entry().handle;
        done(call!(fi_reject(pep, handle, data.as_ptr().cast(), data.len())))
    }

    /// `fi_listen`.
    pub fn listen(&self) -> Answer {
        let pep = self.object.get();
        done(call!(fi_listen(pep)))
    }
}

impl Poll {
    /// `fi_poll_add`.
    pub fn add(&self, object: &dyn Fid) -> Answer {
        let poll = self.object.get();
        done(call!(fi_poll_add(poll, object.fid(), 0)))
    }

    /// `fi_poll_del`.
    pub fn del(&self, object: &dyn Fid) -> Answer {
        let poll = self.object.get();
        done(call!(fi_poll_del(poll, object.fid(), 0)))
    }

    /// `fi_poll`: the contexts of members with something to read.
    pub fn poll(&self, most: usize) -> Answer<Vec<*mut c_void>> {
        let poll = self.object.get();
        let mut contexts = vec![std::ptr::null_mut(); most];
        let code = call!(fi_poll(poll, contexts.as_mut_ptr(), most as c_int));
        contexts.truncate(counted(code)?);
        Ok(contexts)
    }
}

impl WaitSet {
    /// For the attributes of its members.
    pub fn raw(&self) -> *mut abi::fid_wait {
        self.object.get()
    }

    /// `fi_wait`.
    pub fn wait(&self, timeout_ms: c_int) -> Answer {
        let set = self.object.get();
        done(call!(fi_wait(set, timeout_ms)))
    }
}
