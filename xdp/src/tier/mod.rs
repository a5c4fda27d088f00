// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tiers: the candidates before a port opens, and the status of the open port.
//!
//! In: the configured mode and the interface. Out: modes to try, the expected tier, the status.
//! Callers: `fi_getinfo` and the port. Bound: three modes.

pub(crate) mod candidates;
pub(crate) mod queue_list;
pub(crate) mod status;
