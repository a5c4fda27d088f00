// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every file of the corpus holds the rules: an old fault does not come back.

use std::fs;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the corpus is in the tree") {
        let path = entry.expect("a readable folder").path();
        println!("{}", path.display());
        run(&fs::read(&path).expect("a readable file"));
        files += 1;
    }
    assert!(files >= 10, "{files} files for {target}");
}

#[test]
fn agents() {
    replay("agents", ofi_xdp_fuzz::agents::run);
}

#[test]
fn connections() {
    replay("connections", ofi_xdp_fuzz::connections::run);
}

#[test]
fn decode() {
    replay("decode", ofi_xdp_fuzz::decode::run);
}

#[test]
fn ingest() {
    replay("ingest", ofi_xdp_fuzz::ingest::run);
}

#[test]
fn operations() {
    replay("operations", ofi_xdp_fuzz::operations::run);
}
