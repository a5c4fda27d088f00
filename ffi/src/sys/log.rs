// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log: messages of the `log` crate go to libfabric's `fi_log`.
//!
//! In: messages of this crate and the datapath. The target of a message is a libfabric subsystem
//! (`core fabric domain ep_ctrl ep_data av cq eq mr cntr`; any other is `core`), by which
//! `FI_LOG_SUBSYS` selects. Out: enabled messages; disabled ones are not formatted.

use std::ffi::CString;

use ::log::{Level, LevelFilter, Log, Metadata, Record};

use crate::sys::abi::{self, Provider};

const SUBSYSTEMS: [(&str, abi::fi_log_subsys); 10] = [
    ("core", abi::FI_LOG_CORE),
    ("fabric", abi::FI_LOG_FABRIC),
    ("domain", abi::FI_LOG_DOMAIN),
    ("ep_ctrl", abi::FI_LOG_EP_CTRL),
    ("ep_data", abi::FI_LOG_EP_DATA),
    ("av", abi::FI_LOG_AV),
    ("cq", abi::FI_LOG_CQ),
    ("eq", abi::FI_LOG_EQ),
    ("mr", abi::FI_LOG_MR),
    ("cntr", abi::FI_LOG_CNTR),
];

/// Bytes of a message that are passed on: `fi_log` writes it, its line end and a zero byte into
/// 1,024 bytes. The lines of several processes run together where the end is cut off.
const MESSAGE_MAX: usize = 1_022;

/// The beginning of a message, in whole characters.
fn shortened(mut message: String) -> String {
    let end = (0..=MESSAGE_MAX.min(message.len())).rev().find(|&at| message.is_char_boundary(at));
    message.truncate(end.unwrap_or(0));
    message
}

struct Bridge(Provider);

/// Sends the messages of the levels that are enabled now to libfabric.
pub(crate) fn install(provider: Provider) {
    // Another logger exists only in a test of this crate, which may keep it.
    if ::log::set_boxed_logger(Box::new(Bridge(provider))).is_ok() {
        ::log::set_max_level(max_level(provider));
    }
}

/// The most verbose level that is enabled for a subsystem. The `log` crate drops the others.
fn max_level(provider: Provider) -> LevelFilter {
    let enabled = |level| {
        SUBSYSTEMS.iter().any(|&(_, subsystem)| provider.log_enabled(fi_level(level), subsystem))
    };
    [Level::Trace, Level::Info, Level::Warn]
        .into_iter()
        .find(|&level| enabled(level))
        .map_or(LevelFilter::Off, |level| level.to_level_filter())
}

const fn fi_level(level: Level) -> abi::fi_log_level {
    match level {
        Level::Error | Level::Warn => abi::FI_LOG_WARN,
        Level::Info => abi::FI_LOG_INFO,
        Level::Debug | Level::Trace => abi::FI_LOG_DEBUG,
    }
}

fn subsystem(target: &str) -> abi::fi_log_subsys {
    let known = SUBSYSTEMS.iter().find(|(name, _)| *name == target);
    known.map_or(abi::FI_LOG_CORE, |&(_, subsystem)| subsystem)
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.log_enabled(fi_level(metadata.level()), subsystem(metadata.target()))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let module = record.module_path().unwrap_or_default();
        let message = shortened(record.args().to_string());
        let (Ok(module), Ok(message)) = (CString::new(module), CString::new(message)) else {
            return;
        };
        let line = record.line().unwrap_or(0);
        let target = subsystem(record.target());
        self.0.log(fi_level(record.level()), target, (&module, line), &message);
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_in_front_of_its_line_end() {
        assert_eq!(shortened("closing".to_owned()), "closing");
        assert_eq!(shortened("a".repeat(MESSAGE_MAX + 1)).len(), MESSAGE_MAX);
        // A character of two bytes that the limit would divide.
        let message = format!("a{}", "µ".repeat(MESSAGE_MAX));
        assert_eq!(shortened(message).len(), MESSAGE_MAX - 1);
    }
}
