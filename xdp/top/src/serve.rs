// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics pages for Prometheus over HTTP/1.1 (RFC 9112).
//!
//! In: requests of a TCP port. Out: answers, each with a read of the pages. Caller: `main.rs`. A
//! client without a whole request holds no other one up; one that does not take its answer does so
//! for [`TIME_MAX`]. Bounds: [`WAITING_MAX`] connections, of which the oldest makes room for a new
//! one; [`REQUEST_MAX`] bytes of a request, [`TIME_MAX`] for it, and as much for its answer.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ofi_xdp_statistics::read_all;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{clock, prometheus};

/// Maximum number of connections without a whole request.
const WAITING_MAX: usize = 64;
/// Maximum size of a request, with its fields.
const REQUEST_MAX: usize = 8192;
/// Maximum time of a request, and of an answer.
const TIME_MAX: Duration = Duration::from_secs(2);
/// The pause after an accept or a poll that failed: descriptors may be short.
const PAUSE: Duration = Duration::from_millis(100);
/// The only path there is.
const PATH: &str = "/metrics";
/// The media type of the text (Prometheus, "Exposition formats").
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The address in `text`: `ADDRESS:PORT`, or a port of loopback.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let digits = text.strip_prefix(':').unwrap_or(text);
    let port = digits.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    port.or_else(|_| text.parse())
        .map_err(|_| format!("{text:?} is neither a port nor ADDRESS:PORT with a numeric address"))
}

/// Answers requests at `address` until a signal ends the process.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) fn serve(folder: &Path, address: SocketAddr) -> Result<()> {
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    eprintln!("xdp-top: http://{}{PATH}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let mut server = ScrapeServer { listener, waiting: VecDeque::new(), time: TIME_MAX };
    loop {
        if server.serve_once(folder).is_err() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The listener, and the connections that have no whole request, the oldest first.
#[derive(Debug)]
struct ScrapeServer {
    listener: TcpListener,
    waiting: VecDeque<ScrapeRequest>,
    /// The time of a request, and of an answer.
    time: Duration,
}

impl ScrapeServer {
    /// Waits for connections and requests, and answers those that are whole.
    fn serve_once(&mut self, folder: &Path) -> io::Result<()> {
        let until = self.waiting.front().map(|oldest| oldest.until);
        let timeout = until.map(|until| until.saturating_duration_since(clock::now()));
        let timeout = timeout.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        let sources = self.waiting.iter().map(|request| &request.stream);
        let mut sources: Vec<_> = sources.map(|it| PollFd::new(it, PollFlags::IN)).collect();
        sources.push(PollFd::new(&self.listener, PollFlags::IN));
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = sources.iter().map(|source| !source.revents().is_empty()).collect();
        let now = clock::now();
        for (mut request, is_ready) in std::mem::take(&mut self.waiting).into_iter().zip(&ready) {
            match if *is_ready { request.read() } else { Ok(None) } {
                // A client that goes away is not a failure.
                Ok(Some(head)) => drop(answer(&mut request.stream, &head, folder, self.time)),
                Ok(None) if now < request.until => self.waiting.push_back(request),
                Ok(None) | Err(_) => {}
            }
        }
        if ready.last() == Some(&true) { self.accept() } else { Ok(()) }
    }

    /// Accepts one connection.
    fn accept(&mut self) -> io::Result<()> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        let until = clock::now() + self.time;
        self.waiting.push_back(ScrapeRequest { stream, bytes: Vec::new(), until });
        Ok(())
    }
}

/// A connection, and what it has sent.
#[derive(Debug)]
struct ScrapeRequest {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The end of its time.
    until: Instant,
}

impl ScrapeRequest {
    /// Reads what has arrived; the head of the request, once it is whole. A body is of no interest:
    /// no method here has one.
    fn read(&mut self) -> io::Result<Option<Head>> {
        let mut more = [0; REQUEST_MAX];
        let room = REQUEST_MAX - self.bytes.len();
        let more = match self.stream.read(&mut more[..room]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => &more[..len],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => return Ok(None),
                _ => return Err(error),
            },
        };
        // The end may have arrived in two parts.
        let from = self.bytes.len().saturating_sub(3);
        self.bytes.extend_from_slice(more);
        if self.bytes[from..].windows(4).any(|window| window == b"\r\n\r\n") {
            return Ok(Some(Head::Whole(std::mem::take(&mut self.bytes))));
        }
        Ok((self.bytes.len() == REQUEST_MAX).then_some(Head::TooLong))
    }
}

/// The head of a request.
#[derive(Debug)]
enum Head {
    Whole(Vec<u8>),
    TooLong,
}

/// Answers a request in `time` at the most.
fn answer(stream: &mut TcpStream, head: &Head, folder: &Path, time: Duration) -> io::Result<()> {
    let answer = match head {
        Head::Whole(head) => Answer::to(head, folder),
        Head::TooLong => {
            Answer::new("431 Request Header Fields Too Large", "the request is too long\n")
        }
    };
    stream.set_nonblocking(false)?;
    let until = clock::now() + time;
    send(stream, answer.head().as_bytes(), until)?;
    if !answer.head_only {
        send(stream, answer.body.as_bytes(), until)?;
    }
    stream.shutdown(Shutdown::Write)
}

/// Sends all of `bytes`.
fn send(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    // bound: the bytes, or the time
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The time that is left; an error when there is none.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(clock::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The answer to a request.
#[derive(Debug)]
struct Answer {
    status: &'static str,
    body: String,
    /// Whether the client asked for the head alone.
    head_only: bool,
}

impl Answer {
    fn new(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, body: body.into(), head_only: false }
    }

    /// The answer to the request `head`.
    fn to(head: &[u8], folder: &Path) -> Self {
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let words: Vec<&str> = std::str::from_utf8(line).unwrap_or_default().split(' ').collect();
        let [method, target, version] = words[..] else {
            return Self::new("400 Bad Request", "this is not HTTP\n");
        };
        if !version.starts_with("HTTP/1.") {
            return Self::new("400 Bad Request", "HTTP/1.1 is spoken here\n");
        }
        if !matches!(method, "GET" | "HEAD") {
            return Self::new("405 Method Not Allowed", "GET and HEAD are known\n");
        }
        if target.split('?').next() != Some(PATH) {
            return Self::new("404 Not Found", "the path is /metrics\n");
        }
        let answer = match read_all(folder) {
            Ok(pages) => Self::new("200 OK", prometheus::text(&pages)),
            Err(error) => {
                let body = format!("cannot read {}: {error}\n", folder.display());
                Self::new("500 Internal Server Error", body)
            }
        };
        Self { head_only: method == "HEAD", ..answer }
    }

    /// Status and fields.
    fn head(&self) -> String {
        let Self { status, body, .. } = self;
        let allowed = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {length}\r\n\
             {allowed}Connection: close\r\n\r\n"
        )
    }
}

#[cfg(test)]
mod tests;
