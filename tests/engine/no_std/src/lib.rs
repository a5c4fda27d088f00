// SPDX-License-Identifier: MIT OR Apache-2.0
#![no_std]
//! The engine on a machine without an operating system: core in a static library. The one loop runs
//! over a port and a memory that do nothing, so that generic code is compiled, too.
//!
//! Built by `cargo xtask test --all`, which checks the undefined symbols of the library. It is
//! never run.

use core::panic::PanicInfo;

use ofi_xdp_core::{
    AtomicAccess, AtomicRequest, Budget, ChecksumCoverage, Datagram, Engine, Gather, Instant,
    Memory, OpId, Placement, Port, PortError, PortLimits, Progress, ReadRequest, RecvId,
    RecvRequest, SendRequest, Transmit, Transmitted, UnexpectedId, WriteRequest, drive,
};

/// A port that nothing arrives at and everything leaves by.
struct Nowhere;

impl Port for Nowhere {
    fn receive(
        &mut self,
        _now: Instant,
        _budget: u16,
        _sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        Ok(0)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let mut packet = [0; 2048];
        Ok(fill(&mut packet).map_or(Transmitted::Nothing, |_| Transmitted::Sent))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        PortLimits {
            payload_max: 1472,
            receive_max: 2048,
            port_packets: 64,
            coverage: ChecksumCoverage::Whole,
        }
    }
}

/// A memory that holds nothing.
struct Nothing;

impl Memory for Nothing {
    type Buffer = ();

    fn attach_op(&mut self, _op: OpId, (): ()) {}
    fn attach_recv(&mut self, _recv: RecvId, (): ()) {}
    fn attach_slice(&mut self, _part: RecvId, _of: RecvId, _offset: u64) {}
    fn gather(&mut self, _from: Gather, _into: &mut [u8]) {}
    fn place(&mut self, _at: Placement, _bytes: &[u8]) {}
    fn deliver(&mut self, _from: UnexpectedId, _to: RecvId, _len: u64) {}
    fn atomic(&mut self, _access: AtomicAccess<'_>) {}
}

/// Everything an endpoint does: posts, drives, polls. Exported, so that it is compiled.
// SAFETY: no other symbol of the library has this name.
#[unsafe(no_mangle)]
pub fn ofi_xdp_turn(
    engine: &mut Engine<'_>,
    now: Instant,
    (send, recv): (SendRequest, RecvRequest),
    (write, read, atomic): (WriteRequest, ReadRequest, AtomicRequest),
) -> Result<Progress, PortError> {
    let posted = engine.post_recv(recv, (), &mut Nothing).is_ok()
        && engine.post_send(now, send, (), &mut Nothing).is_ok()
        && engine.post_write(now, write, (), &mut Nothing).is_ok()
        && engine.post_read(now, read, (), &mut Nothing).is_ok()
        && engine.post_atomic(now, atomic, (), &mut Nothing).is_ok();
    let budget = if posted { Budget::POST } else { Budget::PROGRESS };
    let progress = drive(engine, &mut Nowhere, &mut Nothing, now, budget);
    while engine.poll_send_completion().is_some() || engine.poll_recv_completion().is_some() {}
    progress
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
