// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice of a location is tested with simulated devices, and the refusal with the loopback
//! interface.

use std::cell::RefCell;
use std::collections::BTreeMap;

use zerocopy::IntoBytes as _;

use super::*;
use crate::ethtool::hash::HashRequest;

/// A device with a table of rules.
struct Table {
    /// Whether the device chooses locations itself.
    chooses: bool,
    queues: u64,
    size: u32,
    rules: RefCell<BTreeMap<u32, FlowSpec>>,
}

impl Table {
    fn new(chooses: bool, size: u32) -> Self {
        Self { chooses, queues: 4, size, rules: RefCell::default() }
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
            0x2d if self.queues == 0 => return Err(Errno::EOPNOTSUPP.into()),
            0x2d => request.data = self.queues,
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

    fn read_hash(&self, _: &mut HashRequest) -> io::Result<()> {
        Err(Errno::EOPNOTSUPP.into())
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
        let expected = if chooses { [0, 1] } else { [4, 0] };
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
    device.rules.borrow_mut().insert(ours.location(), rule(8000));
    remove(&device, &ours).unwrap();
    assert_eq!(device.locations(), [1]);
    insert(&device, rule(7000)).unwrap();
    let error = insert(&device, rule(7001)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ENOSPC as i32));
    assert_eq!(device.locations(), [0, 1]);
}

/// Each finds its location before another one inserts its rule there.
#[test]
fn rules_of_processes_that_start_together_do_not_replace_each_other() {
    let device = Table::new(false, 8);
    let on_queue = |queue| FlowSpec::new(SocketAddr::from(([198, 18, 0, 1], 7)), queue);
    for queue in [0, 3] {
        insert(&device, on_queue(queue)).unwrap();
    }
    assert_eq!(device.locations(), [4, 7]);
    let found = [0, 1, 2, 3].map(|queue| free_location(&device, 2, queue).unwrap());
    assert_eq!(found, [3, 6, 5, 0]);
    // Where a queue has no free location left, it takes one of another queue.
    insert(&device, on_queue(0)).unwrap();
    assert_eq!(free_location(&device, 3, 0).unwrap(), 6);
}

#[test]
fn a_device_that_reports_no_number_of_queues_has_rules_all_the_same() {
    let device = Table { queues: 0, ..Table::new(false, 8) };
    assert_eq!(insert(&device, rule(7000)).unwrap().location(), 7);
    assert_eq!(insert(&device, rule(7001)).unwrap().location(), 6);
}

#[test]
fn the_rules_of_a_killed_process_are_found_in_any_location() {
    let device = Table::new(false, 8);
    let ours = insert(&device, rule(7000)).unwrap();
    insert(&device, rule(7001)).unwrap();
    let another_queue = FlowSpec::new(SocketAddr::from(([198, 18, 0, 1], 7000)), 4);
    for (location, rule) in [(2, another_queue), (3, ours)] {
        let mut moved = rule;
        moved.set_location(location);
        device.rules.borrow_mut().insert(location, moved);
    }
    assert_eq!(device.locations(), [0, 2, 3, 4]);
    assert_eq!(remove_all(&device, rule(7000)).unwrap(), 2);
    assert_eq!(device.locations(), [0, 2]);
    assert_eq!(remove_all(&device, rule(7000)).unwrap(), 0);
}

#[test]
fn more_rules_than_are_read_are_a_full_table() {
    let device = Table::new(false, 8);
    let most = u32::try_from(RULES_MAX).unwrap();
    assert!(free_location(&device, most + 1, 3).is_err());
    let mut request = RuleRequest::new(Command::All);
    request.set_count(most + 1);
    let loopback = EthtoolInterface::open(1).unwrap();
    let error = loopback.call(&mut request).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EMSGSIZE as i32));
}

#[test]
fn the_loopback_interface_refuses() {
    let address = SocketAddr::from(([127, 0, 0, 1], 7000));
    let rule = SteeringRule { interface: 1, queue: 0, address };
    for error in [Steering::new(rule).unwrap_err(), rule.remove_left().unwrap_err()] {
        match &error {
            SteeringError::Unsupported(name) => assert_eq!(name, "lo"),
            // The error without CAP_NET_ADMIN.
            other => assert!(other.to_string().contains("not permitted"), "{other}"),
        }
    }
}
