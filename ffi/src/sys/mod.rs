// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment: libfabric's C interface, error numbers, parameters, the log, the clock, socket
//! addresses, memory, and limits.

pub(crate) mod abi;
pub(crate) mod clock;
pub(crate) mod cm_socket;
pub(crate) mod errno;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod memory;
pub(crate) mod owned_info;
pub(crate) mod param;
pub(crate) mod process;
pub(crate) mod providers;
pub(crate) mod reserve;
pub(crate) mod sockaddr;
pub(crate) mod tier;
