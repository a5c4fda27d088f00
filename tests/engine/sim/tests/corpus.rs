// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every story of the corpus, and the readable table of goodput.

use ofi_xdp_sim::corpus::{STORIES, many_nodes, million_peers};
use ofi_xdp_sim::measure;

#[test]
fn every_story_goes_well() {
    let mut failed = Vec::new();
    let large = ["million-peers", "ten-thousand-nodes"];
    for story in STORIES.iter().filter(|story| !large.contains(&story.name)) {
        if let Err(violation) = (story.tell)() {
            failed.push(format!("{}: {violation}", story.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A million in release builds (`ofi-xdp-sim corpus`); fewer here, where nothing is optimised.
#[test]
fn many_idle_peers_cost_nothing() {
    million_peers(if cfg!(debug_assertions) { 100_000 } else { 1_000_000 }).unwrap();
}

#[test]
fn many_nodes_talk() {
    many_nodes(if cfg!(debug_assertions) { 500 } else { 5_000 }).unwrap();
}

/// Minutes without optimisation: release builds only.
#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation")]
fn the_table_of_goodput_is_the_snapshot() {
    let snapshot = include_str!("../snapshots/goodput.md");
    let table = measure::goodput_table().unwrap();
    assert_eq!(table, snapshot, "`ofi-xdp-sim table --write` replaces the snapshot");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimisation")]
fn the_targets_are_met() {
    let targets = measure::targets().unwrap();
    assert!(targets.missed.is_empty(), "{targets:?}");
}
