// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libxdp-fi.so`: the libfabric provider named `xdp`.
//!
//! libfabric loads this library and calls [`fi_prov_ini`]. Afterwards every call comes through
//! tables of function pointers. The layers, each of which imports from those below it only:
//!
//! | folder | content |
//! |---|---|
//! | `c_api` | the C side of each object: slots, tables, raw arguments to safe types; the entry point |
//! | `endpoint` | endpoints: bindings, data calls, shared contexts |
//! | `objects` | fabric, domain, address vector, queues, counters, memory regions, sets |
//! | `getinfo` | `fi_getinfo`: offers, hints, interfaces, hardware providers, open objects |
//! | `runtime` | the base of an enabled endpoint: engine, port, peers, application memory, statistics |
//! | `wait` | sleeping until an event, and spin-then-yield before a sleep |
//! | `sys` | libfabric's C declarations, error numbers, variables, the log, the clock, addresses |
//!
//! Unsafe code is in `c_api`, `runtime/memory` and `sys` only. `c_api/passthrough` is sealed: two
//! files of `c_api` name it, and hardware providers' objects pass through it.

#![deny(unsafe_code)]

mod c_api;
mod endpoint;
mod getinfo;
mod objects;
mod runtime;
mod sys;
mod wait;

pub use c_api::fi_prov_ini;
