// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests over loopback: usual, malformed, too long, too slow.

use super::*;

/// The answer to `request` of an empty folder, with `time` for it.
fn exchange(request: &[u8], time: Duration) -> (String, io::Result<()>) {
    let folder = std::env::temp_dir().join(format!("xdp-top-serve-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let served = std::thread::spawn(move || answer(&mut stream, &folder, time));
    client.write_all(request).unwrap();
    let mut text = String::new();
    let _ = client.read_to_string(&mut text);
    (text, served.join().unwrap())
}

/// The first line of the answer to a request line.
fn status(line: &str) -> String {
    let (text, result) = exchange(format!("{line}\r\nHost: x\r\n\r\n").as_bytes(), TIME_MAX);
    result.unwrap();
    text.lines().next().unwrap().to_owned()
}

#[test]
fn metrics_are_served() {
    let (text, result) = exchange(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", TIME_MAX);
    result.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{text}");
    assert_eq!(status("GET /metrics?debug=1 HTTP/1.0"), "HTTP/1.1 200 OK");
    let (text, _) = exchange(b"HEAD /metrics HTTP/1.1\r\n\r\n", TIME_MAX);
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
    let (text, _) = exchange(b"GET \xff HTTP/1.1\r\n\r\n", TIME_MAX);
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
}

#[test]
fn a_long_request_is_refused_and_a_slow_one_ends() {
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'x'; REQUEST_MAX]].concat();
    let (text, result) = exchange(&long[..REQUEST_MAX], TIME_MAX);
    result.unwrap();
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
    let (text, result) = exchange(b"GET /metrics HTTP/1.1\r\n", Duration::from_millis(50));
    assert_eq!((text.as_str(), result.is_err()), ("", true));
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
