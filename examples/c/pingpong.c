/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A minimal libfabric client and server, call by call.
 *
 *     cc -O2 -Wall -o pingpong pingpong.c -lfabric
 *     host A $ ./pingpong xdp 198.18.0.1
 *     host B $ ./pingpong xdp 198.18.0.2 198.18.0.1
 *
 * The server's endpoint has a fixed port; the client's first message is its address. Each wait is
 * bounded by TIMEOUT_S.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define PORT "7470"
#define TAG 1
#define COUNT 10000
#define SIZE 64
#define TIMEOUT_S 30

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static struct fid_mr *mr;

/* One buffer for each direction, in one registered piece of memory, and one operation context
 * each. */
static struct {
	char incoming[SIZE];
	char outgoing[SIZE];
} memory;
static struct fi_context2 receive_context, send_context;
static void *descriptor;

/* Bytes in the incoming buffer, or -1; whether the outgoing buffer is still needed. */
static ssize_t received = -1;
static int sending;

static void check(const char *call, ssize_t code)
{
	if (code >= 0)
		return;
	fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-code));
	exit(1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Drives progress once, and records completions. Ends the program with an error at `deadline`. */
static void progress(double deadline)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	ssize_t count = fi_cq_read(cq, &entry, 1);

	if (count == 1) {
		if (entry.op_context == &receive_context)
			received = (ssize_t)entry.len;
		else
			sending = 0;
	} else if (count == -FI_EAVAIL) {
		check("fi_cq_readerr", fi_cq_readerr(cq, &error, 0));
		check("operation", -error.err);
	} else if (count != -FI_EAGAIN) {
		check("fi_cq_read", count);
	}
	if (seconds() > deadline) {
		fprintf(stderr, "nothing happened for %d s\n", TIMEOUT_S);
		exit(1);
	}
}

static void post_receive(void)
{
	check("fi_trecv", fi_trecv(ep, memory.incoming, SIZE, descriptor, FI_ADDR_UNSPEC, TAG, 0,
				   &receive_context));
}

/* Finds the provider, and opens an endpoint at a local address. */
static void open_endpoint(const char *provider, const char *local, const char *port)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .size = 2, .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { 0 };

	if (!hints)
		check("fi_allocinfo", -FI_ENOMEM);
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR |
				      FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(provider);
	check("fi_getinfo",
	      fi_getinfo(FI_VERSION(1, 17), local, port, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	printf("provider %s, domain %s\n", info->fabric_attr->prov_name, info->domain_attr->name);

	check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	check("fi_domain", fi_domain(fabric, info, &domain, NULL));
	check("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
	check("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
	if (info->domain_attr->mr_mode & FI_MR_LOCAL) {
		check("fi_mr_reg", fi_mr_reg(domain, &memory, sizeof(memory), FI_SEND | FI_RECV, 0,
					     0, 0, &mr, NULL));
		descriptor = fi_mr_desc(mr);
	}
	check("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
	check("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
	check("fi_enable", fi_enable(ep));
	post_receive();
}

/* Closes everything, the endpoint first: it is bound to the others. */
static void close_endpoint(void)
{
	check("fi_close", fi_close(&ep->fid));
	if (mr)
		check("fi_close", fi_close(&mr->fid));
	check("fi_close", fi_close(&av->fid));
	check("fi_close", fi_close(&cq->fid));
	check("fi_close", fi_close(&domain->fid));
	check("fi_close", fi_close(&fabric->fid));
	fi_freeinfo(info);
}

/* Waits until the last message has arrived. */
static void finish_send(void)
{
	double deadline = seconds() + TIMEOUT_S;

	while (sending)
		progress(deadline);
}

static void send_message(fi_addr_t peer, const void *message, size_t len)
{
	double deadline = seconds() + TIMEOUT_S;
	ssize_t code;

	finish_send();
	memcpy(memory.outgoing, message, len);
	do {
		code = fi_tsend(ep, memory.outgoing, len, descriptor, peer, TAG, &send_context);
		if (code == -FI_EAGAIN) /* no room: it comes with progress */
			progress(deadline);
	} while (code == -FI_EAGAIN);
	check("fi_tsend", code);
	sending = 1;
}

/* Waits for a message, copies it to `message`, posts the buffer again; returns the message's
 * length. */
static size_t receive_message(char message[SIZE])
{
	double deadline = seconds() + TIMEOUT_S;
	size_t len;

	while (received < 0)
		progress(deadline);
	len = (size_t)received;
	received = -1;
	memcpy(message, memory.incoming, len);
	post_receive();
	return len;
}

static fi_addr_t insert(const void *address)
{
	fi_addr_t peer;
	int count = fi_av_insert(av, address, 1, &peer, 0, NULL);

	check("fi_av_insert", count == 1 ? 0 : count < 0 ? count : -FI_EINVAL);
	return peer;
}

/* The server's address, from its name and the fixed port. */
static fi_addr_t insert_server(const char *server)
{
	struct fi_info *hints = fi_dupinfo(info), *found;
	fi_addr_t peer;

	free(hints->src_addr);
	hints->src_addr = NULL;
	hints->src_addrlen = 0;
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), server, PORT, 0, hints, &found));
	peer = insert(found->dest_addr);
	fi_freeinfo(found);
	fi_freeinfo(hints);
	return peer;
}

static void client(const char *server)
{
	fi_addr_t peer = insert_server(server);
	char message[SIZE] = { 0 };
	size_t len = sizeof(message);
	double start;

	/* The first message is this side's address, which the server does not have yet. */
	check("fi_getname", fi_getname(&ep->fid, message, &len));
	send_message(peer, message, len);
	receive_message(message);

	start = seconds();
	for (unsigned int number = 0; number < COUNT; number++) {
		send_message(peer, &number, sizeof(number));
		len = receive_message(message);
		if (len != sizeof(number) || memcmp(message, &number, len)) {
			fprintf(stderr, "the answer to %u is another\n", number);
			exit(1);
		}
	}
	printf("%d round trips, %.0f ns one way\n", COUNT, (seconds() - start) / COUNT / 2 * 1e9);
}

static void server(void)
{
	char message[SIZE] = { 0 };
	fi_addr_t peer;

	receive_message(message);
	peer = insert(message);
	send_message(peer, "welcome", strlen("welcome"));
	for (int number = 0; number < COUNT; number++) {
		size_t len = receive_message(message);

		send_message(peer, message, len);
	}
	printf("%d messages answered\n", COUNT);
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: %s PROVIDER LOCAL-ADDRESS [SERVER-ADDRESS]\n", argv[0]);
		return 1;
	}
	open_endpoint(argv[1], argv[2], argc == 3 ? PORT : NULL);
	if (argc == 4)
		client(argv[3]);
	else
		server();
	finish_send();
	close_endpoint();
	return 0;
}
