// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables `FI_XDP_*`: names, help, and the values of this process.
//!
//! The variables are defined through libfabric at load. So `fi_info -g xdp` lists them, and a
//! system-wide configuration (libfabric 2) applies to them. They are read at each use. An invalid
//! value is an error, and a message that lists what is possible. Numbers are defined as text:
//! libfabric reads `12x` as 12.
//!
//! In: the environment, through libfabric. Out: [`Values`]. Called by the functions that open
//! objects. Bound: the list of variables.

use std::ffi::CStr;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use ofi_xdp_core::ChecksumCoverage;
use ofi_xdp_datapath::{DEFAULT_BROKER_PATH, Mode, QUEUES_MAX, Steer};

use crate::sys::abi::{self, Provider};
use crate::sys::errno::Error;
use crate::sys::notice::{self, Notice};
use crate::sys::personality::{self, Personality};
use crate::sys::providers::Providers;
use crate::sys::tier::Choice;
use crate::sys::unknown::{self, PREFIX};

/// One variable.
#[derive(Debug)]
struct Param {
    /// The name without the prefix, in lower case.
    name: &'static CStr,
    kind: abi::fi_param_type,
    help: &'static CStr,
    /// The message about an invalid value.
    complaint: Notice,
}

/// The message about a value, once for each variable.
const fn complaint() -> Notice {
    Notice::new("VARIABLE=value: …")
}

static IFACE: Param = Param {
    name: c"iface",
    kind: abi::FI_PARAM_STRING,
    help: c"Name of the only network interface to offer (default: every interface that is up; \
            addresses and routes decide)",
    complaint: complaint(),
};
static TIER: Param = Param {
    name: c"tier",
    kind: abi::FI_PARAM_STRING,
    help: c"What to offer: auto (everything, the best first), passthrough (hardware providers \
            only), af_xdp (interfaces with AF_XDP only), udp (kernel sockets only) (default: auto)",
    complaint: complaint(),
};
static PASSTHROUGH: Param = Param {
    name: c"passthrough",
    kind: abi::FI_PARAM_STRING,
    help: c"Hardware providers to hand out in place of AF_XDP where they satisfy the hints, the \
            best first, or none (default: efa verbs cxi psm3 opx ucx)",
    complaint: complaint(),
};
static MODE: Param = Param {
    name: c"mode",
    kind: abi::FI_PARAM_STRING,
    help: c"AF_XDP's mode: zerocopy, copy, skb (the next of them if it cannot be had), auto (by \
            the kind of device) (default: auto)",
    complaint: complaint(),
};
static QUEUE: Param = Param {
    name: c"queue",
    kind: abi::FI_PARAM_STRING,
    help: c"Receive queue of the interface that the AF_XDP socket is bound to (default: the first \
            that no other socket has)",
    complaint: complaint(),
};
static QUEUES: Param = Param {
    name: c"queues",
    kind: abi::FI_PARAM_STRING,
    help:
        c"Number of receive queues of the interface with an AF_XDP socket of each endpoint, from \
            that of FI_XDP_QUEUE on, 1 to 64, or all; each costs 12 MiB (default: 1)",
    complaint: complaint(),
};
static STEER: Param = Param {
    name: c"steer",
    kind: abi::FI_PARAM_STRING,
    help: c"Give the device a rule (ethtool -n) that sends an endpoint's packets to its AF_XDP \
            socket's queue, and take it back when the endpoint closes: no, yes, or auto (by \
            the broker, if most packets come by other queues and n-tuple filters are on; default: \
            auto)",
    complaint: complaint(),
};
static ENTROPY: Param = Param {
    name: c"entropy",
    kind: abi::FI_PARAM_BOOL,
    help:
        c"Send to a peer from another UDP source port than the endpoint's, where that port leads \
            to another queue than the one of the peer's AF_XDP socket (default: yes)",
    complaint: complaint(),
};
static CHECKSUM: Param = Param {
    name: c"checksum",
    kind: abi::FI_PARAM_STRING,
    help: c"What protects the bytes of long packets that the kernel carries: auto (UDP checksum), \
            full (a CRC-32C, too); set it on all hosts (default: auto)",
    complaint: complaint(),
};
static PEER_TIMEOUT: Param = Param {
    name: c"peer_timeout",
    kind: abi::FI_PARAM_STRING,
    help: c"Milliseconds without a sign of life, with operations pending, after which a peer is \
            given up and its operations end in error completions, 1 to 120000 (default: 10000)",
    complaint: complaint(),
};
/// The peer time-outs that the engine supports, and times to connect, in milliseconds.
const TIMEOUTS: RangeInclusive<u32> = 1..=120_000;
static PATH_RETRY: Param = Param {
    name: c"path_retry",
    kind: abi::FI_PARAM_STRING,
    help:
        c"Seconds after which larger packets are tried again on a path that did not pass them, 1 \
            to 28800 (default: 600)",
    complaint: complaint(),
};
/// The times after which they can be, in seconds.
const PATH_RETRIES: RangeInclusive<u32> = 1..=28_800;
static CONNECT_TIMEOUT: Param = Param {
    name: c"connect_timeout",
    kind: abi::FI_PARAM_STRING,
    help: c"Milliseconds without an answer after which a connection request has failed, 1 to \
            120000 (default: 10000)",
    complaint: complaint(),
};
static SPIN: Param = Param {
    name: c"spin",
    kind: abi::FI_PARAM_STRING,
    help: c"Microseconds that fi_cq_sread polls before it sleeps (default: 20)",
    complaint: complaint(),
};

static BROKER: Param = Param {
    name: c"broker",
    kind: abi::FI_PARAM_STRING,
    help: c"Socket of the xdp-broker that makes AF_XDP sockets for processes without \
            capabilities, or none (default: /run/xdp-broker/socket)",
    complaint: complaint(),
};

static PCI: Param = Param {
    name: c"pci",
    kind: abi::FI_PARAM_BOOL,
    help:
        c"Whether applications are told where a card is on the PCI bus (fi_bus_attr): some choose \
            the nearest card by it; MPICH ends in an assertion where its hwloc does not know the \
            place (default: no)",
    complaint: complaint(),
};

static QUIET: Param = Param {
    name: c"quiet",
    kind: abi::FI_PARAM_BOOL,
    help: c"Keep messages about what does not work to libfabric's log, and off standard error \
            (default: no)",
    complaint: complaint(),
};

/// Read at load only: see `personality`.
static NAME: Param = Param {
    name: c"name",
    kind: abi::FI_PARAM_STRING,
    help: c"The name of the provider: xdp, or tcp, which takes the place of libfabric's own tcp \
            for applications that look for that name; all hosts must do it (default: xdp)",
    complaint: complaint(),
};

static PARAMS: [&Param; 16] = [
    &TIER,
    &PASSTHROUGH,
    &IFACE,
    &MODE,
    &QUEUE,
    &QUEUES,
    &STEER,
    &ENTROPY,
    &CHECKSUM,
    &BROKER,
    &PEER_TIMEOUT,
    &PATH_RETRY,
    &CONNECT_TIMEOUT,
    &SPIN,
    &PCI,
    &QUIET,
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
    /// The number of queues with a socket; [`QUEUES_MAX`]: all.
    pub(crate) queues: u32,
    /// Whether the device may be given a rule for the endpoint.
    pub(crate) steer: Steer,
    /// Whether packets may have another source port than the endpoint's.
    pub(crate) entropy: bool,
    /// The coverage of checksums of long packets that leave by the kernel.
    pub(crate) coverage: ChecksumCoverage,
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
            queues: 1,
            steer: Steer::Auto,
            entropy: true,
            coverage: ChecksumCoverage::Head,
            broker: Some(PathBuf::from(DEFAULT_BROKER_PATH)),
            peer_timeout: Duration::from_secs(10),
            path_retry: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            spin: Duration::from_micros(20),
            pci: false,
        }
    }
}

impl Values {
    /// The variable with its value that asks for AF_XDP by name; `None`: AF_XDP is a wish alone.
    pub(crate) fn names_af_xdp(&self) -> Option<String> {
        match (self.tier, self.queue, self.mode) {
            (Choice::AfXdp, ..) => Some("FI_XDP_TIER=af_xdp".to_owned()),
            (_, Some(queue), _) => Some(format!("FI_XDP_QUEUE={queue}")),
            (.., Mode::Auto | Mode::Udp) => None,
            (.., mode) => Some(format!("FI_XDP_MODE={mode}")),
        }
    }
}

/// The provider, for libfabric's calls; empty until libfabric has loaded the library.
static PROVIDER: OnceLock<Provider> = OnceLock::new();

/// Defines `FI_XDP_NAME` for `provider`, and reads it. Called once, at load.
pub(crate) fn name(provider: Provider) -> Option<String> {
    NAME.define(provider);
    provider.text_value(NAME.name)
}

/// Defines the other variables, and reports unknown ones. Called once, at load.
pub(crate) fn define(provider: Provider) {
    let _ = PROVIDER.set(provider);
    for param in PARAMS {
        param.define(provider);
    }
    // An invalid text is reported with the other values.
    notice::set_quiet(provider.flag_value(QUIET.name) == Ok(Some(true)));
    unknown::report(PARAMS.into_iter().chain([&NAME]).map(Param::variable));
}

/// The current values.
///
/// # Errors
/// [`Error::Invalid`] if a variable has a value that it cannot have. A message says which.
pub(crate) fn values() -> Result<Values, Error> {
    if let Some(error) = personality::error() {
        return Err(NAME.refuse(format_args!("{error}")));
    }
    PROVIDER.get().map_or_else(|| Ok(Values::default()), |&provider| read(provider))
}

/// The current connect time-out alone: connections ask for it, and each value costs a search of the
/// environment.
///
/// # Errors
/// [`Error::Invalid`], as [`values`].
pub(crate) fn connect_timeout() -> Result<Duration, Error> {
    let given = PROVIDER.get().map_or(Ok(None), |&provider| given_connect_timeout(provider))?;
    Ok(given.unwrap_or_else(|| Values::default().connect_timeout))
}

fn given_connect_timeout(provider: Provider) -> Result<Option<Duration>, Error> {
    let milliseconds = number(provider, &CONNECT_TIMEOUT, &TIMEOUTS)?;
    Ok(milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into())))
}

fn read(provider: Provider) -> Result<Values, Error> {
    let mut values = Values { interface: provider.text_value(IFACE.name), ..Values::default() };
    if let Some(text) = provider.text_value(MODE.name) {
        values.mode = text.parse().map_err(|error| {
            MODE.refuse(format_args!("FI_XDP_MODE={text}: {error} (the tiers are FI_XDP_TIER's)"))
        })?;
    }
    if let Some(text) = provider.text_value(TIER.name) {
        let refuse = |error| TIER.refuse(format_args!("FI_XDP_TIER={text}: {error}"));
        values.tier = text.parse().map_err(refuse)?;
    }
    if values.tier == Choice::Udp {
        values.mode = Mode::Udp;
    }
    values.passthrough = match provider.text_value(PASSTHROUGH.name) {
        Some(text) => Providers::parse(&text),
        // The offers of hardware have other names and protocols than those of `tcp`.
        None if personality::current() == Personality::Tcp => Providers::parse("none"),
        None => values.passthrough,
    };
    values.queue = number(provider, &QUEUE, &(0..=u32::MAX))?;
    values.queues = queues(provider)?.unwrap_or(values.queues);
    values.steer = steer(provider)?.unwrap_or(values.steer);
    values.entropy = flag(provider, &ENTROPY)?.unwrap_or(values.entropy);
    values.coverage = coverage(provider)?.unwrap_or(values.coverage);
    if let Some(path) = provider.text_value(BROKER.name) {
        values.broker = (path != "none").then(|| PathBuf::from(path));
    }
    if let Some(milliseconds) = number(provider, &PEER_TIMEOUT, &TIMEOUTS)? {
        values.peer_timeout = Duration::from_millis(milliseconds.into());
    }
    if let Some(seconds) = number(provider, &PATH_RETRY, &PATH_RETRIES)? {
        values.path_retry = Duration::from_secs(seconds.into());
    }
    values.connect_timeout = given_connect_timeout(provider)?.unwrap_or(values.connect_timeout);
    if let Some(microseconds) = number(provider, &SPIN, &(0..=u32::MAX))? {
        values.spin = Duration::from_micros(microseconds.into());
    }
    values.pci = flag(provider, &PCI)?.unwrap_or(values.pci);
    flag(provider, &QUIET)?;
    Ok(values)
}

/// The number of queues, where [`QUEUES_MAX`] stands for all.
fn queues(provider: Provider) -> Result<Option<u32>, Error> {
    let Some(text) = provider.text_value(QUEUES.name) else { return Ok(None) };
    if text.trim() == "all" {
        return Ok(Some(QUEUES_MAX));
    }
    let value = text.trim().parse().ok().filter(|number| (1..=QUEUES_MAX).contains(number));
    value.map(Some).ok_or_else(|| {
        QUEUES.refuse(format_args!(
            "FI_XDP_QUEUES={text}: use a number from 1 to {QUEUES_MAX}, or all"
        ))
    })
}

/// Whether devices may be given rules.
fn steer(provider: Provider) -> Result<Option<Steer>, Error> {
    let Some(text) = provider.text_value(STEER.name) else { return Ok(None) };
    match text.trim().to_ascii_lowercase().as_str() {
        "auto" => Ok(Some(Steer::Auto)),
        "yes" | "1" | "true" | "on" => Ok(Some(Steer::Yes)),
        "no" | "0" | "false" | "off" => Ok(Some(Steer::No)),
        _ => Err(STEER.refuse(format_args!("FI_XDP_STEER={text}: use no, yes or auto"))),
    }
}

/// The coverage of checksums.
fn coverage(provider: Provider) -> Result<Option<ChecksumCoverage>, Error> {
    let Some(text) = provider.text_value(CHECKSUM.name) else { return Ok(None) };
    match text.trim() {
        "auto" => Ok(Some(ChecksumCoverage::Head)),
        "full" => Ok(Some(ChecksumCoverage::Whole)),
        _ => Err(CHECKSUM.refuse(format_args!("FI_XDP_CHECKSUM={text}: use auto or full"))),
    }
}

/// The value of a variable that is a number of `range`.
fn number(
    provider: Provider,
    param: &Param,
    range: &RangeInclusive<u32>,
) -> Result<Option<u32>, Error> {
    let Some(text) = provider.text_value(param.name) else { return Ok(None) };
    let value = text.trim().parse().ok().filter(|value| range.contains(value));
    value.map(Some).ok_or_else(|| {
        let (name, first, last) = (param.variable(), range.start(), range.end());
        param.refuse(format_args!("{name}={text}: use a number from {first} to {last}"))
    })
}

/// The value of a variable that is yes or no.
fn flag(provider: Provider, param: &Param) -> Result<Option<bool>, Error> {
    provider.flag_value(param.name).map_err(|_| {
        let name = param.variable();
        // libfabric gives the text of other kinds alone; its file of settings is not looked at.
        let value = std::env::var_os(&name).unwrap_or_default();
        param.refuse(format_args!(
            "{name}={}: use yes or no (or 1 or 0, true or false, on or off)",
            value.display()
        ))
    })
}

impl Param {
    fn define(&self, provider: Provider) {
        let status = provider.define(self.name, self.kind, self.help);
        if status != 0 {
            log::warn!(target: "core", "fi_param_define of {:?} returned {status}", self.name);
        }
    }

    /// The name of the variable in the environment.
    fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_string_lossy().to_ascii_uppercase())
    }

    /// The error of an invalid value, after a message.
    fn refuse(&self, message: fmt::Arguments<'_>) -> Error {
        self.complaint.tell(message);
        Error::Invalid
    }
}

/// Time of polling before a sleep: the value at the first read of a queue, as this is called on the
/// data path.
pub(crate) fn spin() -> Duration {
    static SPIN_TIME: OnceLock<Duration> = OnceLock::new();
    *SPIN_TIME.get_or_init(|| values().unwrap_or_default().spin)
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
        assert!(STEER.help.to_str().unwrap().ends_with("; default: auto)"));
        assert_eq!(values.steer, Steer::Auto);
        assert_eq!(stated_default(&NAME).as_bytes(), Personality::default().name().to_bytes());
        assert_eq!(stated_default(&ENTROPY) == "yes", values.entropy);
        assert_eq!((stated_default(&CHECKSUM), values.coverage), ("auto", ChecksumCoverage::Head));
        assert!(
            stated_default(&IFACE).starts_with("every interface") && values.interface.is_none()
        );
        assert_eq!(stated_default(&QUEUES), values.queues.to_string());
        assert!(stated_default(&QUEUE).starts_with("the first") && values.queue.is_none());
    }
}
