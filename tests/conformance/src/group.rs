// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected endpoints in this process.
//!
//! In: a [`Setup`]. Out: [`Node`]s, each a domain, a completion queue, an address vector and an
//! endpoint. Waiting for one node reads the queues of all, because a provider may make progress
//! only where its calls are made (`fi_domain(3)`, `FI_PROGRESS_MANUAL`). Every wait has a limit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi;
use crate::fi::{
    Answer, Av, Completion, Context, Cq, CqError, Domain, Ep, Errno, Event, Fabric, Fid, Info, Mem,
    Mr, Remote,
};
use crate::host::Host;
use crate::world::{EVENT_TIMEOUT, NO_EVENT_TIME, Setup, World};

/// Size of the buffer for an address in a lookup or `fi_getname`: every address format fits.
pub(crate) const NAME_ROOM: usize = 128;

/// One endpoint and its objects.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) domain: Arc<Domain>,
    pub(crate) cq: Cq,
    pub(crate) av: Av,
    pub(crate) ep: Ep,
    /// The fabric addresses of all nodes of the group in this vector, in order.
    pub(crate) peers: Vec<u64>,
    inbox: Mutex<VecDeque<Event>>,
    /// The host of the node, if it is another one than the test's.
    host: Option<Host>,
}

/// Nodes of one fabric.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) info: Info,
    pub(crate) fabric: Fabric,
    pub(crate) nodes: Vec<Node>,
}

/// Memory that peers may reach, with its address for them.
#[derive(Debug)]
pub(crate) struct Exposed {
    pub(crate) mem: Mem,
    pub(crate) mr: Mr,
    address: u64,
}

impl Exposed {
    /// The memory as a target, for an initiator with this `peer` in its address vector.
    pub(crate) fn remote(&self, peer: u64) -> Remote {
        Remote { peer, address: self.address, key: self.mr.key() }
    }
}

/// Attributes of an event queue that the application may write to.
pub(crate) fn eq_attr(wait: abi::fi_wait_obj) -> abi::fi_eq_attr {
    abi::fi_eq_attr {
        size: 16,
        flags: abi::FI_WRITE,
        wait_obj: wait,
        signaling_vector: 0,
        wait_set: std::ptr::null_mut(),
    }
}

/// The attributes of a completion queue.
pub(crate) fn cq_attr(setup: &Setup) -> abi::fi_cq_attr {
    abi::fi_cq_attr {
        size: setup.cq_size,
        flags: 0,
        format: setup.format,
        wait_obj: setup.wait,
        signaling_vector: 0,
        wait_cond: abi::FI_CQ_COND_NONE,
        wait_set: std::ptr::null_mut(),
    }
}

/// The attributes of an address vector.
pub(crate) fn av_attr(kind: abi::fi_av_type) -> abi::fi_av_attr {
    abi::fi_av_attr {
        type_: kind,
        rx_ctx_bits: 0,
        count: 0,
        ep_per_node: 0,
        name: std::ptr::null(),
        map_addr: std::ptr::null_mut(),
        flags: 0,
    }
}

impl Node {
    /// Opens all objects, and binds queue and vector to the endpoint; enables nothing.
    fn open(domain: Arc<Domain>, info: &Info, setup: &Setup, host: Option<&Host>) -> Result<Self> {
        let cq = domain.cq(&mut cq_attr(setup), Context::null()).context("fi_cq_open")?;
        let kind = info.domain().av_type;
        let av = domain.av(&mut av_attr(kind), Context::null()).context("fi_av_open")?;
        let ep = domain.endpoint(info, Context::null()).context("fi_endpoint")?;
        let flags = abi::FI_TRANSMIT | abi::FI_RECV | setup.bind;
        ep.bind(&cq, flags).context("fi_ep_bind of the completion queue")?;
        ep.bind(&av, 0).context("fi_ep_bind of the address vector")?;
        let (host, inbox) = (host.cloned(), Mutex::default());
        Ok(Self { domain, cq, av, ep, peers: Vec::new(), inbox, host })
    }

    /// Another endpoint of its domain, opened on the host where that is.
    pub(crate) fn endpoint(&self, info: &Info) -> Result<Ep> {
        let open = || self.domain.endpoint(info, Context::null()).context("fi_endpoint");
        self.host.as_ref().map_or_else(open, |host| host.run(open))
    }

    /// Makes a call on the host of the node.
    pub(crate) fn here<T>(&self, call: impl FnOnce() -> T) -> Result<T> {
        match &self.host {
            Some(host) => host.run(|| Ok(call())),
            None => Ok(call()),
        }
    }

    /// The endpoint's address.
    pub(crate) fn name(&self) -> Result<Vec<u8>> {
        self.ep.getname(NAME_ROOM).0.context("fi_getname")
    }

    /// Moves completions of the queue to the inbox.
    fn drain(&self) -> Result<()> {
        loop {
            match self.cq.event() {
                Ok(event) => self.inbox().push_back(event),
                Err(Errno(abi::FI_EAGAIN)) => return Ok(()),
                Err(errno) => return Err(errno).context("fi_cq_read"),
            }
        }
    }

    fn inbox(&self) -> std::sync::MutexGuard<'_, VecDeque<Event>> {
        self.inbox.lock().expect("no thread panicked")
    }

    /// Registers `mem` so that peers have `access` to it.
    pub(crate) fn expose(&self, info: &Info, mem: Mem, access: u64, key: u64) -> Result<Exposed> {
        let mr = self.domain.mr(mem, access, key).context("fi_mr_reg")?;
        self.exposed(info, mem, mr)
    }

    /// Prepares a region of `mem` for use, as the domain's `mr_mode` requires.
    pub(crate) fn exposed(&self, info: &Info, mem: Mem, mr: Mr) -> Result<Exposed> {
        let mode = info.domain().mr_mode;
        if mode & abi::FI_MR_ENDPOINT != 0 {
            mr.bind(&self.ep, 0).context("fi_mr_bind")?;
            mr.enable().context("fi_mr_enable")?;
        }
        let absolute = mode & abi::FI_MR_VIRT_ADDR != 0 || mode == abi::FI_MR_BASIC as i32;
        let address = if absolute { mem.address() } else { 0 };
        Ok(Exposed { mem, mr, address })
    }
}

impl World {
    /// Enabled nodes with each other's addresses.
    pub(crate) fn group(&self, setup: &Setup) -> Result<Group> {
        let mut group = self.closed_group(setup)?;
        group.enable()?;
        if setup.introduced {
            group.exchange_names()?;
        }
        Ok(group)
    }

    /// Two nodes with these capabilities.
    pub(crate) fn pair(&self, caps: u64) -> Result<Group> {
        self.group(&Setup::caps(caps))
    }

    /// Nodes with endpoints that are not enabled yet.
    pub(crate) fn closed_group(&self, setup: &Setup) -> Result<Group> {
        Group::open(self, self.offer(setup)?, setup)
    }
}

impl Group {
    /// Opens `setup.nodes` nodes with the offer `info`. If there is another host, every second node
    /// is there, unless the nodes share a domain.
    pub(crate) fn open(world: &World, info: Info, setup: &Setup) -> Result<Self> {
        let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
        let mut nodes: Vec<Node> = Vec::with_capacity(setup.nodes);
        let domain = |info: &Info| fabric.domain(info, Context::null()).context("fi_domain");
        for index in 0..setup.nodes {
            nodes.push(match (nodes.first(), &world.other) {
                (Some(first), _) if setup.one_domain => {
                    Node::open(Arc::clone(&first.domain), &info, setup, None)?
                }
                (Some(_), Some(host)) if index % 2 == 1 => host.run(|| {
                    let info = world.at(host).offer(setup)?;
                    Node::open(Arc::new(domain(&info)?), &info, setup, Some(host))
                })?,
                _ => Node::open(Arc::new(domain(&info)?), &info, setup, None)?,
            });
        }
        Ok(Self { info, fabric, nodes })
    }

    /// Enables every endpoint.
    pub(crate) fn enable(&self) -> Result<()> {
        self.nodes.iter().try_for_each(|node| node.ep.enable().context("fi_enable"))
    }

    /// Puts every node's address into every vector, in order.
    pub(crate) fn exchange_names(&mut self) -> Result<()> {
        let names = self.nodes.iter().map(Node::name).collect::<Result<Vec<_>>>()?;
        for node in &mut self.nodes {
            let insert = |name: &Vec<u8>| node.av.insert(name).context("fi_av_insert");
            node.peers = names.iter().map(insert).collect::<Result<Vec<_>>>()?;
        }
        Ok(())
    }

    /// The first node, which sends by default.
    pub(crate) fn a(&self) -> &Node {
        &self.nodes[0]
    }

    /// The second node.
    pub(crate) fn b(&self) -> &Node {
        &self.nodes[1]
    }

    /// The second node's address at the first.
    pub(crate) fn to_b(&self) -> u64 {
        self.a().peers[1]
    }

    /// The first node's address at the second.
    pub(crate) fn to_a(&self) -> u64 {
        self.b().peers[0]
    }

    /// Reads every queue once.
    pub(crate) fn step(&self) -> Result<()> {
        self.nodes.iter().try_for_each(Node::drain)
    }

    /// Reads every queue for some time.
    pub(crate) fn run(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step()?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Repeats a call while it answers `-FI_EAGAIN`, reading every queue in between.
    pub(crate) fn post(&self, mut call: impl FnMut() -> Answer) -> Result<()> {
        self.until("a call that is accepted", || match call() {
            Err(Errno(abi::FI_EAGAIN)) => Ok(None),
            Err(errno) => Err(errno.into()),
            Ok(()) => Ok(Some(())),
        })
    }

    /// Reads every queue until `ready` returns a value.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let end = Instant::now() + EVENT_TIMEOUT;
        loop {
            if let Some(found) = ready()? {
                return Ok(found);
            }
            ensure!(Instant::now() < end, "waited {EVENT_TIMEOUT:?}, and there is no {what}");
            self.step()?;
            std::thread::yield_now();
        }
    }

    /// The next event of `node`, of either kind.
    pub(crate) fn event(&self, node: &Node) -> Result<Event> {
        self.until("a completion", || Ok(node.inbox().pop_front()))
    }

    /// The next completion of `node`.
    pub(crate) fn next(&self, node: &Node) -> Result<Completion> {
        match self.event(node)? {
            Event::Done(completion) => Ok(completion),
            Event::Failed(error) => bail!("a completion was expected, not {error:?}"),
        }
    }

    /// The next event of `node`, which must be an error.
    pub(crate) fn error(&self, node: &Node) -> Result<CqError> {
        match self.event(node)? {
            Event::Failed(error) => Ok(error),
            Event::Done(completion) => bail!("an error was expected, not {completion:?}"),
        }
    }

    /// The next `count` completions of `node`.
    pub(crate) fn take(&self, node: &Node, count: usize) -> Result<Vec<Completion>> {
        let take = |index| self.next(node).with_context(|| format!("{index} of {count}"));
        (0..count).map(take).collect()
    }

    /// Checks that no event of `node` arrives for some time.
    pub(crate) fn expect_no_event(&self, node: &Node) -> Result<()> {
        self.run(NO_EVENT_TIME)?;
        match node.inbox().front() {
            None => Ok(()),
            Some(event) => bail!("nothing was expected, not {event:?}"),
        }
    }

    /// The next completion of `node`, which must have this `context`.
    pub(crate) fn done(&self, node: &Node, context: Context) -> Result<Completion> {
        let completion = self.next(node)?;
        ensure!(
            completion.context == context.ptr(),
            "the completion of {context:?} was expected, not {completion:?}"
        );
        Ok(completion)
    }

    /// The first node sends `mem` to the second, which receives into `into`. Returns both
    /// completions.
    pub(crate) fn exchange(&self, mem: Mem, into: Mem) -> Result<(Completion, Completion)> {
        let (send, receive) = (Context::new(), Context::new());
        self.post(|| self.b().ep.recv(into, abi::FI_ADDR_UNSPEC, receive))?;
        self.post(|| self.a().ep.send(mem, self.to_b(), send))?;
        Ok((self.done(self.a(), send)?, self.done(self.b(), receive)?))
    }

    /// Closes all objects in the order that `fi_close` demands.
    pub(crate) fn close(&self) -> Result<()> {
        for node in &self.nodes {
            node.ep.close().context("fi_close of an endpoint")?;
        }
        self.close_rest()
    }

    /// Closes all objects but the endpoints, which are closed.
    pub(crate) fn close_rest(&self) -> Result<()> {
        for node in &self.nodes {
            node.av.close().context("fi_close of an address vector")?;
            node.cq.close().context("fi_close of a completion queue")?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let mut earlier = self.nodes[..index].iter();
            if !earlier.any(|other| Arc::ptr_eq(&other.domain, &node.domain)) {
                node.domain.close().context("fi_close of a domain")?;
            }
        }
        self.fabric.close().context("fi_close of a fabric")
    }
}
