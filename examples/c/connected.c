/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client that connects to a server and writes to its memory, call by call.
 *
 *     cc -O2 -Wall -o connected connected.c -lfabric
 *     host A $ ./connected xdp 198.18.0.1
 *     host B $ ./connected xdp 198.18.0.2 198.18.0.1
 *
 * The server's first message describes its memory. The client writes there with remote CQ data, and
 * ends the connection. Each wait is bounded by TIMEOUT_MS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define PORT "7471"
#define DATA 0x0123456789abcdefULL
#define TIMEOUT_MS 30000

/* The server's memory, as it describes it. Both hosts have the same byte order. */
struct region {
	uint64_t key;
	uint64_t base;
};

/* Registered memory: the buffer that is written to or from, and the message. */
static struct {
	char written[64];
	struct region region;
} memory;

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_eq *eq;
static struct fid_pep *passive;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_mr *mr;
static struct fid_ep *ep;
static struct fi_context2 receive_context, send_context, write_context;

static void check(const char *call, ssize_t code)
{
	if (code >= 0)
		return;
	fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-code));
	exit(1);
}

/* An offer of a connected endpoint, at a local address; for the client also to a server. */
static void find(const char *provider, const char *local, const char *server)
{
	struct fi_info *hints = fi_allocinfo(), *source;

	if (!hints)
		check("fi_allocinfo", -FI_ENOMEM);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR |
				      FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), local, server ? NULL : PORT, FI_SOURCE,
				       hints, &info));
	if (server) {
		/* The source address of the offer is a hint for the offer to the server. */
		source = info;
		hints->src_addr = source->src_addr;
		hints->src_addrlen = source->src_addrlen;
		check("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), server, PORT, 0, hints, &info));
		hints->src_addr = NULL;
		hints->src_addrlen = 0;
		fi_freeinfo(source);
	}
	fi_freeinfo(hints);
	printf("provider %s, domain %s\n", info->fabric_attr->prov_name, info->domain_attr->name);
}

/* Waits for an event of connection management; returns the offer of a request. */
static struct fi_info *await_event(uint32_t wanted)
{
	struct fi_eq_cm_entry entry;
	struct fi_eq_err_entry error = { 0 };
	uint32_t event = 0;
	ssize_t len = fi_eq_sread(eq, &event, &entry, sizeof(entry), TIMEOUT_MS, 0);

	if (len == -FI_EAVAIL) {
		check("fi_eq_readerr", fi_eq_readerr(eq, &error, 0));
		check("connection", -error.err);
	}
	check("fi_eq_sread", len);
	if (event != wanted) {
		fprintf(stderr, "event %u, not %u\n", event, wanted);
		exit(1);
	}
	return entry.info;
}

static void open_fabric(void)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };

	check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	check("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, NULL));
}

/* An endpoint and what it needs, for an offer. */
static void open_endpoint(struct fi_info *offer)
{
	struct fi_cq_attr cq_attr = { .size = 4, .format = FI_CQ_FORMAT_DATA };

	check("fi_domain", fi_domain(fabric, offer, &domain, NULL));
	check("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
	check("fi_mr_reg", fi_mr_reg(domain, &memory, sizeof(memory),
				     FI_SEND | FI_RECV | FI_WRITE | FI_REMOTE_WRITE, 0, 1, 0, &mr,
				     NULL));
	check("fi_endpoint", fi_endpoint(domain, offer, &ep, NULL));
	check("fi_ep_bind", fi_ep_bind(ep, &eq->fid, 0));
	check("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	check("fi_enable", fi_enable(ep));
}

/* Drives progress until a completion has one of these flags, and returns it. Other completions are
 * not waited for. */
static struct fi_cq_data_entry await_completion(uint64_t flags)
{
	struct fi_cq_data_entry entry = { 0 };
	struct fi_cq_err_entry error = { 0 };
	time_t deadline = time(NULL) + TIMEOUT_MS / 1000;

	while (!(entry.flags & flags)) {
		ssize_t count = fi_cq_read(cq, &entry, 1);

		if (count == -FI_EAVAIL) {
			check("fi_cq_readerr", fi_cq_readerr(cq, &error, 0));
			check("operation", -error.err);
		}
		if (count != -FI_EAGAIN)
			check("fi_cq_read", count);
		if (time(NULL) > deadline)
			check("completion", -FI_ETIMEDOUT);
	}
	return entry;
}

static void server(void)
{
	struct fi_info *request;
	struct fi_cq_data_entry written;

	open_fabric();
	check("fi_passive_ep", fi_passive_ep(fabric, info, &passive, NULL));
	check("fi_pep_bind", fi_pep_bind(passive, &eq->fid, 0));
	check("fi_listen", fi_listen(passive));
	request = await_event(FI_CONNREQ);
	open_endpoint(request);
	check("fi_accept", fi_accept(ep, NULL, 0));
	await_event(FI_CONNECTED);

	memory.region.key = fi_mr_key(mr);
	memory.region.base = request->domain_attr->mr_mode & FI_MR_VIRT_ADDR ?
			     (uint64_t)(uintptr_t)memory.written : 0;
	fi_freeinfo(request);
	check("fi_send", fi_send(ep, &memory.region, sizeof(memory.region), fi_mr_desc(mr), 0,
				 &send_context));

	written = await_completion(FI_REMOTE_CQ_DATA);
	if (written.data != DATA) {
		fprintf(stderr, "remote CQ data %#llx\n", (unsigned long long)written.data);
		exit(1);
	}
	printf("written with data %#llx: %s\n", (unsigned long long)written.data, memory.written);
	await_event(FI_SHUTDOWN);
}

static void client(void)
{
	const char *text = "hello";
	size_t len = strlen(text);

	open_fabric();
	open_endpoint(info);
	check("fi_recv", fi_recv(ep, &memory.region, sizeof(memory.region), fi_mr_desc(mr), 0,
				 &receive_context));
	check("fi_connect", fi_connect(ep, info->dest_addr, NULL, 0));
	await_event(FI_CONNECTED);
	await_completion(FI_RECV);

	memcpy(memory.written, text, len);
	check("fi_writedata", fi_writedata(ep, memory.written, len, fi_mr_desc(mr), DATA, 0,
					   memory.region.base, memory.region.key, &write_context));
	await_completion(FI_WRITE);
	printf("%zu bytes written\n", len);
	check("fi_shutdown", fi_shutdown(ep, 0));
}

/* Closes everything, the endpoint first: it is bound to the others. */
static void close_all(void)
{
	check("fi_close", fi_close(&ep->fid));
	check("fi_close", fi_close(&mr->fid));
	check("fi_close", fi_close(&cq->fid));
	check("fi_close", fi_close(&domain->fid));
	if (passive)
		check("fi_close", fi_close(&passive->fid));
	check("fi_close", fi_close(&eq->fid));
	check("fi_close", fi_close(&fabric->fid));
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: %s PROVIDER LOCAL-ADDRESS [SERVER-ADDRESS]\n", argv[0]);
		return 1;
	}
	find(argv[1], argv[2], argc == 4 ? argv[3] : NULL);
	if (argc == 4)
		client();
	else
		server();
	close_all();
	return 0;
}
