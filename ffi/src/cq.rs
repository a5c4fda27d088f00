// SPDX-License-Identifier: MIT OR Apache-2.0
//! A completion queue: a window on the operations of the endpoints that are bound to it.
//!
//! It holds no completions of its own. Reading it makes progress on each endpoint in turn and
//! copies what the engine has finished straight into the application's array; an operation keeps
//! its slot until then. So the queue cannot overflow whatever its size, and progress is made by
//! whoever reads. The one thing kept here is what stands at the head, where that was met by the
//! call that does not take it: an error by `fi_cq_read`, until `fi_cq_readerr` takes it nothing
//! else is read; and what ended well by `fi_cq_readerr`, for the next `fi_cq_read`.
//!
//! Who waits for completions is in `waiting`.

mod entry;
mod waiting;

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ofi_xdp_core::{Completion, Instant};

use crate::abi;
use crate::domain::Domain;
use crate::errno::Error;
use crate::idle;
use crate::ops::{CqOps, FidOps, Side};
use crate::progress::{ActiveEndpoint, Origin, Wants};
use crate::shim::cq::Entries;
use crate::sockaddr::SocketAddress;
use crate::wait::Wait;
use crate::wait_set::{self, WaitObject};
use crate::waker::Waker;

pub(crate) use entry::{Entry, ErrorEntry};

/// How a queue is to work.
#[derive(Clone, Debug)]
pub(crate) struct CqAttributes {
    /// What an entry tells.
    pub(crate) format: abi::fi_cq_format,
    /// What readers wait on.
    pub(crate) wait: WaitObject,
}

impl Default for CqAttributes {
    fn default() -> Self {
        Self { format: abi::FI_CQ_FORMAT_UNSPEC, wait: WaitObject::None }
    }
}

/// An endpoint, and the sides of it whose completions come here.
#[derive(Debug)]
struct Member {
    endpoint: Arc<ActiveEndpoint>,
    sides: Vec<Side>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    /// Whose turn it is to be read first; one of them, if there are any.
    turn: usize,
    /// The completion at the head, where it was met by who does not take it.
    head: Option<Result<Entry, ErrorEntry>>,
    /// The address that the application was shown last with an error.
    kept: Option<Box<SocketAddress>>,
}

impl State {
    /// When progress is due at the latest, unless a packet arrives before.
    fn due(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.endpoint.due()).min()
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cq {
    domain: Arc<Domain>,
    format: abi::fi_cq_format,
    object: WaitObject,
    wait: Option<Wait>,
    /// `fi_cq_signal` was called and nobody has noticed yet.
    signaled: AtomicBool,
    state: Mutex<State>,
}

impl Cq {
    /// `fi_cq_open`.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out; [`Error::Invalid`] for a wait set of another fabric.
    pub(crate) fn open(domain: &Arc<Domain>, attributes: CqAttributes) -> Result<Arc<Self>, Error> {
        let CqAttributes { format, wait: object } = attributes;
        let wait = if object.waits() { Some(Wait::new()?) } else { None };
        let queue = Arc::new(Self {
            domain: Arc::clone(domain),
            format,
            object,
            wait,
            signaled: AtomicBool::new(false),
            state: Mutex::default(),
        });
        if let Some(set) = queue.object.set(domain.fabric())? {
            set.add(wait_set::Member::Cq(Arc::downgrade(&queue)))?;
        }
        Ok(queue)
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Wakes whoever waits here; none if nobody may wait.
    pub(crate) fn waker(&self) -> Option<&Arc<Waker>> {
        self.wait.as_ref().map(Wait::waker)
    }

    /// From now on, completions of these sides of `endpoint` are read here.
    ///
    /// # Errors
    /// [`Error::Os`] when its descriptors cannot be waited on.
    pub(crate) fn add(&self, endpoint: &Arc<ActiveEndpoint>, sides: &[Side]) -> Result<(), Error> {
        if let Some(wait) = &self.wait {
            endpoint.descriptors(|descriptor| wait.add(descriptor))?;
        }
        let member = Member { endpoint: Arc::clone(endpoint), sides: sides.to_vec() };
        self.lock().members.push(member);
        // Who sleeps here already begins anew, with this one among those that are watched.
        self.waker().inspect(|waker| waker.wake());
        Ok(())
    }

    /// The end of [`Self::add`]: when this returns, no reader is at the endpoint any more.
    pub(crate) fn remove(&self, endpoint: &Arc<ActiveEndpoint>) {
        let mut state = self.lock();
        state.members.retain(|member| !Arc::ptr_eq(&member.endpoint, endpoint));
        state.turn = 0;
    }

    /// Makes progress, for a poll set; whether there is anything to read.
    pub(crate) fn poll(&self) -> bool {
        let ready = self.look(&self.lock());
        self.domain.work().run();
        ready
    }

    /// The application is back from waiting on the descriptor, or never went.
    #[inline]
    fn end_wait(&self) {
        self.wait.as_ref().inspect(|wait| wait.end_wait());
    }

    /// Nobody waits on the descriptor, after [`Self::try_wait`], and nobody looks next.
    pub(crate) fn recall(&self) {
        self.wait.as_ref().inspect(|wait| wait.recall());
    }

    /// What did not fit one reader's array is for another who sleeps.
    #[inline]
    fn share(&self, entries: &Entries) {
        if !entries.has_room()
            && let Some(waker) = self.waker()
        {
            waker.wake();
        }
    }

    /// Before a sleep on the descriptor.
    fn watch(&self, state: &State) {
        state.members.iter().for_each(|member| member.endpoint.watch());
    }

    /// Makes progress; whether there is anything to read.
    fn look(&self, state: &State) -> bool {
        // Each makes progress, whatever the others have.
        state.members.iter().fold(state.head.is_some(), |ready, Member { endpoint, sides }| {
            endpoint.look(sides, self.waker()) || ready
        })
    }

    /// `fi_cq_read`, and the deferred work that is due then.
    fn read_once(&self, entries: &mut Entries) -> Result<usize, Error> {
        let result = self.read_ready(entries);
        self.domain.work().run();
        result
    }

    fn read_ready(&self, entries: &mut Entries) -> Result<usize, Error> {
        let mut state = self.lock();
        self.end_wait();
        if matches!(state.head, Some(Err(_))) {
            return Err(Error::Available);
        }
        if !entries.has_room() {
            return if self.look(&state) { Ok(0) } else { Err(Error::Again) };
        }
        let State { members, turn, head, .. } = &mut *state;
        // Looked at before it is taken: it is long, and hardly ever there.
        if let Some(Ok(entry)) = head {
            entries.push(self.format, entry);
            *head = None;
        }
        if entries.has_room() {
            collect(members, turn, self.waker(), |completion, origin| {
                match entry::entry(completion, origin) {
                    Ok(entry) => entries.push(self.format, &entry),
                    Err(failure) => *head = Some(Err(failure)),
                }
                if head.is_none() && entries.has_room() { Wants::More } else { Wants::Enough }
            });
        }
        match (entries.filled(), head) {
            (0, None) => Err(Error::Again),
            (0, Some(_)) => Err(Error::Available),
            (filled, _) => Ok(filled),
        }
    }

    /// The error at the head, which is looked for where no reader has met it: a counter may have
    /// told of it.
    #[cold]
    fn take_error(&self) -> Result<ErrorEntry, Error> {
        let mut state = self.lock();
        self.end_wait();
        let State { members, turn, head, .. } = &mut *state;
        match head {
            // Behind it there may be more, for who sleeps: nobody is awake to that.
            None => collect(members, turn, None, |completion, origin| {
                *head = Some(entry::entry(completion, origin));
                Wants::Enough
            }),
            Some(Ok(_)) => _ = self.look(&state),
            Some(Err(_)) => {}
        }
        match state.head {
            Some(Err(error)) => {
                state.head = None;
                return Ok(error);
            }
            // For `fi_cq_read`, by whoever sleeps until there is something.
            Some(Ok(_)) => _ = self.waker().inspect(|waker| waker.rouse()),
            None => {}
        }
        Err(Error::Again)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes progress, and hands what there is to `take` while it wants more. `awake` is the waker of
/// who sees the rest, too.
#[inline]
fn collect(
    members: &mut [Member],
    turn: &mut usize,
    awake: Option<&Arc<Waker>>,
    mut take: impl FnMut(&Completion, Origin) -> Wants,
) {
    // bound: members
    for step in 0..members.len() {
        let at = *turn + step;
        let at = if at < members.len() { at } else { at - members.len() };
        let Some(Member { endpoint, sides }) = members.get_mut(at) else { break };
        let mut wants = Wants::More;
        endpoint.collect(sides, awake, |completion, origin| {
            wants = take(completion, origin);
            wants
        });
        if wants == Wants::Enough {
            // More may be left here and behind: whoever was read first is read last the next
            // time, and so are its sides.
            sides.reverse();
            *turn = if at + 1 < members.len() { at + 1 } else { 0 };
            break;
        }
    }
}

/// The earlier of two times, of which either may never come.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

impl FidOps for Cq {
    fn looks(&self) -> Option<Arc<RwLock<()>>> {
        Some(self.domain.fabric().looks())
    }

    fn wait_fd(&self) -> Result<RawFd, Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let descriptor = wait.descriptor();
        self.watch(&self.lock());
        Ok(descriptor)
    }

    fn wait_object(&self) -> Result<u32, Error> {
        Ok(self.object.kind())
    }
}

impl CqOps for Cq {
    fn read(&self, entries: &mut Entries) -> Result<usize, Error> {
        let result = self.read_once(entries);
        self.share(entries);
        match result {
            Err(Error::Again) => idle::found_nothing(),
            _ => idle::found(),
        }
        result
    }

    fn read_wait(&self, entries: &mut Entries, timeout: Option<Duration>) -> Result<usize, Error> {
        self.wait_and_read(entries, timeout)
    }

    fn read_error(&self) -> Result<ErrorEntry, Error> {
        let result = self.take_error();
        self.domain.work().run();
        result
    }

    fn keep(&self, address: SocketAddress) -> *const u8 {
        let mut state = self.lock();
        let kept = state.kept.insert(Box::new(address));
        kept.bytes().as_ptr()
    }

    fn signal(&self) -> Result<(), Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        self.signaled.store(true, Ordering::Relaxed);
        wait.waker().force();
        Ok(())
    }

    fn api_version(&self) -> u32 {
        self.domain.fabric().api_version()
    }
}
