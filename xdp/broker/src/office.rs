// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deciding on requests, and doing what was decided.
//!
//! A peer, its request and its kernel socket come in; a [`Held`] grant and the socket to pass on go
//! out, or a [`Refusal`]. `server.rs` calls for each request. Bounds: one attempt to bind for each
//! allowed queue, one load of the program for each interface, [`memory_max`] for each socket, and
//! for each user what `ledger.rs` bounds.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use ofi_xdp_datapath::broker::{Board, Request};
use ofi_xdp_datapath::{
    Grant, Held, InterfaceFacts, Layout, Queues, Redirect, RingSize, RingSizes, Wish, XskError,
    XskMode, XskSocket, interfaces,
};

use crate::companion::Companion;
use crate::ledger::{Ledger, Place};
use crate::peer::Peer;
use crate::policy::Policy;

/// Why a request is not granted.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// All queues that it may have are taken at the moment.
    Busy(String),
    /// For good.
    No(String),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::No(reason)
    }
}

/// What was granted, as long as it stands.
#[derive(Debug)]
pub(crate) struct Granted {
    held: Held,
    companion: Companion,
    board: Board,
    uid: u32,
    place: Place,
}

impl Granted {
    /// Whether it still stands: the program redirects, and the client's socket has its address.
    pub(crate) fn stands(&self) -> bool {
        self.held.end().is_none() && self.companion.is_bound()
    }
}

/// The policy, and what has been given out.
#[derive(Debug)]
pub(crate) struct Office {
    policy: Policy,
    namespace: u64,
    ledger: Ledger,
    /// The program of each interface where anything was granted, by the interface's index.
    programs: HashMap<u32, Redirect>,
}

impl Office {
    /// An office for network namespace `namespace`.
    pub(crate) fn new(policy: Policy, namespace: u64) -> Self {
        Self { policy, namespace, ledger: Ledger::default(), programs: HashMap::new() }
    }

    /// Whether `peer` may ask for anything at all.
    pub(crate) fn knows(&self, peer: &Peer) -> bool {
        self.policy.knows(peer)
    }

    /// Grants what `peer` wants for the endpoint whose kernel socket is `companion`, if it may have
    /// it. The grant's socket is for the client alone.
    pub(crate) fn decide(
        &mut self,
        peer: &Peer,
        request: Request,
        companion: OwnedFd,
    ) -> Result<(Grant, Pending), Refusal> {
        let Request(wish) = request;
        let interface = interface(wish.interface)?;
        let name = &interface.name;
        let rule = self
            .policy
            .rule(peer, name)
            .ok_or_else(|| format!("user {} may not use interface {name}", peer.uid))?;
        let queues = wish
            .queues
            .and(rule.queues)
            .ok_or_else(|| format!("user {} may not use that queue of {name}", peer.uid))?;
        let most = memory_max();
        if wish.layout.bytes() > most {
            return Err(format!("a socket has {} MiB of frames at most", most >> 20).into());
        }
        let companion = Companion::check(companion, self.namespace, &interface)?;
        let address = companion.address();
        if !rule.allows_port(address.port()) {
            return Err(format!("user {} may not use port {}", peer.uid, address.port()).into());
        }
        let most = rule.sockets;
        if !self.ledger.has_room(peer.uid, most, is_free) {
            return Err(format!("user {} has {most} sockets already", peer.uid).into());
        }
        self.programs.retain(|_, program| program.is_attached().unwrap_or(false));
        let forbidden = wish.steer && !rule.steering;
        let board = Board::new().map_err(|error| format!("make a page of memory: {error}"))?;
        let wish = Wish { queues, steer: wish.steer && !forbidden, ..wish };
        let mut grant = Grant::open(wish, 1).map_err(refusal)?;
        grant.claim(wish, address).map_err(refusal)?;
        let place = Place { interface: wish.interface, queue: grant.socket().queue() };
        let interface = interface.name;
        let uid = peer.uid;
        Ok((grant, Pending { companion, interface, uid, place, board, forbidden }))
    }

    /// The client has `grant`.
    pub(crate) fn granted(&mut self, grant: Grant, pending: Pending) -> Option<Granted> {
        let Pending { companion, uid, place, board, .. } = pending;
        self.ledger.granted(uid, place);
        let held = grant.into_held()?;
        self.programs.entry(place.interface).or_insert_with(|| held.redirect().clone());
        Some(Granted { held, companion, board, uid, place })
    }

    /// The client's connection is gone: packets come to its socket no more.
    pub(crate) fn ended(&mut self, granted: &Granted) {
        self.ledger.disconnected(granted.uid, granted.place);
    }

    /// Tells those who have something of `granted` what the programs count.
    pub(crate) fn publish<'a>(&self, granted: impl Iterator<Item = &'a Granted> + Clone) {
        for (index, program) in &self.programs {
            let Ok(counters) = program.counters() else { continue };
            for one in granted.clone().filter(|one| one.place.interface == *index) {
                one.board.write(&counters);
            }
        }
    }

    /// Lets go of the programs of interfaces where none of `granted` is.
    pub(crate) fn tidy<'a>(&mut self, granted: impl Iterator<Item = &'a Granted> + Clone) {
        self.programs.retain(|index, _| granted.clone().any(|one| one.place.interface == *index));
    }
}

/// What is to be remembered of a grant while it is passed on.
#[derive(Debug)]
pub(crate) struct Pending {
    companion: Companion,
    interface: String,
    uid: u32,
    place: Place,
    board: Board,
    /// Steering was wished for, and the policy is against it.
    forbidden: bool,
}

impl Pending {
    /// Where the client will read what the program counts.
    pub(crate) fn board(&self) -> BorrowedFd<'_> {
        self.board.as_fd()
    }

    /// Why packets are not steered, where that was wished for; else empty.
    pub(crate) fn why_not_steered<'a>(&self, grant: &'a Grant) -> &'a str {
        match grant.why_not_steered() {
            None if self.forbidden => "the policy of xdp-broker does not allow `steering`",
            reason => reason.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.companion.address(), self.interface)
    }
}

/// Most bytes of frames of one socket, which stay in memory whatever becomes of the client: twice
/// what the provider asks for.
fn memory_max() -> usize {
    2 * Layout::new(RingSizes::default(), 0).bytes()
}

/// The interface with this index, which can have sockets.
fn interface(index: u32) -> Result<InterfaceFacts, String> {
    let all = interfaces().map_err(|error| format!("list the interfaces: {error}"))?;
    let found = all.into_iter().find(|interface| interface.index == index);
    let interface = found.ok_or_else(|| format!("there is no interface {index} here"))?;
    if interface.loopback {
        return Err("packets over the loopback interface never leave the kernel".to_owned());
    }
    Ok(interface)
}

fn refusal(error: XskError) -> Refusal {
    let reason = error.to_string();
    match error {
        XskError::Bind(error) if error.raw_os_error() == Some(libc::EBUSY) => Refusal::Busy(reason),
        _ => Refusal::No(reason),
    }
}

/// Whether nobody has the queue at `place`: it can be bound, or is no more.
fn is_free(place: Place) -> bool {
    let queues = Queues::one_or_any(Some(place.queue));
    let layout = Layout::new(RingSizes { rx: RingSize::MIN, tx: RingSize::MIN }, 0);
    match XskSocket::bind(place.interface, queues, XskMode::Skb, layout, false, 1) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENODEV),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn office(policy: &str) -> Office {
        Office::new(policy.parse().unwrap(), 0)
    }

    fn ask(office: &mut Office, uid: u32, interface: u32, queue: u32) -> String {
        ask_for(office, uid, interface, queue, RingSizes::default())
    }

    fn ask_for(
        office: &mut Office,
        uid: u32,
        interface: u32,
        queue: u32,
        sizes: RingSizes,
    ) -> String {
        let peer = Peer { uid, groups: Vec::new(), pid: 1 };
        let layout = Layout::new(sizes, 42);
        let queues = Queues::one_or_any(Some(queue));
        let mode = XskMode::Skb;
        let request =
            Request(Wish { interface, queues, mode, layout, longest: 1514, steer: false });
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        match office.decide(&peer, request, socket.into()) {
            Err(Refusal::No(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_allowed_is_refused_before_anything_is_done() {
        let mut office = office("[[allow]]\nusers = [7]\ninterfaces = [\"*\"]\nqueues = 3");
        assert_eq!(ask(&mut office, 7, u32::MAX, 3), "there is no interface 4294967295 here");
        assert!(ask(&mut office, 7, 1, 3).contains("loopback"));
        let Some(index) = interfaces().unwrap().iter().find(|one| !one.loopback).map(|it| it.index)
        else {
            println!("only the loopback interface is here");
            return;
        };
        assert!(ask(&mut office, 8, index, 3).contains("user 8 may not use interface"));
        assert!(ask(&mut office, 7, index, 4).contains("user 7 may not use that queue"));
        assert!(ask(&mut office, 7, index, 3).contains("another network namespace"));
        // No memory is pinned for who wants too much.
        let twice = RingSizes { rx: RingSize::new(4096), tx: RingSize::new(2048) };
        assert!(ask_for(&mut office, 7, index, 3, twice).contains("another network namespace"));
        let more = RingSizes { rx: RingSize::new(8192), tx: RingSize::MIN };
        let said = ask_for(&mut office, 7, index, 3, more);
        assert_eq!(said, "a socket has 24 MiB of frames at most");
    }
}
