// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of requests, compared with the kernel's header.

use std::fs;
use std::net::SocketAddr;
use std::process::Command as Process;

use nix::errno::Errno;
use zerocopy::IntoBytes as _;

use super::Device as _;
use super::hash::{HashRequest, KEY_MAX, TABLE_MAX};
use super::ioctl::{EthtoolInterface, SIOCETHTOOL};
use super::rules::*;
use crate::host::netns::enter_new;

/// Bytes of a [`HashRequest`] before table and key.
const HASH_HEAD: usize = 24;

/// A program that prints sizes, offsets and bytes of two requests according to the header.
const IN_C: &str = r#"
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
static void show(const struct ethtool_rxnfc *request)
{
    const unsigned char *byte = (const void *)request;
    for (size_t at = 0; at < offsetof(struct ethtool_rxnfc, rule_locs); at++)
        printf("%02x", byte[at]);
    printf("\n");
}
int main(void)
{
    struct ethtool_rxnfc four, six;
    struct ethtool_rxnfc fields;
    struct ethtool_rxfh hash;
    const unsigned char *byte = (const void *)&hash;
    printf("%d %d %d %d %d %d %d %x\n", ETHTOOL_GRXFH, ETHTOOL_GRXRINGS, ETHTOOL_GRXCLSRLCNT,
           ETHTOOL_GRXCLSRULE, ETHTOOL_GRXCLSRLALL, ETHTOOL_SRXCLSRLDEL, ETHTOOL_SRXCLSRLINS,
           SIOCETHTOOL);
    printf("%lu %lu %lu\n", (unsigned long)RX_CLS_LOC_SPECIAL, (unsigned long)RX_CLS_LOC_ANY,
           (unsigned long)sizeof(four));
    memset(&four, 0, sizeof(four));
    four.cmd = ETHTOOL_SRXCLSRLINS;
    four.fs.flow_type = UDP_V4_FLOW;
    four.fs.h_u.udp_ip4_spec.ip4dst = htonl(0xc6120001);
    four.fs.m_u.udp_ip4_spec.ip4dst = 0xffffffff;
    four.fs.h_u.udp_ip4_spec.pdst = htons(7000);
    four.fs.m_u.udp_ip4_spec.pdst = 0xffff;
    four.fs.ring_cookie = 3;
    four.fs.location = 5;
    show(&four);
    memset(&six, 0, sizeof(six));
    six.cmd = ETHTOOL_GRXCLSRLALL;
    six.data = 0x0102030405060708;
    six.rule_cnt = 9;
    six.fs.flow_type = UDP_V6_FLOW;
    inet_pton(AF_INET6, "fd00::1:2", six.fs.h_u.udp_ip6_spec.ip6dst);
    memset(six.fs.m_u.udp_ip6_spec.ip6dst, 0xff, 16);
    six.fs.h_u.udp_ip6_spec.pdst = htons(7001);
    six.fs.m_u.udp_ip6_spec.pdst = 0xffff;
    six.fs.ring_cookie = 1;
    six.fs.location = RX_CLS_LOC_ANY;
    show(&six);
    memset(&fields, 0, sizeof(fields));
    fields.cmd = ETHTOOL_GRXFH;
    fields.flow_type = UDP_V6_FLOW;
    show(&fields);
    printf("%d %d\n", RXH_IP_SRC | RXH_IP_DST, RXH_L4_B_0_1 | RXH_L4_B_2_3);
    memset(&hash, 0, sizeof(hash));
    hash.cmd = ETHTOOL_GRSSH;
    hash.indir_size = 2;
    hash.key_size = 3;
    hash.hfunc = 1;
    for (size_t at = 0; at < offsetof(struct ethtool_rxfh, rss_config); at++)
        printf("%02x", byte[at]);
    printf("\n");
    return 0;
}
"#;

#[test]
fn the_bytes_are_those_of_the_kernels_header() {
    let folder = std::env::temp_dir().join(format!("ofi-xdp-ethtool-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("request.c"), folder.join("request"));
    fs::write(&source, IN_C).unwrap();
    let compiled = Process::new("cc").arg("-o").arg(&program).arg(&source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = String::from_utf8(Process::new(&program).output().unwrap().stdout).unwrap();
    fs::remove_dir_all(&folder).unwrap();

    let mut four = FlowSpec::new(SocketAddr::from(([198, 18, 0, 1], 7000)), 3);
    four.set_location(5);
    let four = RuleRequest::about_rule(Command::Insert, four);
    let six = FlowSpec::new("[fd00::1:2]:7001".parse().unwrap(), 1);
    let mut six = RuleRequest::about_rule(Command::All, six);
    six.rule.set_location(ANY_LOCATION);
    six.data = 0x0102_0304_0506_0708;
    six.set_count(9);
    let commands = [
        Command::HashFields,
        Command::Queues,
        Command::Count,
        Command::Get,
        Command::All,
        Command::Delete,
        Command::Insert,
    ];
    let commands: Vec<String> = commands.map(|command| (command as u32).to_string()).into();
    // The head ends at the locations, which have no length in the header.
    let head = size_of::<RuleRequest>() - 4 * RULES_MAX;
    let mut hash = HashRequest::new();
    hash.answer(1, &[5, 6], &[7, 8, 9]);
    hash.answer(1, &[5, 6], &[7, 8, 9]);
    assert_eq!((hash.table().collect::<Vec<_>>(), hash.key()), (vec![5, 6], &[7, 8, 9][..]));
    let hex = |request: &RuleRequest| {
        request.as_bytes()[..head].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let expected = [
        format!("{} {:x}", commands.join(" "), SIOCETHTOOL),
        format!("{SPECIAL_LOCATIONS} {ANY_LOCATION} {}", head.next_multiple_of(8)),
        hex(&four),
        hex(&six),
        hex(&RuleRequest::hash_fields(false)),
        format!("{HASH_ADDRESSES} {HASH_PORTS}"),
        hash.as_bytes()[..HASH_HEAD].iter().map(|byte| format!("{byte:02x}")).collect(),
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_request_without_room_for_the_answer_is_not_made() {
    let loopback = EthtoolInterface::open(1).unwrap();
    let mut request = HashRequest::new();
    request.answer(1, &[0; TABLE_MAX], &[0; KEY_MAX]);
    assert!(request.has_room());
    request.set_table_len(TABLE_MAX as u32 + 1);
    let error = loopback.read_hash(&mut request).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EMSGSIZE as i32));
}

/// Runs `command` of ip(8) in the calling thread's network namespace.
fn ip(command: &str) {
    let arguments = command.split(' ');
    assert!(Process::new("ip").args(arguments).status().unwrap().success(), "{command}");
}

#[test]
fn root_a_renamed_interface_is_found_by_its_index() {
    if !enter_new() {
        return;
    }
    ip("link add first type veth peer name second");
    let index = nix::net::if_::if_nametoindex("first").unwrap();
    let interface = EthtoolInterface::open(index).unwrap();
    let hash = || interface.read_hash(&mut HashRequest::new()).unwrap_err().raw_os_error();
    let answer = hash();
    assert_eq!(interface.name(), "first");
    ip("link set first name renamed");
    assert_eq!((hash(), interface.name().as_str()), (answer, "renamed"));
    // Another interface with the former name is another one.
    ip("link set second name first");
    assert_eq!(interface.name(), "renamed");
    ip("link del renamed");
    assert_eq!(
        (hash(), interface.name()),
        (Some(Errno::ENXIO as i32), format!("interface {index}"))
    );
    let error = EthtoolInterface::open(index).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ENXIO as i32));
}
