// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same seed is the same run, packet by packet, and nothing else is.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use ofi_xdp_sim::run::{run, run_traced};
use ofi_xdp_sim::scenario::{FaultClass, Scenario};
use ofi_xdp_sim::trace::Trace;

/// A scenario with faults that every correct engine survives.
fn scenario(seed: u64) -> Scenario {
    let kept = Scenario::swarm(seed);
    [FaultClass::Restart, FaultClass::Clock].iter().fold(kept, |s, class| class.without(&s))
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in 0..40 {
        let scenario = scenario(seed);
        assert_eq!(run(seed, &scenario), run(seed, &scenario), "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    let scenario = Scenario::default();
    let (one, other) = (run(1, &scenario).unwrap(), run(2, &scenario).unwrap());
    assert_ne!(one.digest, other.digest);
}

#[test]
fn a_recorded_run_is_the_same_run() {
    let scenario = Scenario::default();
    let path = std::env::temp_dir().join(format!("ofi-xdp-sim-{}.pcap", std::process::id()));
    let mut trace = Trace::default();
    trace.text = Some(Box::new(std::io::sink()));
    trace.capture(Box::new(std::fs::File::create(&path).unwrap())).unwrap();
    let recorded = run_traced(3, &scenario, trace).unwrap();
    let pcap = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recorded, run(3, &scenario).unwrap());
    // Walk the file: as many packets as were sent, each with the headers of an IPv4 UDP frame.
    let (mut at, mut packets) = (24, 0);
    while at < pcap.len() {
        let len = u32::from_le_bytes(pcap[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &pcap[at + 16..at + 16 + len];
        let parsed = SlicedPacket::from_ethernet(frame).unwrap();
        assert!(matches!(parsed.net, Some(NetSlice::Ipv4(_))));
        assert!(matches!(parsed.transport, Some(TransportSlice::Udp(_))));
        at += 16 + len;
        packets += 1;
    }
    assert_eq!(packets, recorded.packets);
}
