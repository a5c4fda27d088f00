// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests over loopback: usual, malformed, too long, too slow.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server of an empty folder, with `time` for each request, and its address.
fn server(time: Duration) -> (ScrapeServer, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (ScrapeServer { listener, waiting: VecDeque::new(), time }, address)
}

/// The answer of `server` to `request`.
fn exchange_with(server: &mut ScrapeServer, address: SocketAddr, request: &[u8]) -> String {
    let folder = std::env::temp_dir().join(format!("xdp-top-serve-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request).unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut text = String::new();
            let _ = client.read_to_string(&mut text);
            has_ended.store(true, Ordering::Release);
            // The server may sleep: its next connection wakes it.
            TcpStream::connect(address).unwrap();
            text
        });
        // bound: the time of the request
        while !has_ended.load(Ordering::Acquire) {
            server.serve_once(&folder).unwrap();
        }
        client.join().unwrap()
    })
}

/// The answer of a new server.
fn exchange(request: &[u8], time: Duration) -> String {
    let (mut server, address) = server(time);
    exchange_with(&mut server, address, request)
}

/// The first line of the answer to a request line.
fn status(line: &str) -> String {
    let text = exchange(format!("{line}\r\nHost: x\r\n\r\n").as_bytes(), TIME_MAX);
    text.lines().next().unwrap().to_owned()
}

#[test]
fn metrics_are_served() {
    let text = exchange(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", TIME_MAX);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{text}");
    assert_eq!(status("GET /metrics?debug=1 HTTP/1.0"), "HTTP/1.1 200 OK");
    let text = exchange(b"HEAD /metrics HTTP/1.1\r\n\r\n", TIME_MAX);
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn other_requests_are_refused() {
    assert_eq!(status("GET / HTTP/1.1"), "HTTP/1.1 404 Not Found");
    assert_eq!(status("GET /metrics/.. HTTP/1.1"), "HTTP/1.1 404 Not Found");
    assert_eq!(status("POST /metrics HTTP/1.1"), "HTTP/1.1 405 Method Not Allowed");
    for line in ["GET /metrics", "GET /metrics HTTP/2", "", "\u{0}\u{1b}", "a b c d"] {
        assert_eq!(status(line), "HTTP/1.1 400 Bad Request", "{line:?}");
    }
    let text = exchange(b"GET \xff HTTP/1.1\r\n\r\n", TIME_MAX);
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
}

#[test]
fn a_long_request_is_refused_and_a_slow_one_ends() {
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; REQUEST_MAX]].concat();
    let text = exchange(&long[..REQUEST_MAX], TIME_MAX);
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
    let text = exchange(b"GET /metrics HTTP/1.1\r\n", Duration::from_millis(50));
    assert_eq!(text, "");
}

#[test]
fn idle_connections_hold_no_request_up() {
    let (mut server, address) = server(Duration::from_secs(3600));
    let folder = std::env::temp_dir();
    let mut idle = Vec::new();
    for _ in 0..2 * WAITING_MAX {
        idle.push(TcpStream::connect(address).unwrap());
        server.serve_once(&folder).unwrap();
    }
    assert_eq!(server.waiting.len(), WAITING_MAX);
    let text = exchange_with(&mut server, address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 404"), "{text}");
    assert!(server.waiting.len() >= WAITING_MAX - 1, "the others wait on");
}

#[test]
fn a_port_alone_is_one_of_loopback() {
    let of = |text| address(text).map(|address| address.to_string());
    assert_eq!(of("9841").unwrap(), "127.0.0.1:9841");
    assert_eq!(of(":9841").unwrap(), "127.0.0.1:9841");
    assert_eq!(of("0.0.0.0:1").unwrap(), "0.0.0.0:1");
    assert_eq!(of("[::1]:9").unwrap(), "[::1]:9");
    for wrong in ["", "localhost:1", "1.2.3.4", "65536", ":"] {
        assert!(of(wrong).unwrap_err().contains("neither a port"), "{wrong}");
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error_of_the_server() {
    let answer = Answer::to(b"GET /metrics HTTP/1.1\r\n\r\n", Path::new("/nowhere"));
    assert!(answer.status.starts_with("500") && answer.body.contains("/nowhere"), "{answer:?}");
}
