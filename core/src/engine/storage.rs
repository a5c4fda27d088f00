// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of an engine: one slice for each of its tables, sized by [`Config`].
//!
//! The macro `slices!` has the only list of them. In: a [`Config`]. Out: [`Storage`], the slices
//! that an engine borrows; [`StorageBytes`], their sizes; with the feature `alloc` also
//! [`StorageBox`], the slices on the heap. Caller: [`Engine::new`](crate::Engine::new) takes the
//! slices. Bound: the capacities of the configuration.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;

use crate::api::posted::BinEntry;
#[cfg(feature = "alloc")]
use crate::collections::filled::filled;
use crate::collections::list::List;
use crate::collections::slab::Slot;
use crate::collections::wheel::TimerSlot;
use crate::engine::matching::stored::TABLES;
use crate::engine::receive::pieces::Pieced;
use crate::engine::rma::region::Region;
use crate::peer::in_flight::{CHUNK_PACKETS, PAGE_CHUNKS, TxChunk, TxPage};
use crate::peer::operation::{Assembly, RecvOp, TxOp, Unexpected};
use crate::peer::slots::{RecvSlot, StoredSlot};
use crate::peer::window::BitsPage;
use crate::peer::{Connection, Peer};
use crate::{Config, ConfigError};

/// Pages of send windows beyond those of one window. A window in the middle of a page touches one
/// more, and several windows share the pool.
const PAGES_SHARED: u32 = 8;

/// Declares the types of this module from a table: name, element type and number of elements of
/// each slice.
macro_rules! slices {
    ($config:ident; $($(#[$doc:meta])* $name:ident: $element:ty = $count:expr;)*) => {
        /// The slices that an engine lives in. [`Engine::new`](crate::Engine::new) checks their
        /// lengths against the configuration.
        #[derive(Debug)]
        pub struct Storage<'s> {
            $($(#[$doc])* pub(crate) $name: &'s mut [$element],)*
        }

        impl Storage<'_> {
            /// Checks that each slice has the length that `config` asks for.
            pub(crate) fn check(&self, $config: &Config) -> Result<(), ConfigError> {
                $(if self.$name.len() != $count {
                    return Err(ConfigError::Storage(stringify!($name)));
                })*
                Ok(())
            }
        }

        /// Bytes of each slice of an engine's [`Storage`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct StorageBytes {
            $($(#[$doc])* pub $name: usize,)*
        }

        impl StorageBytes {
            /// Name and bytes of each slice.
            pub fn by_name(&self) -> impl Iterator<Item = (&'static str, usize)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        impl Config {
            /// Bytes of each slice that an engine of this configuration lives in.
            #[must_use]
            pub fn storage_bytes(&self) -> StorageBytes {
                let $config = self;
                StorageBytes { $($name: $count * size_of::<$element>(),)* }
            }
        }

        /// The slices that an engine lives in, on the heap.
        #[cfg(feature = "alloc")]
        #[derive(Debug)]
        pub struct StorageBox {
            $($name: Box<[$element]>,)*
        }

        #[cfg(feature = "alloc")]
        impl StorageBox {
            /// Allocates the slices for an engine of configuration `config`.
            ///
            /// # Errors
            /// [`ConfigError::NoMemory`] with the first slice that is not to be had.
            pub fn new($config: &Config) -> Result<Self, ConfigError> {
                let none = ConfigError::NoMemory;
                Ok(Self { $($name: filled($count).ok_or(none(stringify!($name)))?,)* })
            }

            /// Lends the slices to an engine.
            pub fn lend(&mut self) -> Storage<'_> {
                Storage { $($name: &mut self.$name,)* }
            }
        }
    };
}

slices! { config;
    /// Peers known by address.
    peers: Slot<Peer> = count(config.peers);
    /// Hash table from address to peer, at most half full.
    index: u32 = (count(config.peers) * 2).next_power_of_two();
    /// Connections: the state of peers with traffic.
    connections: Slot<Connection> = count(config.connections);
    /// Timers of the connections.
    timers: TimerSlot = count(config.connections);
    /// Pool chunks: the records of packets in flight.
    chunks: Slot<TxChunk> =
        count(config.connections + config.port_packets.div_ceil(CHUNK_PACKETS));
    /// Pages of large send windows.
    pages: Slot<TxPage> = count(
        config.port_packets.div_ceil(CHUNK_PACKETS * PAGE_CHUNKS as u32) + PAGES_SHARED
    );
    /// Pages of wide receive windows.
    bits: Slot<BitsPage> = count(config.reorder_pages);
    /// Operations that send.
    ops: Slot<TxOp> = total(&config.ops());
    /// Posted receives, slices of multi-receive buffers, and events.
    recvs: Slot<RecvOp> = total(&config.receives());
    /// Hash bins of the posted receives.
    recv_bins: List<RecvSlot> = count(config.recvs).next_power_of_two();
    /// Their entries in the bins.
    recv_entries: BinEntry<RecvSlot> = count(config.recvs);
    /// Messages of several packets that are arriving.
    assemblies: Slot<Assembly> = count(config.assemblies);
    /// Packets that are arriving in pieces.
    pieced: Pieced = count(config.pieced);
    /// Stored messages.
    unexpected: Slot<Unexpected> = total(&config.unexpected);
    /// Hash bins of the stored messages: tables of one length.
    stored_bins: List<StoredSlot> = total(&config.unexpected).next_power_of_two() * TABLES;
    /// Registered memory.
    regions: Slot<Region> = count(config.regions);
    /// Hash table from key to region, at most half full.
    region_index: u32 = (count(config.regions) * 2).next_power_of_two();
}

const fn count(capacity: u32) -> usize {
    capacity as usize
}

fn total(capacities: &[u32]) -> usize {
    capacities.iter().map(|&capacity| count(capacity)).sum()
}
