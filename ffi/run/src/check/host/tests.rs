// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each finding about the host, good and not.

use super::*;

const ALL: u64 = 0x1ff_ffff_ffff;

#[test]
fn kernels_have_what_their_version_has() {
    assert_eq!(kernel("6.6.0-1-amd64").remedy(), None);
    assert_eq!(kernel("7.0").value, "Linux 7.0");
    assert!(kernel("6.5.3").value.ends_with("a frame need 6.6"));
    assert!(kernel("5.15.0-91-generic").value.contains("xdp-broker needs 6.4"));
    assert!(kernel("5.15").remedy().is_some() && kernel("").remedy().is_some());
}

#[test]
fn an_old_libfabric_is_a_failure() {
    assert_eq!(libfabric((1, 17)).remedy(), None);
    assert_eq!(libfabric((2, 0)).value, "2.0");
    assert!(libfabric((1, 16)).remedy().is_some_and(|command| command.contains("libfabric1")));
}

#[test]
fn capabilities_are_read_and_named() {
    assert_eq!(held("Name:\tx\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n"), ALL);
    assert_eq!(held("garbage"), 0);
    assert_eq!(missing(ALL), [""; 0]);
    assert_eq!(missing(0), ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"]);
    assert_eq!(missing(1 << SYS_ADMIN | 1 << 12), ["CAP_NET_RAW"], "CAP_SYS_ADMIN has CAP_BPF's");
}

#[test]
fn missing_capabilities_come_from_the_broker_or_a_command() {
    assert_eq!(capabilities(&[], &BrokerState::Absent, "./app").remedy(), None);
    let brokered = capabilities(&["CAP_BPF"], &BrokerState::Reachable, "./app");
    assert_eq!(brokered.value, "without CAP_BPF; the broker has them");
    assert_eq!(brokered.remedy(), None);
    let alone = capabilities(&["CAP_BPF"], &BrokerState::Absent, "./app");
    let command = "sudo setcap cap_net_raw,cap_net_admin,cap_bpf+ep ./app";
    assert_eq!(alone.remedy(), Some(command));
}

#[test]
fn the_limit_of_locked_memory_counts_endpoints() {
    let line = "Limit   Soft   Hard\nMax locked memory   8388608   9999999   bytes\n";
    assert_eq!(lock_limit(line), Some(8 << 20));
    assert_eq!(lock_limit(&line.replace("8388608", "unlimited")), None);
    let without_lock = ALL & !(1 << IPC_LOCK);
    assert_eq!(locked_memory(without_lock, Some(8 << 20)).remedy(), Some("ulimit -l unlimited"));
    assert_eq!(locked_memory(without_lock, Some(25 << 20)).value, "2 AF_XDP endpoints");
    assert_eq!(locked_memory(without_lock, None).remedy(), None);
    assert_eq!(locked_memory(ALL, Some(0)).remedy(), None, "CAP_IPC_LOCK has no limit");
    assert_eq!(locked_memory(0, Some(0)).remedy(), None, "no AF_XDP socket counts for it");
}

#[test]
fn the_broker_is_needed_without_capabilities_only() {
    let finding = |state: BrokerState, has| broker_finding(&state, "/s", has);
    assert_eq!(finding(BrokerState::Reachable, false).value, "at /s");
    assert_eq!(finding(BrokerState::Absent, true).remedy(), None);
    assert_eq!(finding(BrokerState::Absent, false).remedy(), Some(ENABLE_BROKER));
    assert_eq!(finding(BrokerState::Off, false).remedy(), Some("unset FI_XDP_BROKER"));
    let broken = finding(BrokerState::Broken("refused".to_owned()), false);
    assert!(broken.remedy().is_some_and(|command| command.contains("restart")));
}

#[test]
fn a_provider_without_offers_is_a_failure() {
    assert_eq!(offers(3, None).remedy(), None);
    assert_eq!(offers(0, None).remedy(), Some("FI_LOG_LEVEL=warn fi_info -p xdp"));
}

#[test]
fn the_brokers_socket_is_tried() {
    assert_eq!(broker_state("none"), BrokerState::Off);
    assert_eq!(broker_state("/no/such/socket"), BrokerState::Absent);
    let path = std::env::temp_dir().join(format!("xdp-run-broker-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(broker_state(path.to_str().unwrap()), BrokerState::Reachable);
    // Its queue takes no more; that of the standard library's listener has 128 places.
    let socket = Socket::from(listener);
    socket.listen(0).unwrap();
    let full = BrokerState::Broken("it accepts no connection".to_owned());
    assert_eq!(broker_state(path.to_str().unwrap()), full);
    drop(socket);
    assert!(matches!(broker_state(path.to_str().unwrap()), BrokerState::Broken(_)));
    fs::remove_file(path).unwrap();
}

#[test]
fn the_reason_for_no_offer_is_named_where_it_is_known() {
    let reason = |path, filter, up| no_offer(path, filter, "xdp", up).map(|(reason, _)| reason);
    let nowhere = reason(Some("/nowhere:/usr"), None, true).unwrap();
    assert_eq!(nowhere, "no libxdp-fi.so in FI_PROVIDER_PATH=/nowhere:/usr");
    assert_eq!(reason(Some("+/x/libxdp-fi.so"), None, true), None);
    for (filter, excluded) in
        [("tcp", true), ("^xdp", true), ("^tcp", false), ("tcp, xdp", false), ("", false)]
    {
        assert_eq!(reason(None, Some(filter), true).is_some(), excluded, "{filter}");
    }
    let down = no_offer(None, None, "xdp", false).unwrap();
    assert_eq!(down.0, "no interface is up with an address");
    assert!(down.1.contains("ip -brief address"), "{down:?}");
    assert_eq!(reason(None, None, true), None);
    assert_eq!(offers(0, Some(down)).value, "0: no interface is up with an address");
    assert!(offers(0, None).is_failure() && !offers(2, None).is_failure());
}
