// SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
/*
 * The XDP program: redirects packets of claimed UDP ports to the AF_XDP socket of their endpoint,
 * and leaves all other frames to the kernel.
 *
 * It runs for each frame that the interface receives, on the CPU that received it. It changes no
 * frame and drops none. A frame that is not wholly as expected is passed; if it was for the
 * endpoint, it reaches the kernel socket of the endpoint. Frames that the kernel would give to
 * another receiver, or drop for their addresses, are passed too. They are frames of another VLAN,
 * to another link-layer address, or from a source that no host may use. The kernel compares the
 * link-layer address in `eth_type_trans` (net/ethernet/eth.c). RFC 1122 §3.2.1.3 and RFC 4291
 * §2.5 list these sources; the kernel checks them in `ip_route_input_slow` (net/ipv4/route.c) and
 * `ip6_rcv_core` (net/ipv6/ip6_input.c). Bound: four headers, four helper calls, no loop.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "wire.h"

/* The VLAN id in the control field of an 802.1Q tag; 0 is a tag of priority alone. */
#define VLAN_ID 0x0fff

/* The bytes of an 802.1Q tag after the Ethernet addresses and its own EtherType. */
struct vlan_tag {
	__be16 control;
	__be16 ether_type;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PORTS_MAX);
	__type(key, __u16);
	__type(value, struct port_entry);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SOCKETS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICTS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/*
 * Endpoints map this array and read it without a system call. The count grows before the packet
 * reaches the kernel socket. The loader freezes the map, so no process can write it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SOCKETS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct kernel_rx_line);
} passed SEC(".maps");

/* The result of parsing the IP header. */
struct packet {
	struct udphdr *udp;
	__u32 source[4];  /* both addresses as in struct port_entry */
	__u32 address[4]; /* the destination */
	__u32 length;     /* of the IP packet in bytes, as its header says */
};

/*
 * Keeps the compiler from summing the lengths of headers in a register and adding the sum to a
 * pointer. A process without CAP_PERFMON may only load programs that add constants to packet
 * pointers (kernel/bpf/verifier.c, sanitize_ptr_alu).
 */
static __always_inline void *behind(void *at)
{
	asm volatile("" : "+r"(at));
	return at;
}

static __always_inline int is_mapped(const __u32 *address)
{
	return address[0] == 0 && address[1] == 0 && address[2] == bpf_htonl(0xffff);
}

/* Each parser returns the verdict, or VERDICTS if the next parser decides. */

static __always_inline enum verdict parse_ipv4(void *at, void *end, struct packet *packet)
{
	struct iphdr *ip = at;

	if ((void *)(ip + 1) > end)
		return PASS_TRUNCATED;
	if (ip->version != 4)
		return PASS_NOT_IP;
	if (ip->ihl != 5)
		return PASS_OPTIONS;
	if (ip->frag_off & bpf_htons(0x3fff)) /* more fragments, or an offset */
		return PASS_FRAGMENT;
	if (ip->protocol != IPPROTO_UDP)
		return PASS_NOT_UDP;
	packet->source[2] = bpf_htonl(0xffff);
	packet->source[3] = ip->saddr;
	packet->address[2] = bpf_htonl(0xffff);
	packet->address[3] = ip->daddr;
	packet->length = bpf_ntohs(ip->tot_len);
	packet->udp = behind(ip + 1);
	return VERDICTS;
}

static __always_inline enum verdict parse_ipv6(void *at, void *end, struct packet *packet)
{
	struct ipv6hdr *ip = at;

	if ((void *)(ip + 1) > end)
		return PASS_TRUNCATED;
	if (ip->version != 6)
		return PASS_NOT_IP;
	if (ip->nexthdr == IPPROTO_FRAGMENT)
		return PASS_FRAGMENT;
	if (ip->nexthdr == IPPROTO_HOPOPTS || ip->nexthdr == IPPROTO_ROUTING ||
	    ip->nexthdr == IPPROTO_DSTOPTS)
		return PASS_OPTIONS;
	if (ip->nexthdr != IPPROTO_UDP)
		return PASS_NOT_UDP;
	__builtin_memcpy(packet->source, &ip->saddr, sizeof(packet->source));
	__builtin_memcpy(packet->address, &ip->daddr, sizeof(packet->address));
	/* An IPv4-mapped address stands for an IPv4 packet, and never in an IPv6 header. */
	if (is_mapped(packet->source))
		return PASS_SOURCE;
	if (is_mapped(packet->address))
		return PASS_ADDRESS;
	packet->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
	packet->udp = behind(ip + 1);
	return VERDICTS;
}

static __always_inline enum verdict parse(struct xdp_md *ctx, struct packet *packet)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = data;
	void *network = ethernet + 1;
	__be16 type;

	if (network > end)
		return PASS_TRUNCATED;
	type = ethernet->h_proto;
	if (type == bpf_htons(ETH_P_8021Q)) {
		struct vlan_tag *tag = network;

		network = behind(tag + 1);
		if (network > end)
			return PASS_TRUNCATED;
		if (tag->control & bpf_htons(VLAN_ID))
			return PASS_VLAN;
		type = tag->ether_type;
	}
	if (type == bpf_htons(ETH_P_IP))
		return parse_ipv4(network, end, packet);
	if (type == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(network, end, packet);
	return PASS_NOT_IP;
}

/* Whether the frame is addressed to the interface alone: neither to a group nor to another one. */
static __always_inline int is_to_interface(struct xdp_md *ctx, const struct port_entry *entry)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ethernet = (void *)(long)ctx->data;
	const __u16 *to = (const __u16 *)ethernet->h_dest;

	return (void *)(ethernet + 1) <= end && to[0] == entry->mac[0] &&
	       to[1] == entry->mac[1] && to[2] == entry->mac[2];
}

/* Whether a packet from another host may have this source. */
static __always_inline int is_unicast_source(const struct packet *packet,
					     const struct port_entry *entry)
{
	const __u32 *source = packet->source;
	__u32 number = bpf_ntohl(source[3]);

	/* Both are of one family. */
	if (source[0] == packet->address[0] && source[1] == packet->address[1] &&
	    source[2] == packet->address[2] && source[3] == packet->address[3])
		return 0;
	if (!is_mapped(source))
		/* Multicast, ::, ::1. */
		return (source[0] & bpf_htonl(0xff000000)) != bpf_htonl(0xff000000) &&
		       (source[0] != 0 || source[1] != 0 || source[2] != 0 || number > 1);
	/* This network, loopback, multicast, both forms of broadcast. */
	return number >> 24 != 0 && number >> 24 != 127 && number >> 28 != 14 &&
	       number != 0xffffffff && source[3] != entry->broadcast;
}

/* The verdict, and the slot of the packet's endpoint, if there is one. */
static __always_inline enum verdict decide(struct xdp_md *ctx, __u32 *slot)
{
	void *end = (void *)(long)ctx->data_end;
	struct packet packet = {};
	struct port_entry *entry;
	enum verdict verdict;
	const __u32 *address;
	__u8 *payload;
	__u32 queue;
	__u8 further;
	__u16 port;

	verdict = parse(ctx, &packet);
	if (verdict != VERDICTS)
		return verdict;
	if ((void *)(packet.udp + 1) > end)
		return PASS_TRUNCATED;
	port = bpf_ntohs(packet.udp->dest);
	entry = bpf_map_lookup_elem(&ports, &port);
	if (!entry)
		return PASS_PORT;
	address = (const __u32 *)entry->address;
	if (address[0] != packet.address[0] || address[1] != packet.address[1] ||
	    address[2] != packet.address[2] || address[3] != packet.address[3])
		return PASS_ADDRESS;
	if (!is_to_interface(ctx, entry))
		return PASS_LINK;
	if (!is_unicast_source(&packet, entry))
		return PASS_SOURCE;
	*slot = entry->slot;
	/*
	 * A GSO batch (UDP_SEGMENT) that the sender's kernel left to the device crosses a virtual
	 * link in one piece. In generic mode it arrives as one frame. The kernel splits it for the
	 * endpoint's kernel socket. Senders make no shorter batches (xdp/src/udp/gso.rs). Only the
	 * first buffer of a frame lies between data and data_end, so the length is that of the IP
	 * header.
	 */
	if (packet.length > entry->longest)
		return PASS_OVERSIZE;
	if (!entry->any_payload) {
		payload = (__u8 *)(packet.udp + 1);
		if ((void *)(payload + WIRE_PACKET_MIN) > end)
			return PASS_TRUNCATED;
		if (payload[WIRE_VERSION_OFFSET] >> WIRE_VERSION_SHIFT != WIRE_VERSION)
			return PASS_VERSION;
		/* AF_XDP verifies no UDP checksum; the kernel does. */
		if (payload[WIRE_KIND_OFFSET] == WIRE_DATA &&
		    payload[WIRE_FLAGS_OFFSET] & WIRE_HEAD_CHECKSUM)
			return PASS_CHECKSUM;
	}
	/* A socket receives from its own queue only; a redirect from another queue drops. */
	queue = ctx->rx_queue_index;
	if (entry->queue != queue) {
		further = queue < QUEUES_MAX ? entry->further[queue & (QUEUES_MAX - 1)] : 0;
		if (!further)
			return PASS_QUEUE;
		*slot = further - 1;
	}
	return REDIRECTED;
}

static __always_inline int run(struct xdp_md *ctx)
{
	enum verdict verdict;
	int action = XDP_PASS;
	__u32 slot = SOCKETS_MAX;
	struct kernel_rx_line *line;
	__u64 *counter;
	__u32 key;

	verdict = decide(ctx, &slot);
	if (verdict == REDIRECTED) {
		action = bpf_redirect_map(&sockets, slot, XDP_PASS);
		/* The kernel has emptied the slot, because the socket is closed. */
		if (action != XDP_REDIRECT)
			verdict = PASS_NO_SOCKET;
	}
	if (verdict != REDIRECTED) {
		line = bpf_map_lookup_elem(&passed, &slot);
		if (line) {
			if (verdict == PASS_QUEUE)
				__sync_fetch_and_add(&line->other_queue, 1);
			__sync_fetch_and_add(&line->packets, 1);
		}
	}
	key = verdict;
	counter = bpf_map_lookup_elem(&counters, &key);
	if (counter)
		*counter += 1;
	return action;
}

SEC("xdp")
int ofi_xdp(struct xdp_md *ctx)
{
	return run(ctx);
}

/*
 * This program is loaded in place of ofi_xdp by a process that passes its sockets on. The name
 * tells processes that join it not to prolong its life (redirect.rs).
 */
SEC("xdp")
int ofi_xdp_lent(struct xdp_md *ctx)
{
	return run(ctx);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
