// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtimes that connected endpoints of a domain share.
//!
//! Endpoints with one key have one address, the same queues and the same capacities. So their
//! runtime is to a queue what that of a single endpoint is. A runtime has its capacities from its
//! start. Therefore the first one serves one endpoint, and each further one four times as many as
//! the largest so far.
//!
//! In: endpoints that are enabled, or closed. Out: a runtime with room for one more; whether a
//! runtime has lost its last endpoint. Called by `endpoint::enable`. Bound: [`ENDPOINTS_MAX`]
//! endpoints a runtime; runtimes grow in number as the logarithm of the endpoints.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::Order;

use crate::runtime::Runtime;
use crate::sys::errno::Error;
use crate::sys::memory::push;

/// Most endpoints on one runtime.
pub(crate) const ENDPOINTS_MAX: u32 = 16 << 10;
/// How many times as many endpoints the next runtime serves.
const GROWTH: u32 = 4;

/// The common properties of the endpoints of one runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RuntimeKey {
    /// Their local address.
    pub(crate) ip: IpAddr,
    /// The queue of each side, and whether it takes selected completions only.
    pub(crate) queues: [Option<(BoundObject, bool)>; 2],
    /// The shared receive context.
    pub(crate) shared_rx: Option<BoundObject>,
    /// The order of operations.
    pub(crate) order: Order,
    /// Whether remote writes are events (`FI_RMA_EVENT`).
    pub(crate) rma_event: bool,
    /// Capacities of each endpoint.
    pub(crate) sends: u32,
    /// See [`Self::sends`].
    pub(crate) recvs: u32,
}

/// The address of a bound object, which the endpoints of the runtime keep open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoundObject(usize);

impl BoundObject {
    /// Of this object.
    pub(crate) fn of<T>(object: &Arc<T>) -> Self {
        Self(Arc::as_ptr(object).addr())
    }
}

#[derive(Debug)]
struct Member {
    key: RuntimeKey,
    runtime: Arc<Runtime>,
    /// Endpoints that it can serve, and those that it does.
    room: u32,
    used: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SharedRuntimes {
    members: Mutex<Vec<Member>>,
}

impl SharedRuntimes {
    /// A place on a runtime for one endpoint. `start` starts one with room for so many.
    ///
    /// # Errors
    /// Those of `start`; [`Error::NoMemory`].
    pub(crate) fn join(
        &self,
        key: &RuntimeKey,
        start: impl FnOnce(u32) -> Result<Arc<Runtime>, Error>,
    ) -> Result<Arc<Runtime>, Error> {
        let mut members = self.lock();
        let of_key = || members.iter().filter(|member| member.key == *key);
        let largest = of_key().map(|member| member.room).max();
        if let Some(member) = members.iter_mut().find(|it| it.key == *key && it.used < it.room) {
            member.used += 1;
            return Ok(Arc::clone(&member.runtime));
        }
        let room = largest.map_or(1, |largest| (largest * GROWTH).min(ENDPOINTS_MAX));
        members.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let runtime = start(room)?;
        let member = Member { key: key.clone(), runtime: Arc::clone(&runtime), room, used: 1 };
        push(&mut members, member)?;
        Ok(runtime)
    }

    /// Gives a place back. Whether the runtime serves no endpoint any more: then the caller ends
    /// it. A runtime that is not shared had one.
    pub(crate) fn leave(&self, runtime: &Arc<Runtime>) -> bool {
        let mut members = self.lock();
        let Some(at) = members.iter().position(|it| Arc::ptr_eq(&it.runtime, runtime)) else {
            return true;
        };
        let Some(member) = members.get_mut(at) else { return true };
        member.used -= 1;
        let is_last = member.used == 0;
        if is_last {
            members.swap_remove(at);
        }
        is_last
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
