// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate of threads with a context each, or an endpoint each:
//! `threads --local 127.0.0.1 --threads 2 --form contexts`.
//!
//! A thread sends messages in a window and receives them: by a transmit context of one scalable
//! endpoint and a receive context of another, or by two endpoints of its own. Each has completion
//! queues of its own. The program prints the messages a second of all threads together, for each
//! round, as one JSON object. Bound: the rounds.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use ofi_xdp_bench::queue;
use ofi_xdp_bench::report::ThreadRates;
use ofi_xdp_libfabric::raw::{
    Av, Context, Cq, Domain, Ep, Errno, Fabric, Fid, Info, Mem, abi, getinfo, rx_addr,
};

/// Bytes of a message.
const LEN: usize = 8;
/// Messages of a thread under way.
const WINDOW: usize = 64;
/// Bits of an address that name a context.
const CONTEXT_BITS: u32 = 7;
/// Completions that one call reads.
const BATCH: usize = 32;
/// Bytes of the longest address.
const NAME_ROOM: usize = 128;

/// The objects of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Form {
    /// A transmit and a receive context.
    Contexts,
    /// Two endpoints.
    Endpoints,
}

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The provider, by its full name
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The local address of all endpoints
    #[arg(long, value_name = "IP")]
    local: IpAddr,
    /// Number of threads
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    /// The objects of a thread
    #[arg(long, value_enum, default_value = "contexts")]
    form: Form,
    /// Milliseconds of a round
    #[arg(long, default_value_t = 500, value_name = "MS")]
    time: u64,
    /// Rounds after the first, which is not measured
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let info = offer(&cli)?;
    let fabric = Fabric::open(&info, Context::null()).context("fi_fabric")?;
    let domain = fabric.domain(&info, Context::null()).context("fi_domain")?;
    let mut lanes = match cli.form {
        Form::Contexts => contexts(&domain, &info, cli.threads)?,
        Form::Endpoints => endpoints(&domain, &info, cli.threads)?,
    };
    let time = Duration::from_millis(cli.time);
    round(&mut lanes, time)?;
    let rates = (0..cli.rounds).map(|_| round(&mut lanes, time));
    let message_rate = rates.collect::<anyhow::Result<_>>()?;
    let report = ThreadRates { provider: cli.provider, message_rate };
    println!("{}", serde_json::to_string(&report)?);
    // The process ends, and all objects with it.
    Ok(())
}

/// The first offer at the local address.
fn offer(cli: &Cli) -> anyhow::Result<Info> {
    let hints = Info::empty();
    hints.set_provider_name(&cli.provider);
    let contexts = if cli.form == Form::Contexts { abi::FI_NAMED_RX_CTX } else { 0 };
    hints.set(|info| (info.caps, info.mode) = (abi::FI_MSG | contexts, abi::FI_CONTEXT));
    hints.set_ep(|ep| ep.type_ = abi::FI_EP_RDM);
    hints.set_domain(|domain| domain.threading = abi::FI_THREAD_COMPLETION);
    let local = cli.local.to_string();
    let offers = getinfo(abi::VERSION, Some(&local), None, abi::FI_SOURCE, Some(&hints));
    offers.context("fi_getinfo")?.into_iter().next().context("no offer")
}

/// The objects of one thread, and its window.
struct Lane {
    sender: Ep,
    sent: Cq,
    receiver: Ep,
    received: Cq,
    to: u64,
    under_way: usize,
}

fn vector(domain: &Domain, context_bits: u32) -> anyhow::Result<Av> {
    let mut attributes = abi::fi_av_attr {
        type_: abi::FI_AV_UNSPEC,
        rx_ctx_bits: context_bits.cast_signed(),
        count: 0,
        ep_per_node: 0,
        name: std::ptr::null(),
        map_addr: std::ptr::null_mut(),
        flags: 0,
    };
    domain.av(&mut attributes, Context::null()).context("fi_av_open")
}

/// Binds a queue to an endpoint for `side`, and enables it.
fn start(ep: &Ep, queue: &Cq, side: u64) -> anyhow::Result<()> {
    ep.bind(queue, side).context("fi_ep_bind of a queue")?;
    ep.enable().context("fi_enable")
}

fn name(ep: &Ep) -> anyhow::Result<Vec<u8>> {
    ep.getname(NAME_ROOM).0.context("fi_getname")
}

/// Two scalable endpoints with a context for each thread.
fn contexts(domain: &Domain, info: &Info, threads: usize) -> anyhow::Result<Vec<Lane>> {
    let info = info.dup();
    info.set_ep(|ep| (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (threads, threads));
    let addresses = vector(domain, CONTEXT_BITS)?;
    let open = || -> anyhow::Result<Ep> {
        let scalable = domain.scalable_ep(&info).context("fi_scalable_ep")?;
        scalable.bind(&addresses, 0).context("fi_scalable_ep_bind")?;
        Ok(scalable)
    };
    let (from, at) = (open()?, open()?);
    let mut lanes = Vec::new();
    for index in 0..i32::try_from(threads)? {
        let sender = from.tx_context(index, None).context("fi_tx_context")?;
        let receiver = at.rx_context(index, None).context("fi_rx_context")?;
        let (sent, received) = (queue::open(domain, 4 * WINDOW)?, queue::open(domain, 4 * WINDOW)?);
        start(&sender, &sent, abi::FI_TRANSMIT)?;
        start(&receiver, &received, abi::FI_RECV)?;
        lanes.push(Lane { sender, sent, receiver, received, to: 0, under_way: 0 });
    }
    at.enable().context("fi_enable of a scalable endpoint")?;
    from.enable().context("fi_enable of a scalable endpoint")?;
    let peer = addresses.insert(&name(&at)?).context("fi_av_insert")?;
    for (index, lane) in (0..).zip(&mut lanes) {
        lane.to = rx_addr(peer, index, CONTEXT_BITS);
        lane.post(WINDOW)?;
    }
    Ok(lanes)
}

/// Two endpoints for each thread.
fn endpoints(domain: &Domain, info: &Info, threads: usize) -> anyhow::Result<Vec<Lane>> {
    let addresses = vector(domain, 0)?;
    let open = |queue: &Cq| -> anyhow::Result<Ep> {
        let ep = domain.endpoint(info, Context::null()).context("fi_endpoint")?;
        ep.bind(&addresses, 0).context("fi_ep_bind of the address vector")?;
        start(&ep, queue, abi::FI_TRANSMIT | abi::FI_RECV)?;
        Ok(ep)
    };
    let mut lanes = Vec::new();
    for _ in 0..threads {
        let (sent, received) = (queue::open(domain, 4 * WINDOW)?, queue::open(domain, 4 * WINDOW)?);
        let (sender, receiver) = (open(&sent)?, open(&received)?);
        let to = addresses.insert(&name(&receiver)?).context("fi_av_insert")?;
        let lane = Lane { sender, sent, receiver, received, to, under_way: 0 };
        lane.post(WINDOW)?;
        lanes.push(lane);
    }
    Ok(lanes)
}

impl Lane {
    /// Posts receives.
    fn post(&self, count: usize) -> anyhow::Result<()> {
        let into = Mem::zeroed(LEN);
        (0..count).try_for_each(|_| {
            let posted = self.receiver.recv(into, abi::FI_ADDR_UNSPEC, Context::null());
            posted.context("fi_recv")
        })
    }

    /// Sends and receives until `stop`; the number of messages received.
    fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<u64> {
        let (from, into) = (Mem::zeroed(LEN), Mem::zeroed(LEN));
        let mut entries = vec![
            abi::fi_cq_tagged_entry {
                op_context: std::ptr::null_mut(),
                flags: 0,
                len: 0,
                buf: std::ptr::null_mut(),
                data: 0,
                tag: 0,
            };
            BATCH
        ];
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            while self.under_way < WINDOW {
                match self.sender.send(from, self.to, Context::null()) {
                    Err(Errno(abi::FI_EAGAIN)) => break,
                    sent => sent.context("fi_send")?,
                }
                self.under_way += 1;
            }
            self.under_way -= read(&self.sent, &mut entries)?;
            let received = read(&self.received, &mut entries)?;
            for _ in 0..received {
                let posted = self.receiver.recv(into, abi::FI_ADDR_UNSPEC, Context::null());
                posted.context("fi_recv")?;
            }
            count += received as u64;
        }
        Ok(count)
    }
}

/// The number of completions in a queue, up to [`BATCH`].
fn read(queue: &Cq, entries: &mut [abi::fi_cq_tagged_entry]) -> anyhow::Result<usize> {
    match queue.read_into(entries) {
        Err(Errno(abi::FI_EAGAIN)) => Ok(0),
        count => count.context("fi_cq_read"),
    }
}

/// Messages a second of all threads, over a round.
fn round(lanes: &mut [Lane], time: Duration) -> anyhow::Result<f64> {
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> =
            lanes.iter_mut().map(|lane| scope.spawn(|| lane.run(&stop))).collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(count) => count,
            Err(_) => anyhow::bail!("a thread panicked"),
        });
        joined.sum::<anyhow::Result<u64>>()
    })?;
    Ok(counts as f64 / begin.elapsed().as_secs_f64())
}
