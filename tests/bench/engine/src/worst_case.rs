// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the most expensive packets and receives, and the limit of each.
//!
//! In: nothing. Out: the cases. Callers: `worst.rs` runs one, `ledger.rs` compares their costs.

/// One packet, or one posted receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    /// A packet with one message of 8 bytes, which the first posted receive takes.
    Packet,
    /// A packet that fills the hole before 10,000 stored messages.
    Hole,
    /// A packet with 60 messages behind others that are accepted with it.
    Behind,
    /// A packet with 60 messages that match none of 10,000 receives. The first search is long, and
    /// the other messages wait for theirs.
    Unwanted,
    /// A packet with 60 messages that match none of 10,000 receives, all of which have bins.
    UnwantedInBins,
    /// A packet with 60 messages that match none of 10,000 receives of 12 kinds, all of which have
    /// bins.
    UnwantedKinds,
    /// A message that matches none of 10,000 receives of 12 kinds.
    Kinds,
    /// A message that matches the last one of 10,000 receives.
    LastReceive,
    /// A packet with a message that is refused, which discards 10,000 messages stored out of order
    /// behind it.
    Refused,
    /// A packet that ends a connection with 10,000 stored messages out of order.
    Close,
    /// A packet that ends the connection of an unnamed peer with 10,000 stored messages.
    CloseStored,
    /// A packet that ends a connection with 10,000 announced messages.
    CloseAnnounced,
    /// A packet that ends a connection with 10,000 announced messages that receives have matched.
    CloseMatched,
    /// A packet that ends a connection with 10,000 announced messages that were claimed.
    CloseClaimed,
    /// A packet that ends a connection with 1,024 messages that are arriving.
    CloseArriving,
    /// A packet that ends a connection with 1,024 operations of the application.
    ClosePosted,
    /// An acknowledgment of the last one of 49,152 packets under way, and of none before it.
    SackedLast,
    /// A further one, while the others were sent again and are not due.
    SackedAgain,
    /// A packet with 60 errors for none of 1,024 writes under way, of which it announces all.
    Errors,
    /// A packet that brings 8 completions before 1,000 others, all behind a missing packet.
    EventsBehind,
    /// A packet with a part of the last of 1,024 messages that are arriving.
    LastPart,
    /// A receive that takes the first stored message.
    Receive,
    /// A receive that matches none of 10,000 stored messages, and is the first one of its kind. It
    /// waits for its search.
    NewKind,
    /// A receive for the last of 10,000 stored messages.
    LastMessage,
    /// A receive for none of 10,000 stored messages of its source, of the sixth kind. It waits for
    /// its search.
    SixthKind,
}

impl Case {
    /// All of them.
    pub(crate) const ALL: [Self; 25] = [
        Self::Packet,
        Self::Hole,
        Self::Behind,
        Self::Unwanted,
        Self::UnwantedInBins,
        Self::UnwantedKinds,
        Self::Kinds,
        Self::LastReceive,
        Self::Refused,
        Self::Close,
        Self::CloseStored,
        Self::CloseAnnounced,
        Self::CloseMatched,
        Self::CloseClaimed,
        Self::CloseArriving,
        Self::ClosePosted,
        Self::SackedLast,
        Self::SackedAgain,
        Self::Errors,
        Self::EventsBehind,
        Self::LastPart,
        Self::Receive,
        Self::NewKind,
        Self::LastMessage,
        Self::SixthKind,
    ];

    /// As in the report.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Hole => "hole",
            Self::Behind => "behind",
            Self::Unwanted => "unwanted",
            Self::UnwantedInBins => "unwanted-in-bins",
            Self::UnwantedKinds => "unwanted-kinds",
            Self::Kinds => "kinds",
            Self::LastReceive => "last-receive",
            Self::Refused => "refused",
            Self::Close => "close",
            Self::CloseStored => "close-stored",
            Self::CloseAnnounced => "close-announced",
            Self::CloseMatched => "close-matched",
            Self::CloseClaimed => "close-claimed",
            Self::CloseArriving => "close-arriving",
            Self::ClosePosted => "close-posted",
            Self::SackedLast => "sacked-last",
            Self::SackedAgain => "sacked-again",
            Self::Errors => "errors",
            Self::EventsBehind => "events-behind",
            Self::LastPart => "last-part",
            Self::Receive => "receive",
            Self::NewKind => "new-kind",
            Self::LastMessage => "last-message",
            Self::SixthKind => "sixth-kind",
        }
    }

    /// The most that this call costs, in units of the usual one: 50 for a packet and 20 for a
    /// receive.
    pub(crate) const fn limit(self) -> f64 {
        match self {
            Self::Packet | Self::Receive => 1.0,
            Self::LastMessage | Self::NewKind | Self::SixthKind => 20.0,
            _ => 50.0,
        }
    }

    /// The usual call that the cost of this one is divided by.
    pub(crate) const fn usual(self) -> Self {
        match self {
            Self::Receive | Self::NewKind | Self::LastMessage | Self::SixthKind => Self::Receive,
            _ => Self::Packet,
        }
    }

    /// The function of `worst.rs` that shows in callgrind's output.
    pub(crate) const fn function(self) -> &'static str {
        match self.usual() {
            Self::Receive => "worst_receive",
            _ => "worst_packet",
        }
    }
}
