// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes are compared with the kernel's header. The choice of a location is tested with
//! simulated devices, and the refusal with the loopback interface.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command as Process;

use zerocopy::IntoBytes as _;

use super::*;

/// A device with a table of rules.
struct Table {
    /// Whether the device chooses locations itself.
    chooses: bool,
    size: u32,
    rules: RefCell<BTreeMap<u32, FlowSpec>>,
}

impl Table {
    fn new(chooses: bool, size: u32) -> Self {
        Self { chooses, size, rules: RefCell::default() }
    }

    fn locations(&self) -> Vec<u32> {
        self.rules.borrow().keys().copied().collect()
    }
}

impl Device for Table {
    fn call(&self, request: &mut RuleRequest) -> io::Result<()> {
        let mut rules = self.rules.borrow_mut();
        let command = u32::from_ne_bytes(request.as_bytes()[..4].try_into().unwrap());
        let location = request.rule.location();
        match command {
            0x2e => {
                request.set_count(rules.len().try_into().unwrap());
                request.data = u64::from(self.size);
                request.data |= if self.chooses { SPECIAL_LOCATIONS } else { 0 };
            }
            0x2f => request.rule = *rules.get(&location).ok_or(Errno::ENOENT)?,
            0x30 => {
                assert_eq!(request.count() as usize, rules.len(), "room for all");
                request.data = u64::from(self.size);
                request.set_locations(rules.keys().copied());
            }
            0x31 => drop(rules.remove(&location).ok_or(Errno::ENOENT)?),
            0x32 => {
                let free = (0..self.size).find(|location| !rules.contains_key(location));
                let location =
                    if location == ANY_LOCATION { free.ok_or(Errno::ENOSPC)? } else { location };
                assert!(location < self.size, "no such location");
                request.rule.set_location(location);
                assert!(rules.insert(location, request.rule).is_none(), "one was replaced");
            }
            _ => panic!("command {command:#x}"),
        }
        Ok(())
    }
}

fn rule(port: u16) -> FlowSpec {
    FlowSpec::new(SocketAddr::from(([198, 18, 0, 1], port)), 3)
}

#[test]
fn a_rule_comes_and_goes() {
    for chooses in [false, true] {
        let device = Table::new(chooses, 8);
        let first = insert(&device, rule(7000)).unwrap();
        let second = insert(&device, rule(7001)).unwrap();
        let expected = if chooses { [0, 1] } else { [7, 6] };
        assert_eq!([first.location(), second.location()], expected);
        remove(&device, &first).unwrap();
        assert_eq!(device.locations(), [expected[1]]);
        remove(&device, &first).expect("it is gone already");
        remove(&device, &second).unwrap();
        assert!(device.locations().is_empty());
    }
}

#[test]
fn a_rule_of_another_program_is_neither_replaced_nor_removed() {
    let device = Table::new(false, 2);
    let ours = insert(&device, rule(7000)).unwrap();
    // Another program put a rule into this location.
    device.rules.borrow_mut().insert(1, rule(8000));
    remove(&device, &ours).unwrap();
    assert_eq!(device.locations(), [1]);
    insert(&device, rule(7000)).unwrap();
    let error = insert(&device, rule(7001)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ENOSPC as i32));
    assert_eq!(device.locations(), [0, 1]);
}

#[test]
fn more_rules_than_are_read_are_a_full_table() {
    let device = Table::new(false, 8);
    let most = u32::try_from(RULES_MAX).unwrap();
    assert!(free_location(&device, most + 1).is_err());
    let mut request = RuleRequest::new(Command::All);
    request.set_count(most + 1);
    let loopback = EthtoolInterface::open("lo").unwrap();
    let error = loopback.call(&mut request).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EMSGSIZE as i32));
}

#[test]
fn the_loopback_interface_refuses() {
    let error = Steering::new(1, 0, SocketAddr::from(([127, 0, 0, 1], 7000))).unwrap_err();
    match &error {
        SteeringError::Unsupported(name) => assert_eq!(name, "lo"),
        // The error without CAP_NET_ADMIN.
        other => assert!(other.to_string().contains("not permitted"), "{other}"),
    }
}

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
    printf("%d %d %d %d %d %x\n", ETHTOOL_GRXCLSRLCNT, ETHTOOL_GRXCLSRULE, ETHTOOL_GRXCLSRLALL,
           ETHTOOL_SRXCLSRLDEL, ETHTOOL_SRXCLSRLINS, SIOCETHTOOL);
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
    return 0;
}
"#;

#[test]
fn the_bytes_are_those_of_the_kernels_header() {
    let folder = std::env::temp_dir().join(format!("ofi-xdp-steering-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("request.c"), folder.join("request"));
    fs::write(&source, IN_C).unwrap();
    let compiled = Process::new("cc").arg("-o").arg(&program).arg(&source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = String::from_utf8(Process::new(&program).output().unwrap().stdout).unwrap();
    fs::remove_dir_all(&folder).unwrap();

    let mut four = rule(7000);
    four.set_location(5);
    let four = RuleRequest::about_rule(Command::Insert, four);
    let six = FlowSpec::new("[fd00::1:2]:7001".parse().unwrap(), 1);
    let mut six = RuleRequest::about_rule(Command::All, six);
    six.rule.set_location(ANY_LOCATION);
    six.data = 0x0102_0304_0506_0708;
    six.set_count(9);
    let commands = [Command::Count, Command::Get, Command::All, Command::Delete, Command::Insert];
    let commands: Vec<String> = commands.map(|command| (command as u32).to_string()).into();
    // The head ends at the locations, which have no length in the header.
    let head = size_of::<RuleRequest>() - 4 * RULES_MAX;
    let hex = |request: &RuleRequest| {
        request.as_bytes()[..head].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let expected = [
        format!("{} {:x}", commands.join(" "), ioctl::SIOCETHTOOL),
        format!("{SPECIAL_LOCATIONS} {ANY_LOCATION} {}", head.next_multiple_of(8)),
        hex(&four),
        hex(&six),
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
