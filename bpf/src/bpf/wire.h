/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * What the XDP program knows of the packet format, and of its maps.
 *
 * The constants repeat `ofi_xdp_core` (docs/PROTOCOL.md); `bpf/tests/layout.rs` holds them to it,
 * and the structures and the order of the verdicts to `bpf/src/maps.rs`.
 */
#ifndef OFI_XDP_WIRE_H
#define OFI_XDP_WIRE_H

#include <linux/types.h>

/* The version stands in the high nibble of the first payload byte. */
#define WIRE_VERSION 1
#define WIRE_VERSION_OFFSET 0
#define WIRE_VERSION_SHIFT 4
/* The common header: no packet is shorter. */
#define WIRE_PACKET_MIN 32

/* Most AF_XDP sockets on one interface at a time. */
#define SOCKETS_MAX 64
/* Most UDP ports redirected on one interface at a time: one for each socket. */
#define PORTS_MAX SOCKETS_MAX

/* Value of map `ports`, whose key is a UDP port in host byte order. */
struct port_entry {
	__u32 queue;       /* receive queue that the socket is bound to */
	__u32 slot;        /* the socket's place in map `sockets` */
	__u32 longest;     /* bytes of the longest IP packet for it: what is longer is a train */
	__u8 address[16];  /* the endpoint's IP address, IPv4 in its IPv4-mapped form */
};

/* Value of map `passed`, whose key is a slot: a cache line for each. */
struct passed_line {
	__u64 packets;   /* for the slot's endpoint that were left to its kernel socket */
	__u64 unused[7];
};

/* What became of one frame; keys of map `counters`. */
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
	VERDICTS,
};

#endif
