// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages on screens of several sizes, with keys and hostile text.

use ofi_xdp_statistics::{Limits, PEERS_MAX, Page, PeerLine, read_all};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::app::{App, Screen};
use super::draw::draw;
use super::input::{After, key};
use super::theme::Theme;
use super::users::Users;

/// The sizes of terminals that people have.
const SIZES: [(u16, u16); 3] = [(80, 24), (200, 50), (40, 10)];

/// An endpoint after `seconds`, with `rate` packets out a second and `peers` peers.
fn page(process: &str, pid: u32, (rate, seconds): (u64, u64), peers: u32) -> Page {
    let mut page = Page {
        owner: 1000,
        file: format!("ofi-xdp-{pid}-0-1"),
        pid,
        process: process.to_owned(),
        endpoint: format!("198.18.0.1:{pid}"),
        tier: "kernel UDP".to_owned(),
        interface: "eth0".to_owned(),
        why_not_better: "kernel sockets were asked for".to_owned(),
        mtu: 1500,
        written_at_ns: seconds * 1_000_000_000,
        connections: peers,
        ..Page::default()
    };
    page.counters.insert("packets_sent".to_owned(), rate * seconds);
    page.drops.insert("wrong checksum".to_owned(), 3);
    page.peers = (0..peers).map(|number| peer(number, seconds)).collect();
    page
}

fn peer(number: u32, seconds: u64) -> PeerLine {
    PeerLine {
        address: format!("198.18.1.{number}:7000"),
        established: true,
        congestion_window: 16.0,
        next_packet: (seconds as u32 * number).wrapping_sub(5),
        limits: Some(Limits { packets_max: 256, credits_free: 1, ..Limits::default() }),
        ..PeerLine::default()
    }
}

/// An application after `seconds` reads of three endpoints, one with as many peers as there can be.
fn app(seconds: u64) -> App {
    let mut app = App::new(Users::default(), Theme { colours: true });
    for second in 1..=seconds {
        sample(&mut app, second);
    }
    app
}

fn sample(app: &mut App, second: u64) {
    let at = |rate| (rate, second);
    let few = page("few", 1, at(10), 0);
    let many = page("many", 2, at(5000), PEERS_MAX as u32);
    app.update(Ok(vec![few, many, page("some", 3, at(300), 2)]), 1.0);
}

fn press(app: &mut App, code: KeyCode) -> After {
    key(app, KeyEvent::new(code, KeyModifiers::NONE))
}

fn types(app: &mut App, letters: &str) {
    for letter in letters.chars() {
        assert_eq!(press(app, KeyCode::Char(letter)), After::GoOn);
    }
}

fn buffer(app: &mut App, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(app, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// The lines of the screen.
fn lines(app: &mut App, size: (u16, u16)) -> Vec<String> {
    let buffer = buffer(app, size);
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect();
    buffer.content.chunks(width).map(line).collect()
}

fn text(app: &mut App, size: (u16, u16)) -> String {
    lines(app, size).join("\n")
}

/// The first words of the rows of the list.
fn order(app: &mut App) -> Vec<String> {
    let lines = lines(app, (80, 24));
    let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    lines[2..].iter().map(first).take_while(|word| !word.is_empty()).collect()
}

/// Applications with each page and each box on the screen.
fn all_screens() -> Vec<App> {
    let keys: [&[KeyCode]; 7] = [
        &[],
        &[KeyCode::Enter],
        &[KeyCode::Enter, KeyCode::Tab],
        &[KeyCode::Enter, KeyCode::Enter],
        &[KeyCode::Char('h')],
        &[KeyCode::F(6), KeyCode::End],
        &[KeyCode::Char('/')],
    ];
    let with = |keys: &[KeyCode]| {
        let mut app = app(3);
        keys.iter().for_each(|&code| assert_eq!(press(&mut app, code), After::GoOn));
        sample(&mut app, 4);
        app
    };
    keys.map(with).into()
}

#[test]
fn each_page_is_drawn_on_each_screen() {
    for size in SIZES {
        let mut screens = all_screens();
        let shows = |app: &mut App, words: &[&str]| {
            let text = text(app, size);
            assert!(words.iter().all(|word| text.contains(word)), "{size:?} {words:?}\n{text}");
        };
        shows(&mut screens[0], &["xdp-top  endpoints 1-3 of 3", "OUT/s", "5.0k", "F1Help"]);
        shows(&mut screens[1], &["many (2)  198.18.0.1:2", "user 1000", "placed"]);
        shows(&mut screens[3], &["peer 198.18.1.127:7000 of many", "bound by      application"]);
        shows(&mut screens[5], &["sort by", "PEERS"]);
        shows(&mut screens[6], &["Filter: _"]);
        if size.1 > 20 {
            shows(&mut screens[1], &["not better because: kernel", "wrong checksum 3", "127"]);
            shows(&mut screens[2], &["counters since", "packets_sent"]);
            shows(&mut screens[3], &["window        16.0 packets", "256 packets between"]);
            shows(&mut screens[4], &["Ctrl-C     quit", "STATE"]);
        }
        let help = &mut screens[4];
        (0..99).for_each(|_| assert_eq!(press(help, KeyCode::Down), After::GoOn));
        shows(help, &["STATE"]);
    }
}

#[test]
fn no_screen_is_too_small() {
    for app in &mut all_screens() {
        for width in [0, 1, 2, 3, 9, 33, 59, 60] {
            for height in [0, 1, 2, 3, 5, 7, 60] {
                let _ = buffer(app, (width, height));
            }
        }
    }
}

#[test]
fn the_list_is_sorted_by_the_column_that_the_user_chooses() {
    let mut app = app(3);
    assert_eq!(order(&mut app), ["many", "some", "few"]);
    types(&mut app, "I");
    assert_eq!(order(&mut app), ["few", "some", "many"]);
    press(&mut app, KeyCode::F(6));
    press(&mut app, KeyCode::Home);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert_eq!(order(&mut app), ["some", "many", "few"], "by PID, the greatest first");
    types(&mut app, "<");
    assert_eq!(order(&mut app), ["few", "many", "some"], "by PROCESS");
    types(&mut app, "<");
    assert!(text(&mut app, (80, 24)).contains("PEERS"), "the column of the order is shown");
    assert_eq!(order(&mut app), ["many", "some", "few"]);
}

#[test]
fn the_selection_follows_its_endpoint() {
    let mut app = app(3);
    press(&mut app, KeyCode::Down);
    types(&mut app, "I");
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert!(text(&mut app, (80, 24)).starts_with("many (2)"));
}

#[test]
fn a_filter_shows_the_rows_with_its_text() {
    let mut app = app(3);
    types(&mut app, "/MANY");
    assert_eq!(order(&mut app), ["many"]);
    press(&mut app, KeyCode::Enter);
    assert!(text(&mut app, (80, 24)).contains("Filter: MANY"));
    press(&mut app, KeyCode::Esc);
    assert_eq!(order(&mut app).len(), 3);
    press(&mut app, KeyCode::F(4));
    types(&mut app, "q:2");
    press(&mut app, KeyCode::Backspace);
    assert!(text(&mut app, (80, 24)).contains("The filter shows none."));
    assert_eq!(press(&mut app, KeyCode::Enter), After::GoOn);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.screen, Screen::List, "there is nothing to open");
}

#[test]
fn all_peers_of_a_page_are_reached_by_scrolling() {
    let mut app = app(3);
    press(&mut app, KeyCode::Enter);
    let top = text(&mut app, (80, 24));
    assert!(top.contains("198.18.1.127:7000") && !top.contains("198.18.1.0:7000"), "{top}");
    assert!(top.contains("peers 1-13 of 128"), "{top}");
    press(&mut app, KeyCode::End);
    let end = text(&mut app, (80, 24));
    assert!(end.contains("198.18.1.0:7000") && end.contains("peers 116-128 of 128"), "{end}");
    press(&mut app, KeyCode::PageUp);
    press(&mut app, KeyCode::Up);
    assert!(text(&mut app, (80, 24)).contains("peers 114-126 of 128"));
    press(&mut app, KeyCode::Enter);
    assert!(text(&mut app, (80, 24)).starts_with("peer 198.18.1.14:7000 of many (2)"));
    press(&mut app, KeyCode::Down);
    assert!(text(&mut app, (80, 24)).starts_with("peer 198.18.1.13:7000"), "its neighbour");
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.screen, Screen::List);
}

#[test]
fn a_page_that_is_gone_says_so() {
    let mut app = app(3);
    press(&mut app, KeyCode::Enter);
    press(&mut app, KeyCode::Enter);
    app.update(Ok(Vec::new()), 1.0);
    assert!(text(&mut app, (80, 24)).contains("GONE: its last figures"));
    press(&mut app, KeyCode::Esc);
    assert!(text(&mut app, (80, 24)).contains("CLOSED: its last figures"));
    press(&mut app, KeyCode::Esc);
    app.update(Ok(Vec::new()), 1.0);
    let shown = text(&mut app, (80, 24));
    assert!(shown.contains("No process on this machine has an endpoint"), "{shown}");
    assert!(shown.contains("out 0/s  in 0/s  placed 0B/s"), "{shown}");
}

#[test]
fn an_empty_list_has_nothing_to_open() {
    for size in SIZES {
        let mut app = App::new(Users::default(), Theme { colours: true });
        app.update(Ok(Vec::new()), 0.0);
        for code in [KeyCode::Down, KeyCode::End, KeyCode::Enter, KeyCode::Tab, KeyCode::Esc] {
            press(&mut app, code);
        }
        let shown = text(&mut app, size);
        assert!(shown.contains("endpoints 0 of 0"), "{shown}");
        assert!(shown.contains("No process on this machine"), "{shown}");
        app.update(Err("cannot read /nowhere".to_owned()), 1.0);
        assert!(text(&mut app, (200, 9)).contains("cannot read /nowhere"));
    }
}

#[test]
fn keys_pause_and_quit() {
    let mut app = app(1);
    types(&mut app, " ");
    assert!(app.paused && text(&mut app, (80, 24)).contains("PAUSED"));
    types(&mut app, " h");
    assert!(!app.paused);
    assert_eq!(press(&mut app, KeyCode::Char('q')), After::GoOn, "closes the help");
    assert_eq!(press(&mut app, KeyCode::Char('q')), After::Quit);
    assert_eq!(press(&mut app, KeyCode::F(10)), After::Quit);
    types(&mut app, "/");
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(key(&mut app, control), After::Quit, "in the filter too");
}

#[test]
fn without_colours_there_are_attributes() {
    for app in &mut all_screens() {
        app.theme = Theme { colours: false };
        let cells = buffer(app, (80, 24)).content;
        assert!(cells.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
        assert!(cells.iter().any(|cell| !cell.modifier.is_empty()));
    }
}

/// Every user may write a page. It goes through the files, as that of another user does.
#[test]
fn hostile_text_is_printable_and_stays_in_its_place() {
    const HOSTILE: &str = "a\nb\u{1b}[2Jc\u{9b}2Jd\u{202e}e\u{2028}f\u{e0041}\t\u{4e16}";
    let folder = std::env::temp_dir().join(format!("xdp-top-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let long = HOSTILE.repeat(1000);
    let mut page = page("x", 1, (u64::MAX / 2, 2), 0);
    let texts = [&mut page.process, &mut page.endpoint, &mut page.tier, &mut page.interface];
    texts.into_iter().for_each(|text| text.clone_from(&long));
    let texts = [&mut page.driver, &mut page.queues, &mut page.advice, &mut page.why_not_better];
    texts.into_iter().for_each(|text| text.clone_from(&long));
    page.drops.insert("b".repeat(64), u64::MAX);
    page.counters.insert("c".repeat(64), u64::MAX);
    (page.written_at_ns, page.connections, page.mtu) = (u64::MAX, u32::MAX, u32::MAX);
    page.peers = (0..10 * PEERS_MAX as u32)
        .map(|number| PeerLine {
            address: format!("[fd00:1111:2222:3333:4444:5555:6666:{number:x}]:65535"),
            round_trip_ns: u64::MAX,
            congestion_window: 1e308,
            in_flight: u32::MAX,
            lost: u32::MAX,
            retransmitted: u32::MAX,
            ..peer(number, 1)
        })
        .collect();
    let path = folder.join("ofi-xdp-1-0-1.json");
    std::fs::write(&path, serde_json::to_vec(&page).unwrap()).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.try_lock().unwrap();
    for keys in ["", "\n", "\n\t", "\n\n"] {
        let mut app = App::new(Users::default(), Theme { colours: true });
        for _ in 0..2 {
            let pages = read_all(&folder).unwrap();
            assert_eq!((pages.len(), pages[0].peers.len()), (1, PEERS_MAX));
            app.update(Ok(pages), 1.0);
        }
        for letter in keys.chars() {
            press(&mut app, if letter == '\t' { KeyCode::Tab } else { KeyCode::Enter });
        }
        for size in SIZES {
            let printable =
                |letter: char| matches!(letter, ' '..='~' | '\n' | 'µ' | '\u{2500}'..='\u{259f}');
            let shown = text(&mut app, size);
            assert!(shown.chars().all(printable), "{size:?}\n{shown}");
            assert!(lines(&mut app, size).len() == usize::from(size.1));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
