// SPDX-License-Identifier: MIT OR Apache-2.0
//! A visitor: it sends requests to each other host, and ends. It polls. Half of the visitors send
//! them to the residents, and write to their memory and read that back. The others connect to the
//! doors.
//!
//! In: the number of its host, and the residents' regions. Out: the exit code. Bounds: [`ROUNDS`]
//! requests to each host, [`LIFE`].

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ofi_xdp_libfabric::{
    Completion, Endpoint, Error, Info, Operation, Peer, RemoteBuffer, Setup, Wait,
};
use ofi_xdp_test_kit::rng::{Rng, differs_at, fill_pattern};

use crate::door;
use crate::hosts::{DOOR_PORT, HOSTS, RESIDENT_PORT, name};
use crate::offer::{self, Role};
use crate::payload::{ANSWER, LENGTH_MAX};
use crate::request::Requests;
use crate::resident;
use crate::slots::{Next, Waiting};

/// Requests to each host.
const ROUNDS: u64 = 24;
/// Requests under way at a time; as many buffers for requests, and for answers.
const WINDOW: usize = door::WINDOW;
/// The buffer that is written from and read into.
const MEMORY: usize = 2 * WINDOW;
/// The longest life. A resident's interface may be down for many seconds.
const LIFE: Duration = Duration::from_secs(120);
/// The longest time until a connection is there.
const CONNECT: Duration = Duration::from_secs(30);

/// Runs a visitor of `host`.
pub(crate) fn run(host: u8, port: u16, seed: u64, residents: &[String]) -> anyhow::Result<()> {
    let mut random = Rng::new(seed, "visitor");
    let deadline = Instant::now() + LIFE;
    let first = random.below(HOSTS.into()) as u8;
    let others = (0..HOSTS).map(|step| (first + step) % HOSTS).filter(|other| *other != host);
    if random.percent(50.0) {
        for other in others {
            call(host, other, deadline)
                .with_context(|| format!("with the door of host {other}"))?;
        }
        return Ok(());
    }
    let setup = Setup { slots: MEMORY + 1, size: LENGTH_MAX, wait: Wait::Spin };
    let (_, endpoint) = resident::open(host, port, setup)?;
    let mut visitor = Visitor::new(endpoint, deadline)?;
    for other in others {
        let peer = visitor.endpoint.insert(&name(other, RESIDENT_PORT))?;
        visitor.converse(peer).with_context(|| format!("with the resident of host {other}"))?;
        let region = residents.get(usize::from(other)).context("no such resident")?;
        let region = resident::region(region)?;
        let slot = usize::from(host);
        let len = random.within(1, LENGTH_MAX as u64) as usize;
        let buffer = RemoteBuffer { peer, region, slot };
        visitor
            .write_and_read(buffer, (random.next(), len))
            .with_context(|| format!("the memory of host {other}"))?;
    }
    Ok(())
}

/// Connects to the door of host `other`, converses with it, and ends the connection.
fn call(host: u8, other: u8, deadline: Instant) -> anyhow::Result<()> {
    let door = name(other, DOOR_PORT);
    let setup = Setup { slots: 2 * WINDOW, size: LENGTH_MAX, wait: Wait::Spin };
    let connect = |info: &Info| Endpoint::connect(info, setup, CONNECT);
    let (_, endpoint) = offer::open(host, Role::Caller(&door), connect)?;
    let mut visitor = Visitor::new(endpoint, deadline)?;
    visitor.converse(Peer::CONNECTED)?;
    Ok(visitor.endpoint.shutdown()?)
}

#[derive(Debug)]
struct Visitor {
    endpoint: Endpoint,
    waiting: Waiting,
    requests: Requests,
    deadline: Instant,
    /// The operation on memory that has finished.
    finished: Option<Operation>,
}

impl Visitor {
    /// With receives for answers.
    fn new(endpoint: Endpoint, deadline: Instant) -> anyhow::Result<Self> {
        let requests = Requests::new(endpoint.name()?, WINDOW..2 * WINDOW);
        let mut waiting = Waiting::default();
        (0..WINDOW).for_each(|slot| waiting.push(slot, Next::Receive(ANSWER)));
        Ok(Self { endpoint, waiting, requests, deadline, finished: None })
    }

    /// Requests to one peer, until the last answer.
    fn converse(&mut self, peer: Peer) -> anyhow::Result<()> {
        let mut made = 0;
        while made < ROUNDS || !self.requests.is_done() {
            let room = (peer, WINDOW);
            if made < ROUNDS && self.requests.make(&mut self.endpoint, &mut self.waiting, room)? {
                made += 1;
            }
            self.turn()?;
        }
        Ok(())
    }

    /// Writes `len` bytes of the pattern of `id` to `buffer`, and reads them back.
    fn write_and_read(
        &mut self,
        buffer: RemoteBuffer,
        (id, len): (u64, usize),
    ) -> anyhow::Result<()> {
        fill_pattern(id, 0, &mut self.endpoint.bytes(MEMORY)?[..len]);
        while let Err(error) = self.endpoint.write_data(MEMORY, len, buffer, id) {
            self.again(error)?;
        }
        self.finish(Operation::Write)?;
        self.endpoint.bytes(MEMORY)?.fill(0);
        while let Err(error) = self.endpoint.read(MEMORY, len, buffer) {
            self.again(error)?;
        }
        self.finish(Operation::Read)?;
        let wrong = differs_at(id, 0, &self.endpoint.bytes(MEMORY)?[..len]);
        ensure!(wrong.is_none(), "byte {wrong:?} of {len} was read wrongly");
        Ok(())
    }

    /// Makes progress after `-FI_EAGAIN`.
    fn again(&mut self, error: Error) -> anyhow::Result<()> {
        match error {
            Error::Again => self.turn(),
            error => Err(error.into()),
        }
    }

    fn finish(&mut self, operation: Operation) -> anyhow::Result<()> {
        while self.finished.is_none() {
            self.turn()?;
        }
        let finished = self.finished.take();
        ensure!(finished == Some(operation), "{finished:?} has finished, not {operation:?}");
        Ok(())
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        ensure!(Instant::now() < self.deadline, "not done within {LIFE:?}");
        let refused = self.waiting.post(&mut self.endpoint)?;
        ensure!(refused.is_none(), "a request is refused");
        let mut came = Vec::new();
        self.endpoint.poll(|completion| came.push(completion))?;
        for Completion { slot, operation, len, .. } in came {
            match operation {
                Operation::Receive => {
                    let bytes = self.endpoint.bytes(slot)?.get(..len).context("a long answer")?;
                    self.requests.answered(bytes)?;
                    self.waiting.push(slot, Next::Receive(ANSWER));
                }
                Operation::Send => self.requests.sent(slot),
                Operation::Write | Operation::Read => self.finished = Some(operation),
                other => bail!("an unexpected completion: {other:?}"),
            }
        }
        self.requests.check()
    }
}
