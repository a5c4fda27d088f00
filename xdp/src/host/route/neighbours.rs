// SPDX-License-Identifier: MIT OR Apache-2.0
//! The neighbours on one interface that are next hops of peers.
//!
//! In: the IP addresses of next hops, and the kernel's notifications. Out: an index for each
//! address, and the [`Neighbour`] with that index. Caller: the route table. Bounds: the room of
//! [`Neighbours::with_room`], a table without room is cleared; [`USABLE_MAX`] neighbours that the
//! kernel knows when the table is made; one thread, which asks for at most [`ASKED_MAX`].
//!
//! A thread asks for other neighbours, because the answer may wait for the kernel's lock of all
//! interfaces. Packets to a neighbour take the kernel's path until it is known, from the answer or
//! from a notification. A notification is newer than the answer to a question before it.

use std::collections::{HashMap, TryReserveError};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use netlink_packet_route::neighbour::NeighbourMessage;

use super::lookup::{Neighbour, announced, ask_neighbour, neighbour, usable_neighbours};
use crate::host::netlink::Netlink;
use crate::host::question::Question;

/// In place of a neighbour's index: the packet takes the kernel's path.
pub(super) const KERNEL: u32 = u32::MAX;

/// Maximum number of neighbours that one thread asks for.
const ASKED_MAX: usize = 64;
/// Maximum number of neighbours in a new table, as many as the kernel keeps of a family by default
/// (`gc_thresh3`, arp(7)).
const USABLE_MAX: usize = 1024;

/// Neighbours by index, and the index by address.
#[derive(Debug)]
pub(super) struct Neighbours {
    interface: u32,
    /// `None`: it is not known yet.
    known: Vec<(IpAddr, Option<Neighbour>)>,
    index: HashMap<IpAddr, u32>,
    /// Number of the first neighbours, which were known from the start or asked for.
    asked: usize,
    /// The neighbours that a thread asks for, and its answers in their order.
    question: Option<(Range<usize>, Question<Vec<Neighbour>>)>,
    /// For the threads.
    netlink: Arc<Mutex<Netlink>>,
}

impl Neighbours {
    /// A table of the neighbours on `interface` that the kernel knows, with room for `count` more,
    /// which are asked for by `netlink`.
    pub(super) fn with_room(
        mut netlink: Netlink,
        interface: u32,
        count: usize,
    ) -> Result<Self, TryReserveError> {
        let usable =
            usable_neighbours(&mut netlink, interface, USABLE_MAX).unwrap_or_else(|error| {
                log::debug!("the neighbours are asked for one by one: {error}");
                Vec::new()
            });
        let (mut known, mut index) = (Vec::new(), HashMap::new());
        known.try_reserve_exact(count + usable.len())?;
        index.try_reserve(count + usable.len())?;
        let netlink = Arc::new(Mutex::new(netlink));
        let mut table = Self { interface, known, index, asked: 0, question: None, netlink };
        for (ip, neighbour) in usable {
            table.insert(ip, Some(neighbour));
        }
        table.asked = table.known.len();
        Ok(table)
    }

    /// The neighbour with an index that [`Self::find`] returned; `None` while it is not known.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Neighbour> {
        self.known.get_mut(at as usize)?.1.as_mut()
    }

    /// Whether `ip` is new, and the table is full of neighbours of former peers.
    pub(super) fn lacks_room(&self, ip: IpAddr) -> bool {
        self.known.len() == self.known.capacity() && !self.index.contains_key(&ip)
    }

    /// The index of neighbour `ip`. [`Self::ask`] asks for it if it is new.
    pub(super) fn find(&mut self, ip: IpAddr) -> u32 {
        if let Some(index) = self.index.get(&ip) {
            return *index;
        }
        self.insert(ip, None)
    }

    /// Adds a neighbour. Returns its index.
    pub(super) fn insert(&mut self, ip: IpAddr, neighbour: Option<Neighbour>) -> u32 {
        let index = u32::try_from(self.known.len()).unwrap_or(KERNEL);
        self.known.push((ip, neighbour));
        self.index.insert(ip, index);
        index
    }

    /// Takes the answers of a thread, and starts one if there are new neighbours.
    #[inline]
    pub(super) fn ask(&mut self) {
        if self.question.is_some() {
            self.take_answers();
        } else if self.asked < self.known.len() {
            self.ask_new();
        }
    }

    /// Asks for new neighbours, by a thread where one is to be had. Without memory for that the
    /// next call does.
    #[cold]
    fn ask_new(&mut self) {
        let range = self.asked..self.known.len().min(self.asked + ASKED_MAX);
        let new = self.known.get(range.clone()).unwrap_or_default();
        let (mut ips, mut answers) = (Vec::new(), Vec::new());
        if ips.try_reserve_exact(new.len()).is_err()
            || answers.try_reserve_exact(new.len()).is_err()
        {
            return;
        }
        ips.extend(new.iter().map(|(ip, _)| *ip));
        let (netlink, interface) = (Arc::clone(&self.netlink), self.interface);
        let question = Question::ask(move || {
            let mut netlink = netlink.lock().unwrap_or_else(PoisonError::into_inner);
            answers.extend(ips.into_iter().map(|ip| answer(&mut netlink, interface, ip)));
            answers
        });
        self.asked = range.end;
        match question {
            Ok(question) => self.question = Some((range, question)),
            Err(error) => {
                log::debug!("neighbours are asked for without a thread: {error}");
                let mut netlink = self.netlink.lock().unwrap_or_else(PoisonError::into_inner);
                for (ip, known) in self.known.get_mut(range).unwrap_or_default() {
                    known.get_or_insert_with(|| answer(&mut netlink, self.interface, *ip));
                }
            }
        }
    }

    /// Enters the answers, unless notifications came before them.
    #[cold]
    fn take_answers(&mut self) {
        let Some((range, question)) = self.question.take_if(|(_, question)| question.is_answered())
        else {
            return;
        };
        // Neighbours that were entered since a call of `clear` are others, and not asked for yet.
        let asked = self.known.get_mut(..self.asked).unwrap_or_default();
        let asked = asked.get_mut(range).unwrap_or_default();
        for ((_, known), answer) in asked.iter_mut().zip(question.answer().unwrap_or_default()) {
            known.get_or_insert(answer);
        }
    }

    /// Applies the notification of a neighbour's change.
    pub(super) fn change(&mut self, message: &NeighbourMessage, gone: bool) {
        if message.header.ifindex != self.interface {
            return;
        }
        if let Some(at) = announced(message).and_then(|ip| self.index.get(&ip))
            && let Some((_, known)) = self.known.get_mut(*at as usize)
        {
            *known = Some(if gone { Neighbour::UNKNOWN } else { neighbour(message) });
        }
    }

    /// Removes all neighbours.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.index.clear();
        self.asked = 0;
    }

    /// Whether there is no neighbour.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.index.is_empty()
    }
}

/// The neighbour with address `ip`, as the kernel has it; unknown where the kernel does not say.
fn answer(netlink: &mut Netlink, interface: u32, ip: IpAddr) -> Neighbour {
    ask_neighbour(netlink, interface, ip).unwrap_or_else(|error| {
        log::debug!("neighbour {ip} could not be asked for: {error}");
        Neighbour::UNKNOWN
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::MacAddress;
    use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourState};
    use std::net::Ipv4Addr;

    const IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 18, 0, 3)];

    /// A table on the loopback interface, where the kernel knows none of these.
    fn asking_for(ip: Ipv4Addr) -> Neighbours {
        let mut neighbours = Neighbours::with_room(Netlink::open().unwrap(), 1, 2).unwrap();
        // The kernel may have own addresses in its table.
        neighbours.clear();
        assert_eq!(neighbours.find(ip.into()), 0);
        neighbours.ask();
        assert!(neighbours.question.is_some() && neighbours.get_mut(0).is_none());
        neighbours
    }

    /// Waits for the answers to the question under way.
    fn answered(neighbours: &mut Neighbours) {
        while neighbours.question.is_some() {
            std::thread::yield_now();
            neighbours.ask();
        }
    }

    #[test]
    fn a_notification_counts_and_not_the_answer_to_a_question_before_it() {
        let mut neighbours = asking_for(IPS[0]);
        let mut message = NeighbourMessage::default();
        message.header.ifindex = 1;
        message.header.state = NeighbourState::Reachable;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(IPS[0])),
            NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 9]),
        ];
        neighbours.change(&message, false);
        answered(&mut neighbours);
        let mac = Some(MacAddress([2, 0, 0, 0, 0, 9]));
        assert_eq!(neighbours.get_mut(0).copied(), Some(Neighbour { mac, ..Neighbour::UNKNOWN }));
    }

    #[test]
    fn the_neighbours_of_a_cleared_table_are_asked_for_again() {
        let mut neighbours = asking_for(IPS[0]);
        neighbours.clear();
        assert_eq!(neighbours.find(IPS[1].into()), 0);
        answered(&mut neighbours);
        assert_eq!(neighbours.get_mut(0), None, "the answer is about another one");
        neighbours.ask();
        answered(&mut neighbours);
        assert_eq!(neighbours.get_mut(0).copied(), Some(Neighbour::UNKNOWN));
    }
}
