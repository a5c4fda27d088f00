// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libxdp-fi.so`: the libfabric provider named `xdp`.
//!
//! libfabric loads this library and calls [`fi_prov_ini`]; from then on everything comes through
//! tables of function pointers. In the order in which a send travels:
//!
//! | file | what it is |
//! |---|---|
//! | `provider` | `fi_prov_ini`, the provider structure |
//! | `abi`, `bindings` | libfabric's C declarations, and what it exports to us |
//! | `shim/*` | the C side of each object: slots, tables, raw arguments to safe types |
//! | `fid` | what C holds of an object of ours |
//! | `ops` | the safe traits behind the tables |
//! | `ops/transfer` | one type for sends, one for receives, one for writes and reads, one for atomics |
//! | `info`, `hints`, `interface`, `sockaddr`, `tier`, `instances` | `fi_getinfo` |
//! | `passthrough`, `shim/passthrough`, `shim/interpose` | hardware providers' offers and objects, under names of ours |
//! | `fabric`, `domain`, `eq`, `av`, `mr`, `cq`, `cntr`, `ep` | one libfabric object each |
//! | `msg`, `tagged`, `rma`, `atomic` | data calls: flags in, one request out |
//! | `srx`, `stx` | what endpoints share |
//! | `registry` | the memory regions of a domain |
//! | `progress`, `storage`, `peers`, `memory` | an active endpoint: engine, port, peers, application memory |
//! | `wait`, `waker` | sleeping until something happens |
//! | `idle` | giving way while nothing happens |
//! | `poll_set`, `wait_set` | several queues at once |
//! | `work` | deferred work, triggered operations |
//! | `thread` | progress when the application makes none |
//! | `statistics` | a page of each endpoint in shared memory, for `xdp-top` |
//! | `param`, `log`, `errno` | variables, messages, error numbers |
//!
//! `unsafe` is in `provider`, `abi`, `shim`, `fid` and `memory`, and nowhere else.

#![deny(unsafe_code)]

mod abi;
mod atomic;
mod av;
mod cntr;
mod cq;
mod domain;
mod ep;
mod eq;
mod errno;
mod fabric;
mod fid;
mod hints;
mod idle;
mod info;
mod instances;
mod interface;
mod log;
mod memory;
mod mr;
mod msg;
mod ops;
mod param;
mod passthrough;
mod peers;
mod poll_set;
mod progress;
mod provider;
mod registry;
mod rma;
mod shim;
mod sockaddr;
mod srx;
mod statistics;
mod storage;
mod stx;
mod tagged;
mod thread;
mod tier;
mod wait;
mod wait_set;
mod waker;
mod work;

pub use provider::fi_prov_ini;
