/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The parts of the packet format that the XDP program reads, and its maps.
 *
 * The constants repeat `ofi_xdp_core` (docs/PROTOCOL.md). `bpf/tests/layout.rs` compares them, and
 * compares the structures and the order of the verdicts with `bpf/src/layout.rs`.
 */
#ifndef OFI_XDP_WIRE_H
#define OFI_XDP_WIRE_H

#include <linux/types.h>

/* The version stands in the high nibble of the first payload byte. */
#define WIRE_VERSION 2
#define WIRE_VERSION_OFFSET 0
#define WIRE_VERSION_SHIFT 4
/* A packet of records, and its flag that leaves the payload to the UDP checksum. */
#define WIRE_KIND_OFFSET 1
#define WIRE_DATA 0x10
#define WIRE_FLAGS_OFFSET 2
#define WIRE_HEAD_CHECKSUM 0x20
/* The common header: no packet is shorter. */
#define WIRE_PACKET_MIN 32

/* Maximum number of AF_XDP sockets on one interface. */
#define SOCKETS_MAX 64
/* Further sockets of an endpoint are on queues below this number, a power of two. */
#define QUEUES_MAX 64
/* Maximum number of redirected UDP ports on one interface: one for each socket. */
#define PORTS_MAX SOCKETS_MAX

/* Value of map `ports`; the key is a UDP port in host byte order. */
struct port_entry {
	__u32 queue;       /* receive queue of the first socket */
	__u32 slot;        /* index of the first socket in map `sockets` */
	__u32 longest;     /* bytes of its longest IP packet; a longer one is a GSO batch */
	__u32 broadcast;   /* directed broadcast address of its IPv4 network; else 0 */
	__u8 address[16];  /* the endpoint's IP address, IPv4 in its IPv4-mapped form */
	__u16 mac[3];      /* the interface's link-layer address, as in the frame */
	__u16 any_payload; /* 1: datagrams of an application; their bytes are not looked at */
	__u8 further[QUEUES_MAX]; /* by queue: 1 + the slot of a further socket; 0: none */
};

/* Value of map `passed`, one cache line; the key is a slot. */
struct kernel_rx_line {
	__u64 packets;     /* packets of the slot's endpoint left to its kernel socket */
	__u64 other_queue; /* of these, packets of another queue than the endpoint's */
	__u64 unused[6];
};

/* The decision about one frame; keys of map `counters`. */
enum verdict {
	REDIRECTED,
	PASS_NOT_IP,
	PASS_OPTIONS,
	PASS_FRAGMENT,
	PASS_NOT_UDP,
	PASS_TRUNCATED,
	PASS_PORT,
	PASS_ADDRESS,
	PASS_OVERSIZE,
	PASS_VERSION,
	PASS_QUEUE,
	PASS_NO_SOCKET,
	PASS_VLAN,
	PASS_LINK,
	PASS_SOURCE,
	PASS_CHECKSUM,
	VERDICTS,
};

#endif
