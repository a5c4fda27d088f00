// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to an endpoint and its peer, for both kinds of endpoint: open, exchange names, finish.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::Role;
use crate::fabric::{Endpoint, Info, Kind, Listener, Name, Peer, Setup, Wait, Want};

/// Most buffers each way, and the memory that they may take: many small messages, few large ones.
const BUFFERS_MAX: usize = 128;
const BUFFERS_MIN: usize = 8;
const MEMORY_MAX: usize = 16 << 20;
/// How long to wait for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Buffers for messages of at most `size_max` bytes, half of them each way.
pub(super) fn buffers_for(size_max: usize, wait: Wait) -> Setup {
    let each_way = (MEMORY_MAX / size_max.max(1)).clamp(BUFFERS_MIN, BUFFERS_MAX);
    Setup { slots: 2 * each_way, size: size_max.max(64), wait }
}

/// What both sides want of libfabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    /// The provider's full name.
    pub(super) provider: String,
    /// Whether messages are tagged, where the provider can.
    pub(super) tagged: bool,
    /// Whether there are one-sided operations.
    pub(super) rma: bool,
    /// Whether the provider must make progress by itself.
    pub(super) auto_progress: bool,
    /// The local address.
    pub(super) local: IpAddr,
}

/// Open, without a peer.
#[derive(Debug)]
pub(super) struct Opening {
    wish: Wish,
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
    /// `FI_EP_MSG`, the client: everything else needs the server's address.
    ToConnect,
}

/// Open, with a peer.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) info: Info,
    pub(super) endpoint: Endpoint,
    pub(super) peer: Peer,
    /// The time from `fi_fabric` on, without what was waited for the other side's name.
    pub(super) took: Duration,
}

impl Wish {
    /// The offer to use: reliable datagrams if the provider has them, else a connection.
    fn find(&self, to: Option<&Name>) -> anyhow::Result<Info> {
        let mut first_error = None;
        for (kind, tagged) in
            [(Kind::Rdm, self.tagged), (Kind::Msg, self.tagged), (Kind::Msg, false)]
        {
            // A client's own address follows from the server's; shared memory has none.
            let source = (to.is_none() && self.provider != "shm").then_some(self.local);
            let want = Want {
                provider: &self.provider,
                kind,
                tagged,
                rma: self.rma,
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

impl Opening {
    /// The part that needs no peer.
    pub(super) fn begin(wish: Wish, role: Role, setup: Setup) -> anyhow::Result<Self> {
        let info = wish.find(None)?;
        let start = Instant::now();
        let stage = match (info.kind(), role) {
            (Kind::Rdm, _) => {
                let endpoint = Endpoint::open(&info, setup)?;
                Stage::Datagram(info, endpoint)
            }
            (Kind::Msg, Role::Server) => {
                let listener = Listener::open(&info)?;
                Stage::Listening(info, listener)
            }
            (Kind::Msg, Role::Client) => Stage::ToConnect,
        };
        Ok(Self { wish, setup, stage, took: start.elapsed() })
    }

    /// Whether messages will be tagged, where that is known already.
    pub(super) fn is_tagged(&self) -> Option<bool> {
        match &self.stage {
            Stage::Datagram(info, _) | Stage::Listening(info, _) => Some(info.tagged()),
            Stage::ToConnect => None,
        }
    }

    /// The address to give to the other side; empty where it needs none.
    pub(super) fn name(&self) -> anyhow::Result<Name> {
        Ok(match &self.stage {
            Stage::Datagram(_, endpoint) => endpoint.name()?,
            Stage::Listening(_, listener) => listener.name()?,
            Stage::ToConnect => Name(Vec::new()),
        })
    }

    /// The rest: `peer` is the other side's name.
    pub(super) fn finish(self, peer: &Name) -> anyhow::Result<Opened> {
        let Self { wish, setup, stage, took } = self;
        let mut start = Instant::now();
        let (info, endpoint, peer) = match stage {
            Stage::Datagram(info, mut endpoint) => {
                let peer = endpoint.insert(peer)?;
                (info, endpoint, peer)
            }
            Stage::Listening(info, listener) => {
                let endpoint = listener.accept(setup, CONNECT_PATIENCE)?;
                (info, endpoint, Peer::CONNECTED)
            }
            Stage::ToConnect => {
                let info = wish.find(Some(peer))?;
                start = Instant::now();
                let endpoint = Endpoint::connect(&info, setup, CONNECT_PATIENCE)?;
                (info, endpoint, Peer::CONNECTED)
            }
        };
        Ok(Opened { info, endpoint, peer, took: took + start.elapsed() })
    }
}
