// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables `FI_XDP_*`: names, help, and the values of this process.
//!
//! The variables are defined through libfabric at load. So `fi_info -g xdp` lists them, and a
//! system-wide configuration (libfabric 2) applies to them. They are read at each use. An invalid
//! value is reported once, and the default is used.

use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use ofi_xdp_datapath::DEFAULT_BROKER_PATH;
use ofi_xdp_datapath::Mode;

use crate::sys::abi::{self, Provider};
use crate::sys::providers::Providers;
use crate::sys::tier::Choice;

/// One variable.
#[derive(Debug)]
struct Param {
    /// The name without the prefix, in lower case.
    name: &'static CStr,
    kind: abi::fi_param_type,
    help: &'static CStr,
    /// Limits the warnings about the variable, which is read often, to one.
    complaint: Once,
}

static IFACE: Param = Param {
    name: c"iface",
    kind: abi::FI_PARAM_STRING,
    help: c"Name of the only network interface to offer (default: every interface that is up; \
            addresses and routes decide)",
    complaint: Once::new(),
};
static TIER: Param = Param {
    name: c"tier",
    kind: abi::FI_PARAM_STRING,
    help: c"What to offer: auto (everything, the best first), passthrough (hardware providers \
            only), af_xdp (interfaces with AF_XDP only), udp (kernel sockets only) (default: auto)",
    complaint: Once::new(),
};
static PASSTHROUGH: Param = Param {
    name: c"passthrough",
    kind: abi::FI_PARAM_STRING,
    help: c"Hardware providers to hand out in place of AF_XDP where they satisfy the hints, the \
            best first, or none (default: efa verbs cxi psm3 opx ucx)",
    complaint: Once::new(),
};
static MODE: Param = Param {
    name: c"mode",
    kind: abi::FI_PARAM_STRING,
    help: c"AF_XDP's mode: zerocopy, copy, skb (the next of them if it cannot be had), auto (by \
            the kind of device) (default: auto)",
    complaint: Once::new(),
};
static QUEUE: Param = Param {
    name: c"queue",
    kind: abi::FI_PARAM_INT,
    help: c"Receive queue of the interface that the AF_XDP socket is bound to (default: the first \
            that no other socket has)",
    complaint: Once::new(),
};
static STEER: Param = Param {
    name: c"steer",
    kind: abi::FI_PARAM_BOOL,
    help: c"Give the device a rule (ethtool -n) that sends an endpoint's packets to its AF_XDP \
            socket's queue, and take it back when the endpoint closes (default: no)",
    complaint: Once::new(),
};
static PEER_TIMEOUT: Param = Param {
    name: c"peer_timeout",
    kind: abi::FI_PARAM_INT,
    help: c"Milliseconds without a sign of life, with operations pending, after which a peer is \
            given up and its operations end in error completions, 1 to 120000 (default: 10000)",
    complaint: Once::new(),
};
/// The longest peer time-out that the engine supports, in milliseconds.
const PEER_TIMEOUT_MAX: u32 = 120_000;
static PATH_RETRY: Param = Param {
    name: c"path_retry",
    kind: abi::FI_PARAM_INT,
    help:
        c"Seconds after which larger packets are tried again on a path that did not pass them, 1 \
            to 28800 (default: 600)",
    complaint: Once::new(),
};
/// The longest time after which they are, in seconds.
const PATH_RETRY_MAX: u32 = 28_800;
static CONNECT_TIMEOUT: Param = Param {
    name: c"connect_timeout",
    kind: abi::FI_PARAM_INT,
    help: c"Milliseconds without an answer after which a connection request has failed, 1 to \
            120000 (default: 10000)",
    complaint: Once::new(),
};
static SPIN: Param = Param {
    name: c"spin",
    kind: abi::FI_PARAM_INT,
    help: c"Microseconds that fi_cq_sread polls before it sleeps (default: 20)",
    complaint: Once::new(),
};

static BROKER: Param = Param {
    name: c"broker",
    kind: abi::FI_PARAM_STRING,
    help: c"Socket of the xdp-broker that makes AF_XDP sockets for processes without \
            capabilities, or none (default: /run/xdp-broker/socket)",
    complaint: Once::new(),
};

static PCI: Param = Param {
    name: c"pci",
    kind: abi::FI_PARAM_BOOL,
    help:
        c"Whether applications are told where a card is on the PCI bus (fi_bus_attr): some choose \
            the nearest card by it; MPICH ends in an assertion where its hwloc does not know the \
            place (default: no)",
    complaint: Once::new(),
};

static PARAMS: [&Param; 12] = [
    &TIER,
    &PASSTHROUGH,
    &IFACE,
    &MODE,
    &QUEUE,
    &STEER,
    &BROKER,
    &PEER_TIMEOUT,
    &PATH_RETRY,
    &CONNECT_TIMEOUT,
    &SPIN,
    &PCI,
];

/// The values of the variables.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// The tiers to offer.
    pub(crate) tier: Choice,
    /// The hardware providers to pass through to.
    pub(crate) passthrough: Providers,
    /// The only interface to offer.
    pub(crate) interface: Option<String>,
    /// The mode of AF_XDP; [`Mode::Udp`] for the tier of that name.
    pub(crate) mode: Mode,
    /// The queue of the AF_XDP socket; `None`: any.
    pub(crate) queue: Option<u32>,
    /// Whether the device may be given a rule for the endpoint.
    pub(crate) steer: bool,
    /// The socket of the broker; `None`: no broker.
    pub(crate) broker: Option<PathBuf>,
    /// The peer time-out.
    pub(crate) peer_timeout: Duration,
    /// The time after which larger packets are tried again.
    pub(crate) path_retry: Duration,
    /// Time without an answer after which a connection request has failed.
    pub(crate) connect_timeout: Duration,
    /// Time of polling before a sleep.
    pub(crate) spin: Duration,
    /// Whether applications see PCI addresses.
    pub(crate) pci: bool,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            tier: Choice::Auto,
            passthrough: Providers::default(),
            interface: None,
            mode: Mode::Auto,
            queue: None,
            steer: false,
            broker: Some(PathBuf::from(DEFAULT_BROKER_PATH)),
            peer_timeout: Duration::from_secs(10),
            path_retry: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            spin: Duration::from_micros(20),
            pci: false,
        }
    }
}

/// The provider, for libfabric's calls; empty until libfabric has loaded the library.
static PROVIDER: OnceLock<Provider> = OnceLock::new();

/// Defines the variables. Called once, at load.
pub(crate) fn define(provider: Provider) {
    let _ = PROVIDER.set(provider);
    for param in PARAMS {
        let status = provider.define(param.name, param.kind, param.help);
        if status != 0 {
            log::warn!(target: "core", "fi_param_define of {:?} returned {status}", param.name);
        }
    }
}

/// The current values.
pub(crate) fn values() -> Values {
    PROVIDER.get().map_or_else(Values::default, |&provider| read(provider))
}

fn read(provider: Provider) -> Values {
    let mut values = Values { interface: provider.text_value(IFACE.name), ..Values::default() };
    if let Some(text) = provider.text_value(MODE.name) {
        match text.parse() {
            Ok(mode) => values.mode = mode,
            Err(error) => MODE.complain(format_args!(
                "FI_XDP_MODE={text}: {error}; taking auto (the tiers are FI_XDP_TIER's)"
            )),
        }
    }
    if let Some(text) = provider.text_value(TIER.name) {
        match text.parse() {
            Ok(tier) => values.tier = tier,
            Err(error) => TIER.complain(format_args!("FI_XDP_TIER={text}: {error}; taking auto")),
        }
    }
    if values.tier == Choice::Udp {
        values.mode = Mode::Udp;
    }
    if let Some(text) = provider.text_value(PASSTHROUGH.name) {
        values.passthrough = Providers::parse(&text);
    }
    if let Some(queue) = number(provider, &QUEUE) {
        values.queue = Some(queue);
    }
    match provider.int_value(STEER.name) {
        Ok(steer) => values.steer = steer.unwrap_or(0) != 0,
        Err(_) => STEER.complain(format_args!("FI_XDP_STEER is neither yes nor no; taking no")),
    }
    if let Some(path) = provider.text_value(BROKER.name) {
        values.broker = (path != "none").then(|| PathBuf::from(path));
    }
    match number(provider, &PEER_TIMEOUT) {
        None => {}
        Some(0) => PEER_TIMEOUT.complain(format_args!(
            "FI_XDP_PEER_TIMEOUT=0: every peer would be dead at once; taking the default"
        )),
        Some(given) => {
            if given > PEER_TIMEOUT_MAX {
                PEER_TIMEOUT.complain(format_args!(
                    "FI_XDP_PEER_TIMEOUT={given} is too long; taking {PEER_TIMEOUT_MAX}"
                ));
            }
            values.peer_timeout = Duration::from_millis(given.min(PEER_TIMEOUT_MAX).into());
        }
    }
    if let Some(given) = number(provider, &PATH_RETRY) {
        let seconds = given.clamp(1, PATH_RETRY_MAX);
        if seconds != given {
            PATH_RETRY.complain(format_args!(
                "FI_XDP_PATH_RETRY={given} is not from 1 to {PATH_RETRY_MAX}; taking {seconds}"
            ));
        }
        values.path_retry = Duration::from_secs(seconds.into());
    }
    if let Some(given) = number(provider, &CONNECT_TIMEOUT) {
        let milliseconds = given.clamp(1, PEER_TIMEOUT_MAX);
        if milliseconds != given {
            CONNECT_TIMEOUT.complain(format_args!(
                "FI_XDP_CONNECT_TIMEOUT={given} is not from 1 to {PEER_TIMEOUT_MAX}; taking \
                 {milliseconds}"
            ));
        }
        values.connect_timeout = Duration::from_millis(milliseconds.into());
    }
    if let Some(microseconds) = number(provider, &SPIN) {
        values.spin = Duration::from_micros(microseconds.into());
    }
    match provider.int_value(PCI.name) {
        Ok(given) => values.pci = given.is_some_and(|given| given != 0),
        Err(_) => PCI.complain(format_args!("FI_XDP_PCI is not yes or no; taking no")),
    }
    values
}

/// The value of a variable that is a non-negative number.
fn number(provider: Provider, param: &Param) -> Option<u32> {
    match provider.int_value(param.name).map(|value| value.map(u32::try_from)) {
        Ok(None) => None,
        Ok(Some(Ok(value))) => Some(value),
        _ => {
            let name = param.name.to_string_lossy().to_ascii_uppercase();
            param.complain(format_args!(
                "FI_XDP_{name} is not a number from 0 on; taking the default"
            ));
            None
        }
    }
}

/// Warns, once in a process, that packets travel by a lower tier than the best possible one.
pub(crate) fn warn_degraded(status: &str) {
    static WARNING: Once = Once::new();
    WARNING.call_once(|| log::warn!(target: "ep_ctrl", "{status}"));
}

/// Warns that the requested interface does not exist.
pub(crate) fn warn_no_interface(name: &str, known: &str) {
    IFACE.complain(format_args!(
        "FI_XDP_IFACE={name}: no interface of this name is up with an address; there are: {known}"
    ));
}

impl Param {
    fn complain(&self, message: std::fmt::Arguments<'_>) {
        self.complaint.call_once(|| log::warn!(target: "core", "{message}"));
    }
}

/// Time of polling before a sleep: the value at the first read of a queue, as this is called on the
/// data path.
pub(crate) fn spin() -> Duration {
    static SPIN_TIME: OnceLock<Duration> = OnceLock::new();
    *SPIN_TIME.get_or_init(|| values().spin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default according to the help text of a variable.
    fn stated_default(param: &Param) -> &'static str {
        let help = param.help.to_str().unwrap();
        help.split_once("(default: ").and_then(|(_, rest)| rest.strip_suffix(')')).unwrap()
    }

    #[test]
    fn the_help_states_the_defaults() {
        let values = Values::default();
        assert_eq!(stated_default(&TIER).parse(), Ok(values.tier));
        assert_eq!(stated_default(&MODE).parse(), Ok(values.mode));
        assert_eq!(Providers::parse(stated_default(&PASSTHROUGH)), values.passthrough);
        assert_eq!(Some(PathBuf::from(stated_default(&BROKER))), values.broker);
        assert_eq!(stated_default(&PEER_TIMEOUT), values.peer_timeout.as_millis().to_string());
        assert_eq!(stated_default(&PATH_RETRY), values.path_retry.as_secs().to_string());
        let connect_timeout = values.connect_timeout.as_millis().to_string();
        assert_eq!(stated_default(&CONNECT_TIMEOUT), connect_timeout);
        assert_eq!(stated_default(&SPIN), values.spin.as_micros().to_string());
        assert_eq!(stated_default(&PCI) == "yes", values.pci);
        assert_eq!(stated_default(&STEER) == "yes", values.steer);
        assert!(
            stated_default(&IFACE).starts_with("every interface") && values.interface.is_none()
        );
        assert!(stated_default(&QUEUE).starts_with("the first") && values.queue.is_none());
    }
}
