// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other traffic: streams of kernel TCP between two hosts, from plain sockets.
//!
//! The streams run from host B to host A until they are dropped, a thread at each end. A further
//! thread notes the received bytes of each stream at intervals ([`SAMPLE`]). Bounds: the number of
//! streams, [`SAMPLES_MAX`].

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use nix::sched::{CloneFlags, setns};
use ofi_xdp_harness::netns::Namespace;
use ofi_xdp_harness::topology::{Side, TwoHosts};

/// Bytes of one call.
const CALL: usize = 64 << 10;
/// Time between two samples, and their largest number: ten minutes.
const SAMPLE: Duration = Duration::from_millis(20);
const SAMPLES_MAX: usize = 30_000;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Running streams.
#[derive(Debug)]
pub struct TcpStreams {
    shared: Arc<Shared>,
    /// Both ends of each stream; closing them ends the threads.
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    received: Vec<AtomicU64>,
    samples: Mutex<Vec<(Instant, Vec<u64>)>>,
    ended: AtomicBool,
}

impl TcpStreams {
    /// Starts `count` streams over link `link`.
    ///
    /// # Errors
    /// When a connection cannot be made.
    pub fn start(hosts: &TwoHosts, link: usize, count: usize) -> anyhow::Result<Self> {
        let to = hosts.link(link).v4(Side::A);
        let listener = on(hosts.host(Side::A), move || TcpListener::bind((to, 0)))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            received: (0..count).map(|_| AtomicU64::new(0)).collect(),
            samples: Mutex::new(Vec::new()),
            ended: AtomicBool::new(false),
        });
        let mut streams = Self { shared, sockets: Vec::new(), threads: Vec::new() };
        for number in 0..count {
            streams.add(hosts, &listener, address, number)?;
        }
        let shared = Arc::clone(&streams.shared);
        streams.threads.push(std::thread::spawn(move || shared.sample()));
        Ok(streams)
    }

    fn add(
        &mut self,
        hosts: &TwoHosts,
        listener: &TcpListener,
        address: SocketAddr,
        number: usize,
    ) -> anyhow::Result<()> {
        let connect = move || TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
        let mut sender = on(hosts.host(Side::B), connect)?;
        let (mut receiver, _) = listener.accept()?;
        self.sockets.extend([sender.try_clone()?, receiver.try_clone()?]);
        let bytes = vec![0; CALL];
        let send = move || while sender.write_all(&bytes).is_ok() {};
        self.threads.push(std::thread::spawn(send));
        let shared = Arc::clone(&self.shared);
        let mut bytes = vec![0; CALL];
        let receive = move || {
            // bound: the life of the streams
            while let Ok(count @ 1..) = receiver.read(&mut bytes) {
                shared.received[number].fetch_add(count as u64, Ordering::Relaxed);
            }
        };
        self.threads.push(std::thread::spawn(receive));
        Ok(())
    }

    /// The rate of each stream in bytes per second, in the last `time`.
    #[must_use]
    pub fn rates(&self, time: Duration) -> Vec<f64> {
        let samples = self.shared.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((end, last)) = samples.last() else { return Vec::new() };
        let first = samples.iter().find(|(at, _)| *end - *at <= time);
        let Some((start, first)) = first else { return Vec::new() };
        let seconds = (*end - *start).as_secs_f64().max(1e-9);
        last.iter().zip(first).map(|(last, first)| (last - first) as f64 / seconds).collect()
    }
}

impl Shared {
    fn sample(&self) {
        // bound: SAMPLES_MAX
        for _ in 0..SAMPLES_MAX {
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            let counts = self.received.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.push((Instant::now(), counts));
            drop(samples);
            sleep(SAMPLE);
        }
    }
}

impl Drop for TcpStreams {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for socket in &self.sockets {
            // A connection that broke is closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// Makes a socket on a host.
fn on<T: Send + 'static>(
    host: &Namespace,
    make: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let namespace = host.open()?;
    let made = std::thread::spawn(move || -> anyhow::Result<T> {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        make().context("a socket for other traffic")
    });
    made.join().map_err(|_| anyhow!("the thread that makes a socket panicked"))?
}
