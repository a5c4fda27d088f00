// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of an engine: the slots of its slabs and its tables, sized by [`Config`].
//!
//! The macro `storage!` has the only list of them. In: a [`Config`]. Out: [`Storage`], the memory
//! that an engine borrows; [`StorageBytes`], its sizes; with the feature `alloc` also
//! [`StorageBox`], that memory on the heap. Caller: [`Engine::new`](crate::Engine::new) takes it.
//! Bound: the capacities of the configuration.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;

use crate::api::posted::BinEntry;
#[cfg(feature = "alloc")]
use crate::collections::filled::{filled, zeroed};
use crate::collections::list::List;
use crate::collections::slab::Slot;
use crate::collections::slots::Slots;
use crate::collections::wheel::TimerSlot;
use crate::engine::link_slots::LinkEntry;
use crate::engine::matching::stored::TABLES;
use crate::engine::receive::pieces::Pieced;
use crate::engine::rma::region::Region;
use crate::peer::in_flight::{CHUNK_PACKETS, PAGE_CHUNKS, TxChunk, TxPage};
use crate::peer::operation::{Assembly, RecvOp, TxOp, Unexpected};
use crate::peer::slots::{RecvSlot, StoredSlot};
use crate::peer::watch::Watch;
use crate::peer::window::BitsPage;
use crate::peer::{Connection, Peer};
use crate::{Config, ConfigError};

/// Pages of send windows beyond those of one window. A window in the middle of a page touches one
/// more, and several windows share the pool.
const PAGES_SHARED: u32 = 8;

/// Declares the types of this module from two lists, with name, element type and number of
/// elements. Slots of slabs begin when they are first used, and tables begin at once.
macro_rules! storage {
    (
        $config:ident;
        slots { $($(#[$slots_doc:meta])* $slots:ident: $slot:ty = $slot_count:expr;)* }
        tables {
            $($(#[$table_doc:meta])* $table:ident: $element:ty = $make:ident($table_len:expr);)*
        }
    ) => {
        /// The memory that an engine lives in. [`Engine::new`](crate::Engine::new) checks its
        /// sizes against the configuration.
        #[derive(Debug)]
        pub struct Storage<'s> {
            $($(#[$slots_doc])* pub(crate) $slots: Slots<'s, Slot<$slot>>,)*
            $($(#[$table_doc])* pub(crate) $table: &'s mut [$element],)*
        }

        impl Storage<'_> {
            /// Checks that each part has the size that `config` asks for.
            pub(crate) fn check(&self, $config: &Config) -> Result<(), ConfigError> {
                $(if self.$slots.room() != $slot_count {
                    return Err(ConfigError::Storage(stringify!($slots)));
                })*
                $(if self.$table.len() != $table_len {
                    return Err(ConfigError::Storage(stringify!($table)));
                })*
                Ok(())
            }
        }

        /// Bytes of each part of an engine's [`Storage`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct StorageBytes {
            $($(#[$slots_doc])* pub $slots: usize,)*
            $($(#[$table_doc])* pub $table: usize,)*
        }

        impl StorageBytes {
            /// Name and bytes of each part.
            pub fn by_name(&self) -> impl Iterator<Item = (&'static str, usize)> {
                [
                    $((stringify!($slots), self.$slots),)*
                    $((stringify!($table), self.$table),)*
                ]
                .into_iter()
            }
        }

        impl Config {
            /// Bytes of each part of the memory that an engine of this configuration lives in.
            #[must_use]
            pub fn storage_bytes(&self) -> StorageBytes {
                let $config = self;
                StorageBytes {
                    $($slots: $slot_count * size_of::<Slot<$slot>>(),)*
                    $($table: $table_len * size_of::<$element>(),)*
                }
            }
        }

        /// The memory that an engine lives in, on the heap. Slots that no peer and no operation
        /// has used are reserved, and not touched.
        #[cfg(feature = "alloc")]
        #[derive(Debug)]
        pub struct StorageBox {
            $($slots: Slots<'static, Slot<$slot>>,)*
            $($table: Box<[$element]>,)*
        }

        #[cfg(feature = "alloc")]
        impl StorageBox {
            /// Allocates the memory for an engine of configuration `config`.
            ///
            /// # Errors
            /// [`ConfigError::NoMemory`] with the first part that is not to be had.
            pub fn new($config: &Config) -> Result<Self, ConfigError> {
                let none = ConfigError::NoMemory;
                Ok(Self {
                    $($slots: Slots::with_room($slot_count).ok_or(none(stringify!($slots)))?,)*
                    $($table: $make($table_len).ok_or(none(stringify!($table)))?,)*
                })
            }

            /// Lends the memory to an engine, once: a second engine would find no slots.
            pub fn lend(&mut self) -> Storage<'_> {
                Storage { $($slots: self.$slots.take(),)* $($table: &mut self.$table,)* }
            }
        }
    };
}

storage! { config;
    slots {
        /// Peers known by address.
        peers: Peer = count(config.peers);
        /// Connections: the state of peers with traffic.
        connections: Connection = count(config.connections);
        /// Pool chunks: the records of packets in flight.
        chunks: TxChunk =
            count(config.connections + config.port_packets.div_ceil(CHUNK_PACKETS));
        /// Pages of large send windows.
        pages: TxPage = count(
            config.port_packets.div_ceil(CHUNK_PACKETS * PAGE_CHUNKS as u32) + PAGES_SHARED
        );
        /// Pages of wide receive windows.
        bits: BitsPage = count(config.reorder_pages);
        /// Operations that send.
        ops: TxOp = total(&config.ops());
        /// Posted receives, slices of multi-receive buffers, and events.
        recvs: RecvOp = total(&config.receives());
        /// Messages of several packets that are arriving.
        assemblies: Assembly = count(config.assemblies);
        /// Stored messages.
        unexpected: Unexpected = total(&config.unexpected);
        /// Registered memory.
        regions: Region = count(config.regions);
    }
    tables {
        /// Hash table from address to peer, at most half full.
        index: u32 = zeroed((count(config.peers) * 2).next_power_of_two());
        /// The port that each peer is known by, if it is not that of its address; else 0.
        names: u16 = zeroed(count(config.peers));
        /// The slots of each connected endpoint in the pools that all share.
        link_slots: LinkEntry = filled(links(config));
        /// Timers of the connections.
        timers: TimerSlot = filled(count(config.connections));
        /// The watch over what the peer of each connection owes.
        watches: Watch = filled(count(config.connections));
        /// Hash bins of the posted receives.
        recv_bins: List<RecvSlot> = filled(count(config.recvs).next_power_of_two());
        /// Their entries in the bins.
        recv_entries: BinEntry<RecvSlot> = filled(count(config.recvs));
        /// Packets that are arriving in pieces.
        pieced: Pieced = filled(count(config.pieced));
        /// Hash bins of the stored messages: tables of one length.
        stored_bins: List<StoredSlot> =
            filled(total(&config.unexpected).next_power_of_two() * TABLES);
        /// Hash table from key to region, at most half full.
        region_index: u32 = zeroed((count(config.regions) * 2).next_power_of_two());
    }
}

const fn count(capacity: u32) -> usize {
    capacity as usize
}

fn total(capacities: &[u32]) -> usize {
    capacities.iter().map(|&capacity| count(capacity)).sum()
}

/// The entries for connected endpoints: one for each peer.
const fn links(config: &Config) -> usize {
    if config.named_peers_only { count(config.peers) } else { 0 }
}
