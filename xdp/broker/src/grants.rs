// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions on requests, and their execution.
//!
//! In: the credentials of a client, its request and its kernel socket. Out: an active grant and the
//! socket for the client, or a [`GrantError`]. Caller: `server.rs`, for each request. Bounds: for
//! each allowed queue one attempt to bind; for each interface one load of the program and one
//! counters page. A socket is bounded by [`memory_max`], a user by the quota (`quota.rs`).

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use ofi_xdp_datapath::broker::CountersPage;
use ofi_xdp_datapath::{
    AddressMonitor, InterfaceInfo, Layout, Lease, ProgramLease, QueueRange, RingSize, RingSizes,
    SocketRequest, SteeringRule, XskError, XskMode, XskSocket, interfaces,
};
use rustix::net::netdevice::index_to_name_inlined;

use crate::credentials::Credentials;
use crate::lent_memory::LentMemory;
use crate::policy::Policy;
use crate::programs::Programs;
use crate::quota::{QueueId, QueueState, Quota, Room};
use crate::rule_records::{Recorded, RuleRecord, RuleRecords};
use crate::udp_socket::UdpSocketProof;

/// The answer to a request for zero-copy mode that the policy does not allow.
const NO_ZEROCOPY: &str = "the policy of xdp-broker does not allow `zerocopy`";

/// Reason why a request is not granted.
#[derive(Debug)]
pub(crate) enum GrantError {
    /// All allowed queues are busy, or former sockets of the user are; the client asks again.
    Busy(String),
    /// The request is refused for good.
    No(String),
}

impl From<String> for GrantError {
    fn from(reason: String) -> Self {
        Self::No(reason)
    }
}

/// A grant while it is valid.
#[derive(Debug)]
pub(crate) struct Grant {
    program: Recorded<ProgramLease>,
    mode: XskMode,
    udp_socket: UdpSocketProof,
    /// The interface's name.
    interface: String,
    uid: u32,
    queue_id: QueueId,
    /// Whether the last check did not find the socket.
    missed: bool,
}

impl Grant {
    /// Checks whether the grant is valid. The program redirects, and the client's socket has its
    /// address. If `interfaces` are given, they have changed: packets for the address must still
    /// come by ours. A client that binds a second socket to the address hides the first for a
    /// moment (`SO_REUSEPORT`). So one check without the socket is no proof.
    pub(crate) fn check(&mut self, interfaces: Option<&[InterfaceInfo]>) -> bool {
        let missed_before = std::mem::replace(&mut self.missed, !self.udp_socket.is_bound());
        let found = !(missed_before && self.missed);
        let ip = self.udp_socket.address().ip();
        let has_address = interfaces.is_none_or(|all| {
            let own = all.iter().find(|one| one.index == self.queue_id.interface);
            own.is_some_and(|own| own.carries(ip, all))
        });
        self.program.holder().end().is_none() && found && has_address
    }
}

/// The policy, and the state of all grants.
#[derive(Debug)]
pub(crate) struct GrantManager {
    policy: Policy,
    namespace: u64,
    quota: Quota,
    programs: Programs,
    rules: RuleRecords,
    addresses: AddressMonitor,
    /// Whether an address has changed since the last check of all grants.
    addresses_changed: bool,
    /// The counters page of each interface that has had a grant, by the interface's index, as long
    /// as the interface exists. All clients of it get the same page, so they cannot collect pages.
    counters_pages: HashMap<u32, CountersPage>,
}

impl GrantManager {
    /// A manager for network namespace `namespace`.
    ///
    /// # Errors The kernel does not report addresses.
    pub(crate) fn new(policy: Policy, namespace: u64, rules: RuleRecords) -> io::Result<Self> {
        Ok(Self {
            policy,
            namespace,
            quota: Quota::default(),
            programs: Programs::default(),
            rules,
            addresses: AddressMonitor::open()?,
            addresses_changed: false,
            counters_pages: HashMap::new(),
        })
    }

    /// Replaces the policy.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Whether the policy allows `granted` to `user`, apart from the number of sockets.
    pub(crate) fn allows(&self, user: &Credentials, granted: &Grant) -> bool {
        let queue = QueueRange::one_or_any(Some(granted.queue_id.queue));
        self.policy.rule(user, &granted.interface).is_some_and(|rule| {
            let steers = granted.program.holder().is_steered();
            rule.queues.and(queue).is_some()
                && rule.allows_port(granted.udp_socket.address().port())
                && (rule.steering || !steers)
                && rule.allows_mode(granted.mode)
        })
    }

    /// Whether any rule of the policy matches `user`.
    pub(crate) fn knows(&self, user: &Credentials) -> bool {
        self.policy.knows(user)
    }

    /// Grants the request of `user` for the endpoint of `udp_socket`, if the policy allows it. The
    /// socket of the lease is for the client alone.
    pub(crate) fn decide(
        &mut self,
        user: &Credentials,
        request: SocketRequest,
        udp_socket: OwnedFd,
        time: Instant,
    ) -> Result<(Recorded<Lease>, PendingGrant), GrantError> {
        let all = interfaces().map_err(|error| format!("list the interfaces: {error}"))?;
        let interface = interface(&all, request.interface)?;
        let name = &interface.name;
        let rule = self
            .policy
            .rule(user, name)
            .ok_or_else(|| format!("user {} may not use interface {name}", user.uid))?;
        let queues = request
            .queues
            .and(rule.queues)
            .ok_or_else(|| format!("user {} may not use that queue of {name}", user.uid))?;
        if !rule.allows_mode(request.mode) {
            return Err(NO_ZEROCOPY.to_owned().into());
        }
        let most = memory_max();
        if request.layout.bytes() > most {
            return Err(format!("a socket has {} MiB of frames at most", most >> 20).into());
        }
        let udp_socket =
            UdpSocketProof::check(udp_socket, request.local, self.namespace, (interface, &all))?;
        let address = udp_socket.address();
        if !rule.allows_port(address.port()) {
            return Err(format!("user {} may not use port {}", user.uid, address.port()).into());
        }
        let (most, steer) = (rule.sockets, (request.steer, rule.steering));
        self.check_quota((user.uid, most), time)?;
        self.programs.drop_detached();
        let counters_page = self.counters_page(request.interface, &all)?;
        let native_first = interface.prefers_native();
        let lease = self.open(SocketRequest { queues, ..request }, native_first, time)?;
        let queue_id = QueueId { interface: request.interface, queue: lease.socket().queue() };
        let (record, unsteered_reason) = match self.record(steer, queue_id, address) {
            Ok(record) => (record, String::new()),
            Err(reason) => (None, reason),
        };
        let request = SocketRequest { queues, steer: record.is_some(), ..request };
        let mut lease = Recorded::new(lease, record);
        let endpoint = interface.endpoint(address, request.any_payload);
        lease.holder_mut().claim(request, endpoint).map_err(refusal)?;
        if lease.holder().unsteered_reason().is_some() {
            lease.forget_rule();
        }
        let (memory, client_memory) = LentMemory::new(lease.holder().socket().memory())
            .map_err(|error| format!("open the memory again: {error}"))?;
        let name = format!("{user}: queue {} of {name}", queue_id.queue);
        let (interface, uid) = (interface.name.clone(), user.uid);
        let (memory_fd, may_steer) = (client_memory, steer.1);
        let client = ClientParts { memory: memory_fd, counters_page, may_steer, unsteered_reason };
        Ok((lease, PendingGrant { udp_socket, interface, uid, queue_id, name, memory, client }))
    }

    /// Checks that user `uid` may have another socket of `most`.
    fn check_quota(&mut self, (uid, most): (u32, usize), time: Instant) -> Result<(), GrantError> {
        let reason = |what| format!("user {uid} has {most} {what}");
        match self.quota.room((uid, most), time, state) {
            Room::Free => Ok(()),
            Room::Soon => {
                Err(GrantError::Busy(reason("sockets; the queue of a former one is busy")))
            }
            Room::Full => Err(reason("sockets already, or memory of former ones").into()),
        }
    }

    /// The record of the rule that sends packets for `address` to a queue, if it is `wanted`.
    ///
    /// # Errors
    /// The reason why no rule may be made.
    fn record(
        &self,
        (wanted, allowed): (bool, bool),
        QueueId { interface, queue }: QueueId,
        address: SocketAddr,
    ) -> Result<Option<RuleRecord>, String> {
        if wanted && !allowed {
            return Err("the policy of xdp-broker does not allow `steering`".to_owned());
        }
        let rule = SteeringRule { interface, queue, address };
        wanted.then(|| self.rules.add(rule)).transpose()
    }

    /// The descriptor of the counters page of `interface`, one of `all`. Pages of former interfaces
    /// are dropped: the kernel gives each new one another index, and the counters of one that is
    /// gone no longer change.
    fn counters_page(&mut self, interface: u32, all: &[InterfaceInfo]) -> Result<OwnedFd, String> {
        self.counters_pages.retain(|index, _| all.iter().any(|one| one.index == *index));
        let failed = |error| format!("make a page of memory: {error}");
        let page = match self.counters_pages.entry(interface) {
            Entry::Occupied(page) => page.into_mut(),
            Entry::Vacant(entry) => entry.insert(CountersPage::new().map_err(failed)?),
        };
        page.as_fd().try_clone_to_owned().map_err(failed)
    }

    /// Opens a lease on the first requested queue that is free. A queue is not, as long as a client
    /// holds the memory of its former socket. The first request decides about the mode of all that
    /// follow, so one for generic mode gets native mode where that comes first.
    fn open(
        &mut self,
        request: SocketRequest,
        native_first: bool,
        time: Instant,
    ) -> Result<Lease, GrantError> {
        let interface = request.interface;
        let any_held = Cell::new(false);
        let may_use = |queue| {
            let queue_id = QueueId { interface, queue };
            let is_held = self.quota.is_held(queue_id);
            // The queue of a client that is connected counts as any other busy one.
            any_held.set(any_held.get() || (is_held && !self.quota.is_connected(queue_id)));
            !is_held
        };
        let lease =
            Lease::open_for_client(request, native_first, &may_use).map_err(
                |error| match refusal(error) {
                    GrantError::Busy(_) if any_held.get() => held(),
                    refusal => refusal,
                },
            )?;
        if let Some(program) = lease.redirect() {
            self.programs.opened(interface, program, time);
        }
        Ok(lease)
    }

    /// Records that the client has the socket of `lease`.
    pub(crate) fn granted(
        &mut self,
        lease: Recorded<Lease>,
        pending: PendingGrant,
    ) -> Option<Grant> {
        let PendingGrant { udp_socket, interface, uid, queue_id, name, memory, .. } = pending;
        let mode = lease.holder().mode();
        self.quota.granted(uid, queue_id, memory, (mode == XskMode::Zerocopy, name));
        let program = lease.map(Lease::into_program_lease)?;
        Some(Grant { program, mode, udp_socket, interface, uid, queue_id, missed: false })
    }

    /// Records the end of the client's connection; its socket gets no more packets.
    pub(crate) fn ended(&mut self, granted: &Grant, time: Instant) {
        self.quota.disconnected(granted.uid, granted.queue_id, time);
    }

    /// Publishes the programs' counters.
    pub(crate) fn publish(&self) {
        for (interface, program) in self.programs.iter() {
            let Some(page) = self.counters_pages.get(&interface) else { continue };
            if let Ok(counters) = program.counters() {
                page.write(&counters);
            }
        }
    }

    /// Drops the programs that none of `granted` has used for long enough, and the memory that no
    /// client holds.
    pub(crate) fn tidy<'a>(
        &mut self,
        granted: impl Iterator<Item = &'a Grant> + Clone,
        time: Instant,
    ) {
        self.quota.tidy(time, state);
        // Without the program the driver takes back a queue that a former client keeps in zero-copy
        // mode.
        let is_used = |index| granted.clone().any(|grant| grant.queue_id.interface == index);
        let is_abused = |index| self.quota.keeps_zerocopy(index);
        self.programs.tidy(time, exists, (&is_used, &is_abused));
    }

    /// The interfaces, if an address may have changed since the last call.
    pub(crate) fn changed_interfaces(&mut self) -> Option<Vec<InterfaceInfo>> {
        self.addresses_changed |= self.addresses.has_changed();
        let all = if self.addresses_changed { interfaces().ok() } else { None };
        self.addresses_changed &= all.is_none();
        all
    }
}

/// Values of a grant while its socket is sent to the client.
#[derive(Debug)]
pub(crate) struct PendingGrant {
    udp_socket: UdpSocketProof,
    interface: String,
    uid: u32,
    queue_id: QueueId,
    /// User, process and queue, for the log.
    name: String,
    memory: LentMemory,
    client: ClientParts,
}

/// The parts of a grant that are sent to the client.
#[derive(Debug)]
struct ClientParts {
    memory: OwnedFd,
    counters_page: OwnedFd,
    /// Whether the policy allows a rule.
    may_steer: bool,
    /// Reason why no rule was made although requested; else empty.
    unsteered_reason: String,
}

impl PendingGrant {
    /// The client's descriptor of the socket's memory.
    pub(crate) fn memory(&self) -> BorrowedFd<'_> {
        self.client.memory.as_fd()
    }

    /// The descriptor of the counters page.
    pub(crate) fn counters_page(&self) -> BorrowedFd<'_> {
        self.client.counters_page.as_fd()
    }

    /// Whether the policy allows a rule of the device for the socket.
    pub(crate) const fn may_steer(&self) -> bool {
        self.client.may_steer
    }

    /// Reason why packets are not steered although requested; else empty.
    pub(crate) fn unsteered_reason<'a>(&'a self, lease: &'a Lease) -> &'a str {
        lease.unsteered_reason().unwrap_or(&self.client.unsteered_reason)
    }
}

impl fmt::Display for PendingGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.udp_socket.address(), self.interface)
    }
}

/// Maximum bytes of frames of one socket: twice the provider's request. They stay pinned as long as
/// the client keeps the socket.
fn memory_max() -> usize {
    2 * Layout::new(RingSizes::default(), 0).bytes()
}

/// The interface with this index, if it can have sockets.
fn interface(all: &[InterfaceInfo], index: u32) -> Result<&InterfaceInfo, String> {
    let found = all.iter().find(|interface| interface.index == index);
    let interface = found.ok_or_else(|| format!("there is no interface {index} here"))?;
    if interface.loopback {
        return Err("packets over the loopback interface never leave the kernel".to_owned());
    }
    Ok(interface)
}

/// The answer when only queues with held memory are left.
fn held() -> GrantError {
    GrantError::Busy("a client holds the memory of the queue's former socket".to_owned())
}

fn refusal(error: XskError) -> GrantError {
    let reason = error.to_string();
    match error {
        XskError::Bind(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            GrantError::Busy(reason)
        }
        _ => GrantError::No(reason),
    }
}

/// The state of the queue `queue_id`, by an attempt to bind it. While a socket has a queue the
/// kernel does not take it from the interface (`ethnl_set_channels`).
fn state(queue_id: QueueId) -> QueueState {
    let queues = QueueRange::one_or_any(Some(queue_id.queue));
    let layout = Layout::new(RingSizes { rx: RingSize::MIN, tx: RingSize::MIN }, 0);
    match XskSocket::bind(queue_id.interface, queues, XskMode::Skb, layout, false, 1) {
        Ok(_) => QueueState::Free,
        Err(error) => match error.raw_os_error() {
            // The interface has fewer queues (`xp_assign_dev`).
            Some(libc::EINVAL) => QueueState::Free,
            Some(libc::ENODEV) => QueueState::NoInterface,
            _ => QueueState::Busy,
        },
    }
}

/// Whether there is an interface with this index; `true` if that is unknown.
fn exists(interface: u32) -> bool {
    // Not by `if_indextoname` of nix, which never tells of an error. Any socket will do.
    let Ok(socket) = UnixDatagram::unbound() else { return true };
    !matches!(index_to_name_inlined(socket, interface), Err(rustix::io::Errno::NODEV))
}

#[cfg(test)]
mod tests;
