// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening of an endpoint in two steps, for both endpoint types: open, exchange names, finish.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::SessionSide;
use ofi_xdp_libfabric::{Endpoint, Info, Kind, Listener, Name, Peer, Setup, Wait, Want};

/// Most buffers for each direction, and most memory: many small messages, few large ones.
const BUFFERS_MAX: usize = 128;
const BUFFERS_MIN: usize = 8;
const MEMORY_MAX: usize = 16 << 20;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Buffers of a side for each direction, in a session with messages of at most `size_max` bytes.
#[must_use]
pub fn buffers_each_way(size_max: usize) -> usize {
    (MEMORY_MAX / size_max.max(1)).clamp(BUFFERS_MIN, BUFFERS_MAX)
}

/// Number of buffers for messages of at most `size_max` bytes, half of them for each direction.
pub(super) fn buffers_for(size_max: usize, wait: Wait) -> Setup {
    Setup { slots: 2 * buffers_each_way(size_max), size: size_max.max(64), wait }
}

/// The requirements of both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Requirements {
    /// The provider's full name.
    pub(super) provider: String,
    /// Whether messages are tagged, if the provider supports it.
    pub(super) tagged: bool,
    /// Whether the endpoint must be a connected one.
    pub(super) connected: bool,
    /// Whether one-sided operations are needed.
    pub(super) rma: bool,
    /// Whether atomic operations are needed.
    pub(super) atomic: bool,
    /// Whether the provider must make progress automatically.
    pub(super) auto_progress: bool,
    /// The local address.
    pub(super) local: IpAddr,
}

/// An endpoint without a peer.
#[derive(Debug)]
pub(super) struct EndpointOpening {
    requirements: Requirements,
    setup: Setup,
    stage: Stage,
    took: Duration,
}

#[derive(Debug)]
enum Stage {
    /// `FI_EP_RDM`, either side.
    Datagram(Info, Endpoint),
    /// `FI_EP_MSG`, the server.
    Listening(Info, Listener),
    /// `FI_EP_MSG`, the client: every further step needs the server's address.
    ToConnect,
}

/// An endpoint with a peer.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) info: Info,
    pub(super) endpoint: Endpoint,
    pub(super) peer: Peer,
    /// Time since `fi_fabric`, without the wait for the other side's name.
    pub(super) took: Duration,
}

impl Requirements {
    /// The offer: reliable datagrams if the provider has them, otherwise a connection.
    fn find(&self, to: Option<&Name>) -> anyhow::Result<Info> {
        let mut first_error = None;
        let kinds = [(Kind::Rdm, self.tagged), (Kind::Msg, self.tagged), (Kind::Msg, false)];
        for (kind, tagged) in kinds.into_iter().skip(usize::from(self.connected)) {
            // A client's own address follows from the server's; shared memory has none.
            let source = (to.is_none() && self.provider != "shm").then_some(self.local);
            let want = Want {
                provider: &self.provider,
                kind,
                tagged,
                rma: self.rma,
                atomic: self.atomic,
                auto_progress: self.auto_progress,
                source,
                port: None,
                destination: to,
            };
            match Info::find(&want) {
                Ok(info) => return Ok(info),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) => Err(error.into()),
            None => bail!("nothing was asked for"),
        }
    }
}

impl EndpointOpening {
    /// Does the steps that need no peer.
    pub(super) fn begin(
        requirements: Requirements,
        role: SessionSide,
        setup: Setup,
    ) -> anyhow::Result<Self> {
        let info = requirements.find(None)?;
        let start = Instant::now();
        let stage = match (info.kind(), role) {
            (Kind::Rdm, _) => {
                let endpoint = Endpoint::open(&info, setup)?;
                Stage::Datagram(info, endpoint)
            }
            (Kind::Msg, SessionSide::Server) => {
                let listener = Listener::open(&info)?;
                Stage::Listening(info, listener)
            }
            (Kind::Msg, SessionSide::Client) => Stage::ToConnect,
        };
        Ok(Self { requirements, setup, stage, took: start.elapsed() })
    }

    /// Whether messages are tagged, if that is known already.
    pub(super) fn is_tagged(&self) -> Option<bool> {
        match &self.stage {
            Stage::Datagram(info, _) | Stage::Listening(info, _) => Some(info.tagged()),
            Stage::ToConnect => None,
        }
    }

    /// The address for the other side; empty if it needs none.
    pub(super) fn name(&self) -> anyhow::Result<Name> {
        Ok(match &self.stage {
            Stage::Datagram(_, endpoint) => endpoint.name()?,
            Stage::Listening(_, listener) => listener.name()?,
            Stage::ToConnect => Name(Vec::new()),
        })
    }

    /// Does the remaining steps; `peer` is the name of the other side.
    pub(super) fn finish(self, peer: &Name) -> anyhow::Result<Opened> {
        let Self { requirements, setup, stage, took } = self;
        let mut start = Instant::now();
        let (info, endpoint, peer) = match stage {
            Stage::Datagram(info, mut endpoint) => {
                let peer = endpoint.insert(peer)?;
                (info, endpoint, peer)
            }
            Stage::Listening(info, listener) => {
                let endpoint = listener.accept(setup, CONNECT_TIMEOUT)?;
                (info, endpoint, Peer::CONNECTED)
            }
            Stage::ToConnect => {
                let info = requirements.find(Some(peer))?;
                start = Instant::now();
                let endpoint = Endpoint::connect(&info, setup, CONNECT_TIMEOUT)?;
                (info, endpoint, Peer::CONNECTED)
            }
        };
        Ok(Opened { info, endpoint, peer, took: took + start.elapsed() })
    }
}
