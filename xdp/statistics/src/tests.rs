// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages are written, read, replaced, left behind, and forged.

use super::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// `page` as a reader finds it in the file `name`.
fn found(name: &str, page: Page) -> Page {
    let owner = geteuid().as_raw();
    Page { owner, file: name.to_owned(), ..page }
}

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("{PREFIX}{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_page_is_read_as_it_was_written_and_goes_with_its_endpoint() {
    let folder = folder("whole");
    let mut file = StatsFile::new(&folder).unwrap();
    assert_eq!(read_all(&folder).unwrap(), []);
    let mut page = Page { pid: std::process::id(), queues: "3".to_owned(), ..Page::default() };
    file.publish(&page).unwrap();
    page.counters.insert(String::from("packets_sent"), u64::MAX);
    page.peers.push(PeerLine { congestion_window: 15.5, ..PeerLine::default() });
    file.publish(&page).unwrap();
    page.peers[0].address = String::from("198.18.0.2:9");
    file.publish(&page).unwrap();
    let name = file.path.file_stem().unwrap().to_str().unwrap().to_owned();
    assert_eq!(read_all(&folder).unwrap(), [found(&name, page)]);
    drop(file);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_page_of_an_older_provider_is_read() {
    let folder = folder("older");
    let peer = PeerLine { address: "198.18.0.2:9".to_owned(), ..PeerLine::default() };
    let page = Page { peers: vec![peer.clone()], ..Page::default() };
    let text = serde_json::to_string(&page).unwrap();
    assert!(!text.contains("limits"), "{text}");
    let limits = Some(Limits { unsent: true, ..Limits::default() });
    let newer = Page { peers: vec![PeerLine { limits, ..peer }], ..Page::default() };
    let names = [format!("{PREFIX}1-7-1"), format!("{PREFIX}1-8-1")];
    let path = |name: &String| folder.join(format!("{name}{SUFFIX}"));
    let _locked = [
        locked(&path(&names[0]), &text),
        locked(&path(&names[1]), &serde_json::to_string(&newer).unwrap()),
    ];
    let [older, newer] = [found(&names[0], page), found(&names[1], newer)];
    assert_eq!(read_all(&folder).unwrap(), [older, newer]);
    fs::remove_dir_all(&folder).unwrap();
}

/// A file with `text` at `path`, locked while the returned value lives.
fn locked(path: &Path, text: &str) -> File {
    fs::write(path, text).unwrap();
    let file = File::open(path).unwrap();
    file.try_lock().unwrap();
    file
}

#[test]
fn the_page_of_a_killed_process_is_skipped_and_removed() {
    let folder = folder("dead");
    let dead = folder.join(format!("{PREFIX}1-0-1{SUFFIX}"));
    fs::write(&dead, serde_json::to_vec(&Page::default()).unwrap()).unwrap();
    let foreign = folder.join(format!("{PREFIX}1-7-1{SUFFIX}"));
    let _foreign = locked(&foreign, "no page");
    assert_eq!(read_all(&folder).unwrap(), []);
    remove_left(&folder).unwrap();
    assert!(!dead.exists() && foreign.exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_page_that_was_just_replaced_is_no_leftover() {
    let folder = folder("replaced");
    let mut file = StatsFile::new(&folder).unwrap();
    file.publish(&Page::default()).unwrap();
    let opened = open(&file.path).unwrap();
    file.publish(&Page::default()).unwrap();
    assert!(opened.try_lock_shared().is_ok() && !is_left(&opened));
    drop(file);
    fs::remove_dir(&folder).unwrap();
}

/// A folder cannot be removed as a file, as a file of another user cannot in a sticky folder.
#[test]
fn a_page_whose_names_others_have_taken_gets_another_one() {
    let folder = folder("taken");
    let mut file = StatsFile::new(&folder).unwrap();
    let taken = [file.draft.clone(), file.path.clone()];
    for path in &taken {
        fs::create_dir(path).unwrap();
    }
    let page = Page { pid: std::process::id(), ..Page::default() };
    for _ in 0..2 {
        file.publish(&page).unwrap();
        assert!(!taken.contains(&file.path));
        let name = file.path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(read_all(&folder).unwrap(), [found(&name, page.clone())]);
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "two that are taken, and the page");
    drop(file);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    fs::remove_dir_all(&folder).unwrap();
}

const FOLDER_GIVEN: &str = "OFI_XDP_TEST_FOLDER";

/// The process of a container, which ends like a killed one; not a test by itself.
#[test]
#[ignore = "run by root_containers_have_their_pages_side_by_side"]
fn contained() {
    let mut file = StatsFile::new(Path::new(&std::env::var(FOLDER_GIVEN).unwrap())).unwrap();
    file.publish(&Page { pid: std::process::id(), ..Page::default() }).unwrap();
    println!("\npublished");
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(0);
}

/// Starts a container's process, and waits for its page.
fn container(folder: &Path) -> Child {
    let mut child = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "tests::contained", "--ignored", "--nocapture"])
        .env(FOLDER_GIVEN, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "published"));
    child
}

#[test]
fn root_containers_have_their_pages_side_by_side() {
    let unprivileged = !geteuid().is_root();
    if unprivileged && std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|v| v == "skip") {
        println!("SKIPPED: needs CAP_SYS_ADMIN");
        return;
    }
    let folder = folder("containers");
    let mut file = StatsFile::new(&folder).unwrap();
    file.publish(&Page { pid: std::process::id(), ..Page::default() }).unwrap();
    let containers = [container(&folder), container(&folder)];
    let pids = || read_all(&folder).unwrap().iter().map(|page| page.pid).collect::<Vec<_>>();
    assert_eq!(pids(), [1, 1, std::process::id()]);
    for mut child in containers {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(pids(), [std::process::id()]);
    remove_left(&folder).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the dead ones' are removed");
    drop(file);
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_file_of_another_kind_or_size_is_skipped_at_once() {
    use rustix::fs::{CWD, FileType, mknodat};
    let folder = folder("strange");
    let path = |number: u8| folder.join(format!("{PREFIX}1-{number}{SUFFIX}"));
    mknodat(CWD, path(0), FileType::Fifo, Mode::RUSR, 0).unwrap();
    File::create(path(1)).unwrap().set_len(1 << 40).unwrap();
    let page = Page { pid: 1, ..Page::default() };
    let text = serde_json::to_string(&page).unwrap();
    // JSON may begin with spaces.
    let spaces = " ".repeat(usize::try_from(BYTES_MAX).unwrap() - text.len());
    let _locked = [
        locked(&path(2), &format!("{spaces}{text}")),
        locked(&path(3), &format!("{spaces} {text}")),
    ];
    std::os::unix::fs::symlink(path(2), path(4)).unwrap();
    fs::create_dir(path(5)).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let searched = folder.clone();
    std::thread::spawn(move || sender.send(read_all(&searched)));
    let all = receiver.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    assert_eq!(all.unwrap(), [found(&format!("{PREFIX}1-2"), page)]);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_page_lies_neither_about_its_owner_nor_about_its_file() {
    let folder = folder("forged");
    let name = format!("{PREFIX}1-7-1");
    let page = Page { owner: 4711, file: String::from("another"), ..Page::default() };
    let text = serde_json::to_string(&page).unwrap();
    assert!(text.contains("4711") && text.contains("another"));
    let _locked = [
        locked(&folder.join(format!("{name}{SUFFIX}")), &text),
        locked(&folder.join(format!("{PREFIX}1-7-\u{202e}{SUFFIX}")), &text),
    ];
    assert_eq!(read_all(&folder).unwrap(), [found(&name, Page::default())]);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_page_is_filtered_where_it_is_read() {
    let folder = folder("filtered");
    let page = Page { process: String::from("a\u{9b}2J\nb"), ..Page::default() };
    let name = format!("{PREFIX}1-7-1");
    let text = serde_json::to_string(&page).unwrap();
    let _locked = locked(&folder.join(format!("{name}{SUFFIX}")), &text);
    let page = Page { process: String::from("a?2J?b"), ..page };
    assert_eq!(read_all(&folder).unwrap(), [found(&name, page)]);
    fs::remove_dir_all(&folder).unwrap();
}

/// Every user may put files into the folder.
#[test]
fn files_of_one_user_leave_room_for_those_of_others() {
    let file = |owner: u32, pid: u32| {
        let inode = (0, pid.into());
        PageFile { pid, path: PathBuf::new(), owner, inode }
    };
    let mut files: Vec<PageFile> = (0..1000).map(|pid| file(65_534, pid)).collect();
    files.extend([file(0, 2000), file(0, 2001), file(1000, 2002)]);
    let first = first(files, 6);
    let owners: Vec<u32> = first.iter().map(|file| file.owner).collect();
    assert_eq!(owners, [0, 1000, 65_534, 0, 65_534, 65_534]);
    assert_eq!(first[5].pid, 2, "in the order of processes");
}

/// An empty file of process `number`.
fn empty(folder: &Path, number: u32) -> PathBuf {
    let path = folder.join(format!("{PREFIX}{number}-0-1{SUFFIX}"));
    File::create(&path).unwrap();
    path
}

#[test]
fn files_of_one_user_hide_none_of_another_in_the_listing() {
    let folder = folder("listing");
    let numbers = |most, is_wanted: fn(&str, u32) -> bool| {
        let files = pages(&folder, most, is_wanted).unwrap();
        files.iter().map(|file| file.pid).collect::<Vec<u32>>()
    };
    // A list cut at its begin or at its end lacks some of the first four.
    for number in (0..50).chain((50..100).rev()) {
        empty(&folder, number);
    }
    assert_eq!(numbers(4, |_, _| true), [0, 1, 2, 3]);
    let last: fn(&str, u32) -> bool = |name, _| name == "ofi-xdp-99-0-1";
    assert_eq!(numbers(4, last), [99]);
    assert!(numbers(4, |_, owner| owner != geteuid().as_raw()).is_empty());
    fs::remove_dir_all(&folder).unwrap();
}

/// A file that others have filled is parsed to its end before it is refused.
#[test]
fn a_reading_reads_a_bounded_number_of_bytes() {
    let folder = folder("bytes");
    let path = |number: u32| folder.join(format!("{PREFIX}{number}-0-1{SUFFIX}"));
    let endless = format!("[{}", " ".repeat(BYTES_MAX as usize - 1));
    let _endless: Vec<File> = (0..8).map(|number| locked(&path(number), &endless)).collect();
    for number in 8..200 {
        fs::hard_link(path(0), path(number)).unwrap();
    }
    let text = serde_json::to_string(&Page { pid: 300, ..Page::default() }).unwrap();
    let _page = [300, 301, 302].map(|number| locked(&path(number), &text));
    let files = || {
        let mut files = pages(&folder, OPENED_MAX, |_, _| true).unwrap();
        assert_eq!(files.len(), 11, "a file with many names is one");
        for file in &mut files {
            file.owner = if file.pid < 300 { 0 } else { 1000 };
        }
        files
    };
    let most = 3 * BYTES_MAX;
    let mut left = most;
    let read = read_in_turns(files(), &mut left);
    let numbers: Vec<u32> = read.iter().map(|(file, _)| file.pid).collect();
    assert_eq!(numbers, [300, 301, 302], "its share is that of another user");
    assert!(left < BYTES_MAX, "{left}");
    let mut left = u64::MAX;
    read_in_turns(files(), &mut left);
    assert_eq!(u64::MAX - left, 8 * BYTES_MAX + 3 * text.len() as u64);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_page_of_the_provider_has_its_bytes() {
    let limits = Limits {
        posted: false,
        unsent: false,
        receiver_not_ready: false,
        occupancy_eighths: 7,
        credits_free: 65_535,
        packets_max: 65_535,
        packet_len_max: 65_535,
    };
    let peer = PeerLine {
        address: "[1111:2222:3333:4444:5555:6666:7777:8888]:65535".to_owned(),
        established: false,
        round_trip_ns: 10_000_000_000,
        congestion_window: f64::from(u32::MAX) / 65_536.0,
        in_flight: 65_535,
        lost: 65_535,
        timeouts: 99,
        next_packet: u32::MAX,
        retransmitted: u32::MAX,
        received: u32::MAX,
        limits: Some(limits),
    };
    let names = (0..64).map(|number| (format!("{number:032}"), u64::MAX));
    let page = Page { peers: vec![peer; PEERS_MAX], counters: names.collect(), ..Page::default() };
    let len = serde_json::to_vec(&page).unwrap().len() as u64;
    assert!(len < PAGE_BYTES, "{len}");
}

#[test]
fn a_reading_has_a_bounded_number_of_pages() {
    let folder = folder("many");
    let text = serde_json::to_string(&Page::default()).unwrap();
    let name = |number: usize| folder.join(format!("ofi-xdp-1-{number}-2.json"));
    let locks: Vec<File> = (0..=PAGES_MAX).map(|number| locked(&name(number), &text)).collect();
    let long = format!("ofi-xdp-1-{}.json", "0".repeat(NAME_LEN_MAX));
    let _lock = locked(&folder.join(long), &text);
    let pages = read_all(&folder).unwrap();
    assert_eq!(pages.len(), PAGES_MAX);
    assert!(pages.iter().all(|page| page.file.len() < NAME_LEN_MAX));
    drop(locks);
    fs::remove_dir_all(&folder).unwrap();
}
