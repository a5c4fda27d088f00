// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decisions on requests, and their execution.
//!
//! In: the credentials of a client, its request and its kernel socket. Out: an active grant and the
//! socket for the client, or a [`GrantError`]. Caller: `server.rs`, for each request. Bounds: one
//! attempt to bind for each allowed queue, one load of the program for each interface,
//! [`memory_max`] for each socket, and for each user the quota (`quota.rs`).

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ofi_xdp_datapath::broker::CountersPage;
use ofi_xdp_datapath::{
    InterfaceInfo, Layout, Lease, ProgramLease, QueueRange, Redirect, RingSize, RingSizes,
    SocketRequest, XskError, XskMode, XskSocket, interfaces,
};

use crate::credentials::Credentials;
use crate::policy::Policy;
use crate::quota::{QueueId, Quota};
use crate::udp_socket::UdpSocketProof;

/// Reason why a request is not granted.
#[derive(Debug)]
pub(crate) enum GrantError {
    /// All allowed queues are busy.
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
pub(crate) struct ActiveGrant {
    program: ProgramLease,
    udp_socket: UdpSocketProof,
    counters_page: CountersPage,
    uid: u32,
    queue_id: QueueId,
}

impl ActiveGrant {
    /// Whether the grant is valid: the program redirects, and the client's socket has its address.
    pub(crate) fn is_valid(&self) -> bool {
        self.program.end().is_none() && self.udp_socket.is_bound()
    }
}

/// The policy, and the state of all grants.
#[derive(Debug)]
pub(crate) struct GrantManager {
    policy: Policy,
    namespace: u64,
    quota: Quota,
    /// The program of each interface with a grant, by the interface's index.
    programs: HashMap<u32, Redirect>,
}

impl GrantManager {
    /// A manager for network namespace `namespace`.
    pub(crate) fn new(policy: Policy, namespace: u64) -> Self {
        Self { policy, namespace, quota: Quota::default(), programs: HashMap::new() }
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
    ) -> Result<(Lease, PendingGrant), GrantError> {
        let interface = interface(request.interface)?;
        let name = &interface.name;
        let rule = self
            .policy
            .rule(user, name)
            .ok_or_else(|| format!("user {} may not use interface {name}", user.uid))?;
        let queues = request
            .queues
            .and(rule.queues)
            .ok_or_else(|| format!("user {} may not use that queue of {name}", user.uid))?;
        let most = memory_max();
        if request.layout.bytes() > most {
            return Err(format!("a socket has {} MiB of frames at most", most >> 20).into());
        }
        let udp_socket = UdpSocketProof::check(udp_socket, self.namespace, &interface)?;
        let address = udp_socket.address();
        if !rule.allows_port(address.port()) {
            return Err(format!("user {} may not use port {}", user.uid, address.port()).into());
        }
        let most = rule.sockets;
        if !self.quota.has_room(user.uid, most, is_free) {
            return Err(format!("user {} has {most} sockets already", user.uid).into());
        }
        self.programs.retain(|_, program| program.is_attached().unwrap_or(false));
        let forbidden = request.steer && !rule.steering;
        let counters_page =
            CountersPage::new().map_err(|error| format!("make a page of memory: {error}"))?;
        let request = SocketRequest { queues, steer: request.steer && !forbidden, ..request };
        let mut lease = Lease::open(request, 1).map_err(refusal)?;
        lease.claim(request, interface.endpoint(address)).map_err(refusal)?;
        let queue_id = QueueId { interface: request.interface, queue: lease.socket().queue() };
        let interface = interface.name;
        let uid = user.uid;
        Ok((lease, PendingGrant { udp_socket, interface, uid, queue_id, counters_page, forbidden }))
    }

    /// Records that the client has the socket of `lease`.
    pub(crate) fn granted(&mut self, lease: Lease, pending: PendingGrant) -> Option<ActiveGrant> {
        let PendingGrant { udp_socket, uid, queue_id, counters_page, .. } = pending;
        self.quota.granted(uid, queue_id);
        let program = lease.into_program_lease()?;
        self.programs.entry(queue_id.interface).or_insert_with(|| program.redirect().clone());
        Some(ActiveGrant { program, udp_socket, counters_page, uid, queue_id })
    }

    /// Records the end of the client's connection; its socket gets no more packets.
    pub(crate) fn ended(&mut self, granted: &ActiveGrant) {
        self.quota.disconnected(granted.uid, granted.queue_id);
    }

    /// Publishes the programs' counters on the pages of `granted`.
    pub(crate) fn publish<'a>(&self, granted: impl Iterator<Item = &'a ActiveGrant> + Clone) {
        for (index, program) in &self.programs {
            let Ok(counters) = program.counters() else { continue };
            for grant in granted.clone().filter(|grant| grant.queue_id.interface == *index) {
                grant.counters_page.write(&counters);
            }
        }
    }

    /// Drops the programs of interfaces without a grant in `granted`.
    pub(crate) fn tidy<'a>(&mut self, granted: impl Iterator<Item = &'a ActiveGrant> + Clone) {
        self.programs
            .retain(|index, _| granted.clone().any(|grant| grant.queue_id.interface == *index));
    }
}

/// Values of a grant while its socket is sent to the client.
#[derive(Debug)]
pub(crate) struct PendingGrant {
    udp_socket: UdpSocketProof,
    interface: String,
    uid: u32,
    queue_id: QueueId,
    counters_page: CountersPage,
    /// Steering was requested, and the policy forbids it.
    forbidden: bool,
}

impl PendingGrant {
    /// The descriptor of the client's counters page.
    pub(crate) fn counters_page(&self) -> BorrowedFd<'_> {
        self.counters_page.as_fd()
    }

    /// Reason why packets are not steered although requested; else empty.
    pub(crate) fn unsteered_reason<'a>(&self, lease: &'a Lease) -> &'a str {
        match lease.unsteered_reason() {
            None if self.forbidden => "the policy of xdp-broker does not allow `steering`",
            reason => reason.unwrap_or_default(),
        }
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
fn interface(index: u32) -> Result<InterfaceInfo, String> {
    let all = interfaces().map_err(|error| format!("list the interfaces: {error}"))?;
    let found = all.into_iter().find(|interface| interface.index == index);
    let interface = found.ok_or_else(|| format!("there is no interface {index} here"))?;
    if interface.loopback {
        return Err("packets over the loopback interface never leave the kernel".to_owned());
    }
    Ok(interface)
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

/// Whether no socket has the queue `queue_id`: it can be bound, or does not exist any more.
fn is_free(queue_id: QueueId) -> bool {
    let queues = QueueRange::one_or_any(Some(queue_id.queue));
    let layout = Layout::new(RingSizes { rx: RingSize::MIN, tx: RingSize::MIN }, 0);
    match XskSocket::bind(queue_id.interface, queues, XskMode::Skb, layout, false, 1) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn grants(policy: &str) -> GrantManager {
        GrantManager::new(policy.parse().unwrap(), 0)
    }

    fn ask(grants: &mut GrantManager, uid: u32, interface: u32, queue: u32) -> String {
        ask_for(grants, uid, interface, queue, RingSizes::default())
    }

    fn ask_for(
        grants: &mut GrantManager,
        uid: u32,
        interface: u32,
        queue: u32,
        sizes: RingSizes,
    ) -> String {
        let user = Credentials { uid, groups: Vec::new(), pid: 1 };
        let layout = Layout::new(sizes, 42);
        let queues = QueueRange::one_or_any(Some(queue));
        let mode = XskMode::Skb;
        let request =
            SocketRequest { interface, queues, mode, layout, longest: 1514, steer: false };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        match grants.decide(&user, request, socket.into()) {
            Err(GrantError::No(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_forbidden_request_is_refused_before_any_action() {
        let mut grants = grants("[[allow]]\nusers = [7]\ninterfaces = [\"*\"]\nqueues = 3");
        assert_eq!(ask(&mut grants, 7, u32::MAX, 3), "there is no interface 4294967295 here");
        assert!(ask(&mut grants, 7, 1, 3).contains("loopback"));
        let Some(index) = interfaces()
            .unwrap()
            .iter()
            .find(|interface| !interface.loopback)
            .map(|interface| interface.index)
        else {
            println!("only the loopback interface is here");
            return;
        };
        assert!(ask(&mut grants, 8, index, 3).contains("user 8 may not use interface"));
        assert!(ask(&mut grants, 7, index, 4).contains("user 7 may not use that queue"));
        assert!(ask(&mut grants, 7, index, 3).contains("another network namespace"));
        // A request for too much memory pins none.
        let twice = RingSizes { rx: RingSize::new(4096), tx: RingSize::new(2048) };
        assert!(ask_for(&mut grants, 7, index, 3, twice).contains("another network namespace"));
        let more = RingSizes { rx: RingSize::new(8192), tx: RingSize::MIN };
        let refusal = ask_for(&mut grants, 7, index, 3, more);
        assert_eq!(refusal, "a socket has 24 MiB of frames at most");
    }
}
