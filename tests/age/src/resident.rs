// SPDX-License-Identifier: MIT OR Apache-2.0
//! A resident: an endpoint that lives as long as the run.
//!
//! It sends requests to the next host's resident, answers those of all peers with their own bytes,
//! and has memory for the visitors' writes and reads. It sleeps in `fi_cq_sread`. A visitor that
//! was killed leaves answers without a receiver, and messages of which only a part came: these may
//! end in errors, nothing else may.
//!
//! In: the number of its host. Out: lines for the run. Bounds: [`SLOTS`] buffers, and two
//! visitors of each host in the address vector.

use std::collections::HashMap;
use std::io::Write as _;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ofi_xdp_harness::interrupt;
use ofi_xdp_libfabric::{
    Completion, Endpoint, Error, Info, Operation, Peer, RemoteRegion, Setup, Wait,
};

use crate::hosts::{HOSTS, RESIDENT_PORT, name};
use crate::offer::{self, Role};
use crate::payload::{ANSWER, LENGTH_MAX, REQUEST, verify};
use crate::request::Requests;
use crate::slots::{Next, Waiting};

/// Buffers that the visitors of each host write to and read from.
const TARGETS: Range<usize> = 0..HOSTS as usize;
/// Buffers for requests, which are sent back.
const SERVED: Range<usize> = TARGETS.end..TARGETS.end + 48;
/// Buffers for answers, and for own requests: the window.
const ANSWERS: Range<usize> = SERVED.end..SERVED.end + WINDOW;
const OWN: Range<usize> = ANSWERS.end..ANSWERS.end + WINDOW;
const SLOTS: usize = OWN.end;
const WINDOW: usize = 8;
/// Bytes of an IPv4 name, a `sockaddr_in`, that are the IP address.
const IP: Range<usize> = 4..8;
/// Longest sleep.
const SLEEP: Duration = Duration::from_millis(20);

/// Opens the endpoint of `host` at `port`.
pub(crate) fn open(host: u8, port: u16, setup: Setup) -> anyhow::Result<(Info, Endpoint)> {
    offer::open(host, Role::Peers(port), |info| Endpoint::open(info, setup))
}

/// Prints a line, at once.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// The region of a resident from its line.
pub(crate) fn region(line: &str) -> anyhow::Result<RemoteRegion> {
    let (key, base) = line.split_once(':').context("not KEY:BASE")?;
    Ok(RemoteRegion { key: key.parse()?, base: base.parse()? })
}

/// The state of a resident.
#[derive(Debug)]
struct Resident {
    endpoint: Endpoint,
    waiting: Waiting,
    requests: Requests,
    /// The next host's resident.
    next: Peer,
    /// The residents, and the visitors in the address vector, by name.
    residents: HashMap<Vec<u8>, Peer>,
    visitors: HashMap<Vec<u8>, Peer>,
    /// The peer that each buffer is being sent back to.
    returning: HashMap<usize, Peer>,
    served: u64,
    /// Answers and requests that ended in errors, because a visitor was killed.
    lost: u64,
}

/// Runs the resident of `host`.
pub(crate) fn run(host: u8) -> anyhow::Result<()> {
    interrupt::install()?;
    let setup = Setup { slots: SLOTS, size: LENGTH_MAX, wait: Wait::Sread };
    let (info, mut endpoint) = open(host, RESIDENT_PORT, setup)?;
    let mut residents = HashMap::new();
    for other in (0..HOSTS).filter(|other| *other != host) {
        let name = name(other, RESIDENT_PORT);
        let peer = endpoint.insert(&name)?;
        residents.insert(name.0, peer);
    }
    let next = residents[&name((host + 1) % HOSTS, RESIDENT_PORT).0];
    let mut waiting = Waiting::default();
    SERVED.for_each(|slot| waiting.push(slot, Next::Receive(REQUEST)));
    ANSWERS.for_each(|slot| waiting.push(slot, Next::Receive(ANSWER)));
    let requests = Requests::new(endpoint.name()?, OWN);
    let RemoteRegion { key, base } = endpoint.region(&info)?;
    say(&format!("resident {key}:{base}"))?;
    let (visitors, returning) = (HashMap::new(), HashMap::new());
    let (served, lost) = (0, 0);
    Resident { endpoint, waiting, requests, next, residents, visitors, returning, served, lost }
        .live()
}

impl Resident {
    fn live(mut self) -> anyhow::Result<()> {
        let mut said = false;
        // bound: the run, which kills this process
        loop {
            let stopped = interrupt::check().is_err();
            while !stopped
                && self.requests.make(&mut self.endpoint, &mut self.waiting, (self.next, WINDOW))?
            {
            }
            if let Some(slot) = self.waiting.post(&mut self.endpoint)? {
                self.refused(slot)?;
            }
            let mut came = Vec::new();
            match self.endpoint.wait(SLEEP, |completion| came.push(completion)) {
                Ok(_) => {}
                // A signal ends the sleep.
                Err(Error::Call { errno: nix::libc::EINTR, .. }) => {}
                Err(Error::Completion { slot: Some(slot), operation, errno, .. }) => {
                    self.failed(slot, operation).with_context(|| format!("error {errno}"))?;
                }
                Err(error) => return Err(error.into()),
            }
            for completion in came {
                self.completed(completion)?;
            }
            self.requests.check()?;
            if stopped && self.requests.is_done() && !said {
                let Self { requests, served, lost, .. } = &self;
                say(&format!("verified {} served {served} lost {lost}", requests.verified))?;
                said = true;
            }
        }
    }

    fn completed(&mut self, completion: Completion) -> anyhow::Result<()> {
        let Completion { slot, operation, len, .. } = completion;
        match operation {
            Operation::Receive if SERVED.contains(&slot) => self.serve(slot, len)?,
            Operation::Receive => {
                let bytes = self.endpoint.bytes(slot)?.get(..len).context("a long answer")?;
                self.requests.answered(bytes)?;
                self.waiting.push(slot, Next::Receive(ANSWER));
            }
            Operation::Send if SERVED.contains(&slot) => {
                self.returning.remove(&slot);
                self.waiting.push(slot, Next::Receive(REQUEST));
            }
            Operation::Send => self.requests.sent(slot),
            Operation::RemoteWrite => {}
            other => bail!("an unexpected completion: {other:?}"),
        }
        Ok(())
    }

    /// Verifies a request, and sends it back.
    fn serve(&mut self, slot: usize, len: usize) -> anyhow::Result<()> {
        let bytes = self.endpoint.bytes(slot)?.get(..len).context("a long request")?;
        let (_, name) = verify(bytes)?;
        let known = self.residents.get(&name.0).or_else(|| self.visitors.get(&name.0)).copied();
        let peer = match known {
            Some(peer) => peer,
            None => {
                self.forget_visitors(name.0.get(IP).context("a short name")?)?;
                let peer = self.endpoint.insert(&name)?;
                self.visitors.insert(name.0, peer);
                peer
            }
        };
        self.returning.insert(slot, peer);
        self.served += 1;
        self.waiting.push(slot, Next::Send(len, peer, ANSWER));
        Ok(())
    }

    /// Removes the visitors of the host with address `ip` from the address vector: another one has
    /// come, so they have gone. Those with an answer under way stay until the next one.
    fn forget_visitors(&mut self, ip: &[u8]) -> anyhow::Result<()> {
        let Self { visitors, returning, endpoint, .. } = self;
        let mut result = Ok(());
        visitors.retain(|name, peer| {
            let stays = name.get(IP) != Some(ip) || returning.values().any(|to| to == peer);
            if !stays && result.is_ok() {
                result = endpoint.remove(*peer);
            }
            stays
        });
        Ok(result?)
    }

    /// An operation on `slot` ended in an error.
    fn failed(&mut self, slot: usize, operation: Operation) -> anyhow::Result<()> {
        ensure!(SERVED.contains(&slot), "{operation:?} between residents failed");
        if operation != Operation::Receive {
            return self.refused(slot);
        }
        self.lost += 1;
        self.waiting.push(slot, Next::Receive(REQUEST));
        Ok(())
    }

    /// The answer in `slot` does not reach its peer.
    fn refused(&mut self, slot: usize) -> anyhow::Result<()> {
        ensure!(SERVED.contains(&slot), "a request to a resident is refused");
        let peer = self.returning.remove(&slot).context("no answer")?;
        ensure!(!self.residents.values().any(|it| *it == peer), "an answer to a resident failed");
        self.lost += 1;
        self.waiting.push(slot, Next::Receive(REQUEST));
        Ok(())
    }
}
