// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits that several layers share.

use std::time::Duration;

/// Most memory regions of a domain (`mr_cnt`), each of which is in the engine of every endpoint.
pub(crate) const REGIONS_MAX: u32 = 32 << 10;

/// Most transmit contexts, and most receive contexts, of a scalable endpoint (`max_ep_tx_ctx`,
/// `max_ep_rx_ctx`).
pub(crate) const CONTEXTS_MAX: usize = 64;

/// Time since the application's last poll after which it is idle.
pub(crate) const APP_IDLE_LIMIT: Duration = Duration::from_micros(50);
/// The limit in place of [`APP_IDLE_LIMIT`] while the application's threads compete for cores. A
/// thread that waits for a core does not pause, and the progress thread would compete too.
pub(crate) const CONTENDED_IDLE_LIMIT: Duration = Duration::from_millis(5);
/// The limit in place of [`APP_IDLE_LIMIT`] after `fi_trywait` has announced a sleep on a
/// descriptor, while packets or timers wait. Most applications sleep at once, and a second thread
/// that wakes for each packet is waste.
pub(crate) const ANNOUNCED_IDLE_LIMIT: Duration = Duration::from_millis(1);
/// The limit after `fi_trywait` while nothing waits.
pub(crate) const ANNOUNCED_IDLE_MAX: Duration = Duration::from_millis(100);
/// How often a call that waits for acknowledgements before it closes something checks what other
/// threads have received. They may take the packet that would wake it.
pub(crate) const LINGER_RECHECK: Duration = Duration::from_millis(1);
