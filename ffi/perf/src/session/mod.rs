// SPDX-License-Identifier: MIT OR Apache-2.0
//! One client at one server: set-up over the control connection, then phase by phase.
//!
//! ```text
//!   client                      server
//!     |------ Open(config) ------>|  opens its transport
//!     |<----- Address ------------|
//!     |------ Address ----------->|  knows its peer
//!     |====== transport: connect =|  (connected endpoints only)
//!     |<----- Ready --------------|
//!     |------ Start(phase) ------>|
//!     |<----- Ready --------------|
//!     |====== messages ===========|  the control connection is silent
//!     |------ Stop -------------->|
//!     |<----- Ready --------------|  … and so on, for every phase
//!     |------ End --------------->|
//! ```

mod client;
mod datagrams;
mod pattern;
mod samples;
mod server;
mod ticker;

pub use client::{Measurement, run};
pub(crate) use server::OPENING_TIMEOUT;
pub use server::{answer_all, serve, session};
pub use ticker::{Interval, ProgressObserver};
