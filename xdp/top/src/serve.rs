// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics pages for Prometheus over HTTP/1.1 (RFC 9112).
//!
//! In: requests of a TCP port. Out: answers, each with a read of the pages. Caller: `main.rs`. No
//! client holds another one up for long. Bounds: one connection at a time, [`REQUEST_MAX`] bytes of
//! a request, [`TIME_MAX`] for it, and as much for its answer.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ofi_xdp_statistics::read_all;

use crate::{clock, prometheus};

/// Maximum size of a request, with its fields.
const REQUEST_MAX: usize = 8192;
/// Maximum time of a request, and of an answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// The pause after an accept that failed: descriptors may be short.
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
    loop {
        match listener.accept() {
            // A client that goes away is not a failure.
            Ok((mut stream, _)) => drop(answer(&mut stream, folder, TIME_MAX)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Reads a request and answers it, each in `time` at the most.
fn answer(stream: &mut TcpStream, folder: &Path, time: Duration) -> io::Result<()> {
    let answer = match request(stream, clock::now() + time) {
        Ok(head) => Answer::to(&head, folder),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Answer::new("431 Request Header Fields Too Large", "the request is too long\n")
        }
        Err(error) => return Err(error),
    };
    send(stream, &answer.bytes(), clock::now() + time)?;
    stream.shutdown(Shutdown::Write)
}

/// The head of a request. A body is of no interest: no method here has one.
fn request(stream: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; REQUEST_MAX];
    let mut len = 0;
    // bound: the size of the request, or its time
    while len < REQUEST_MAX {
        stream.set_read_timeout(Some(left(until)?))?;
        let more = match stream.read(&mut bytes[len..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // The end may have arrived in two parts.
        let from = len.saturating_sub(3);
        len += more;
        if bytes[from..len].windows(4).any(|window| window == b"\r\n\r\n") {
            bytes.truncate(len);
            return Ok(bytes);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
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
    fn new(status: &'static str, body: &str) -> Self {
        Self { status, body: body.to_owned(), head_only: false }
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
            Ok(pages) => Self::new("200 OK", &prometheus::text(&pages)),
            Err(error) => {
                let body = format!("cannot read {}: {error}\n", folder.display());
                Self::new("500 Internal Server Error", &body)
            }
        };
        Self { head_only: method == "HEAD", ..answer }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { status, body, .. } = self;
        let allowed = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {TEXT}\r\nContent-Length: {length}\r\n\
             {allowed}Connection: close\r\n\r\n"
        );
        let body = if self.head_only { "" } else { body };
        (head + body).into_bytes()
    }
}

#[cfg(test)]
mod tests;
