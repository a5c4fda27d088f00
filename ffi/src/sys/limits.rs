// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that several layers share.

use std::time::Duration;

/// Most memory regions of a domain (`mr_cnt`), each of which is in the engine of every endpoint.
pub(crate) const REGIONS_MAX: u32 = 32 << 10;

/// Time without progress by the application until the thread takes an endpoint over.
pub(crate) const APP_IDLE_LIMIT: Duration = Duration::from_millis(5);
/// The limit in place of [`APP_IDLE_LIMIT`] after `fi_trywait` has announced a sleep on a
/// descriptor. Most applications sleep at once, and a second thread that wakes for each packet is
/// waste. An application that computes instead must not keep its peers waiting for longer.
pub(crate) const ANNOUNCED_IDLE_LIMIT: Duration = Duration::from_millis(100);
