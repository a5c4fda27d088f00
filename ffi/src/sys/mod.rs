// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment: libfabric's C interface, error numbers, parameters, the log, the clock, socket
//! addresses, memory, limits, messages to the user, and the name of the provider.

pub(crate) mod abi;
pub(crate) mod clock;
pub(crate) mod cm_socket;
pub(crate) mod errno;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod notice;
pub(crate) mod owned_info;
pub(crate) mod param;
pub(crate) mod peer_check;
pub(crate) mod personality;
pub(crate) mod process;
pub(crate) mod providers;
pub(crate) mod reserve;
pub(crate) mod sockaddr;
pub(crate) mod tier;
pub(crate) mod unknown;
