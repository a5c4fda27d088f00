// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtimes that connected endpoints of a domain share.
//!
//! Endpoints with one key have one address and the same capacities. Those with the same completion
//! queues are a group of the runtime. A runtime has its capacities from its start. Therefore the
//! first one serves [`ENDPOINTS_FIRST`] endpoints. If all are full, the next one serves four times
//! as many as the largest so far; if only their groups or queues are, as many.
//!
//! In: endpoints that are enabled, or closed. Out: a runtime with room for one more, and its group;
//! the ends of groups and of runtimes. Called by `endpoint::enable`. Bound: [`ENDPOINTS_MAX`]
//! endpoints, [`GROUPS_MAX`] groups and [`WAITING_QUEUES_MAX`] queues with a wait object a runtime;
//! runtimes grow in number as the logarithm of the endpoints, or as the groups.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::{CompletionGroup, GROUPS_MAX, Order};

use crate::runtime::Runtime;
use crate::sys::errno::Error;
use crate::sys::memory::push;

/// Most endpoints on one runtime.
pub(crate) const ENDPOINTS_MAX: u32 = 16 << 10;
/// Endpoints on the first runtime.
const ENDPOINTS_FIRST: u32 = 16;
/// How many times as many endpoints the next runtime serves.
const GROWTH: u32 = 4;
/// Most queues with a wait object on one runtime. The port has an epoll set, each queue one that
/// has it, and a queue may be in a wait set, which may be in a set of the application. The kernel
/// permits 50 paths of four sets from a socket (`path_limits` in fs/eventpoll.c).
pub(crate) const WAITING_QUEUES_MAX: usize = 50;

/// The common properties of the endpoints of one runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RuntimeKey {
    /// Their local address.
    pub(crate) ip: IpAddr,
    /// The shared receive context, and the queues of its endpoints.
    pub(crate) shared_rx: Option<(BoundObject, QueuePair)>,
    /// The order of operations.
    pub(crate) order: Order,
    /// Whether remote writes are events (`FI_RMA_EVENT`).
    pub(crate) rma_event: bool,
    /// Capacities of each endpoint.
    pub(crate) sends: u32,
    /// See [`Self::sends`].
    pub(crate) recvs: u32,
}

/// The queue of each side.
pub(crate) type QueuePair = [Option<BoundQueue>; 2];

/// A queue that endpoints of a group are bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BoundQueue {
    pub(crate) queue: BoundObject,
    /// It takes selected completions only.
    pub(crate) selective: bool,
    /// It has a wait object.
    pub(crate) waits: bool,
}

/// The address of a bound object, which the endpoints of the runtime keep open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BoundObject(usize);

impl BoundObject {
    /// Of this object.
    pub(crate) fn of<T>(object: &Arc<T>) -> Self {
        Self(Arc::as_ptr(object).addr())
    }
}

/// The endpoints of a runtime that have the same queues.
#[derive(Debug)]
struct Group {
    id: CompletionGroup,
    queues: QueuePair,
    endpoints: u32,
}

#[derive(Debug)]
struct Member {
    key: RuntimeKey,
    runtime: Arc<Runtime>,
    /// Endpoints that it can serve.
    room: u32,
    groups: Vec<Group>,
}

impl Member {
    fn is_full(&self) -> bool {
        self.groups.iter().map(|group| group.endpoints).sum::<u32>() >= self.room
    }

    /// Whether an endpoint with these queues can join.
    fn admits(&self, queues: &QueuePair) -> bool {
        let is_known = || self.groups.iter().any(|it| it.queues == *queues);
        let fits = || self.waiting_queues_with(queues) <= WAITING_QUEUES_MAX;
        !self.is_full() && (is_known() || (self.groups.len() < GROUPS_MAX && fits()))
    }

    /// How many queues with a wait object there are with these.
    fn waiting_queues_with(&self, queues: &QueuePair) -> usize {
        let pairs = self.groups.iter().map(|group| &group.queues).chain([queues]);
        let waiting = pairs.flatten().flatten().filter(|bound| bound.waits);
        waiting.map(|bound| bound.queue).collect::<HashSet<_>>().len()
    }

    /// Adds an endpoint to the group with its queues; `begin` begins a new group.
    fn join(
        &mut self,
        queues: QueuePair,
        begin: impl FnOnce(&Arc<Runtime>, CompletionGroup) -> Result<(), Error>,
    ) -> Result<RuntimeGroup, Error> {
        let runtime = Arc::clone(&self.runtime);
        if let Some(group) = self.groups.iter_mut().find(|group| group.queues == queues) {
            group.endpoints += 1;
            return Ok(RuntimeGroup { runtime, group: group.id });
        }
        let mut ids = CompletionGroup::all();
        let is_free = |id: &CompletionGroup| self.groups.iter().all(|group| group.id != *id);
        let id = ids.find(is_free).ok_or(Error::NoMemory)?;
        begin(&runtime, id)?;
        push(&mut self.groups, Group { id, queues, endpoints: 1 })?;
        Ok(RuntimeGroup { runtime, group: id })
    }
}

/// The runtime of an endpoint, and its group.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeGroup {
    /// The runtime.
    pub(crate) runtime: Arc<Runtime>,
    /// The group.
    pub(crate) group: CompletionGroup,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SharedRuntimes {
    members: Mutex<Vec<Member>>,
}

impl SharedRuntimes {
    /// Adds an endpoint to a runtime. `start` starts a runtime with room for so many; `begin` adds
    /// a group to the objects that its endpoints are bound to. A runtime whose first group fails is
    /// not kept, and is passed to `end`.
    ///
    /// # Errors
    /// Those of `start` and `begin`; [`Error::NoMemory`].
    pub(crate) fn join(
        &self,
        key: &RuntimeKey,
        queues: QueuePair,
        start: impl FnOnce(u32) -> Result<Arc<Runtime>, Error>,
        begin: impl FnOnce(&Arc<Runtime>, CompletionGroup) -> Result<(), Error>,
        end: impl FnOnce(&Arc<Runtime>),
    ) -> Result<RuntimeGroup, Error> {
        let mut members = self.lock();
        let of_key = || members.iter().filter(|member| member.key == *key);
        let largest = of_key().map(|member| member.room).max();
        let growth = if of_key().all(Member::is_full) { GROWTH } else { 1 };
        if let Some(member) = members.iter_mut().find(|it| it.key == *key && it.admits(&queues)) {
            return member.join(queues, begin);
        }
        let room = largest.map_or(ENDPOINTS_FIRST, |it| (it * growth).min(ENDPOINTS_MAX));
        members.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let runtime = start(room)?;
        let mut member = Member { key: key.clone(), runtime, room, groups: Vec::new() };
        let joined = member.join(queues, begin).inspect_err(|_| end(&member.runtime))?;
        push(&mut members, member)?;
        Ok(joined)
    }

    /// Removes an endpoint. `end_group` ends its group with the last endpoint. Whether the runtime
    /// serves no endpoint any more: then the caller ends it. One that is not shared served one.
    pub(crate) fn leave(&self, of: &RuntimeGroup, end_group: impl FnOnce()) -> bool {
        let mut members = self.lock();
        let is_it = |member: &Member| Arc::ptr_eq(&member.runtime, &of.runtime);
        let Some(at) = members.iter().position(is_it) else {
            end_group();
            return true;
        };
        let Some(member) = members.get_mut(at) else { return true };
        let Some(group) = member.groups.iter_mut().find(|it| it.id == of.group) else {
            return false;
        };
        group.endpoints -= 1;
        if group.endpoints == 0 {
            end_group();
            member.groups.retain(|group| group.endpoints > 0);
        }
        let is_last = member.groups.is_empty();
        if is_last {
            members.swap_remove(at);
        }
        is_last
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::endpoint;
    use crate::wait::wait_fd::Wait;

    /// Two queues of their own for each endpoint of an application.
    fn queues(endpoint: usize, waits: bool) -> QueuePair {
        [2 * endpoint, 2 * endpoint + 1]
            .map(|queue| Some(BoundQueue { queue: BoundObject(queue), selective: false, waits }))
    }

    /// The endpoints that each runtime is started for, where so many are enabled.
    fn rooms(endpoints: usize, waits: bool) -> Vec<u32> {
        let (shared, mut rooms) = (SharedRuntimes::default(), Vec::new());
        let key = RuntimeKey {
            ip: IpAddr::from([127, 0, 0, 1]),
            shared_rx: None,
            order: Order::empty(),
            rma_event: false,
            sends: 1,
            recvs: 1,
        };
        for endpoint_number in 0..endpoints {
            let start = |room| {
                rooms.push(room);
                Ok(endpoint().0)
            };
            let queues = queues(endpoint_number, waits);
            shared.join(&key, queues, start, |_, _| Ok(()), |_| ()).unwrap();
        }
        rooms
    }

    #[test]
    fn queues_that_wait_begin_a_runtime_as_endpoints_and_groups_do() {
        assert_eq!(rooms(16 + 64, false), [16, 64]);
        assert_eq!(rooms(16 + 25, true), [16, 64]);
        assert_eq!(rooms(16 + 25 + 25, true), [16, 64, 64]);
    }

    /// The kernel's limit, by a path with a wait set and a set of the application.
    #[test]
    fn as_many_queues_as_a_runtime_has_may_be_in_sets_of_sets() {
        let (runtime, _) = endpoint();
        runtime.arm_port(false);
        let application = Wait::new().unwrap();
        let add = || {
            let [queue, set] = [Wait::new()?, Wait::new()?];
            runtime.descriptors(|descriptor| queue.add(descriptor))?;
            queue.join(&set)?;
            set.join(&application)?;
            Ok::<_, Error>([queue, set])
        };
        let sets: Result<Vec<_>, _> = (0..WAITING_QUEUES_MAX).map(|_| add()).collect();
        assert_eq!(sets.unwrap().len(), WAITING_QUEUES_MAX);
    }
}
