// SPDX-License-Identifier: MIT OR Apache-2.0
// fi_getinfo(3) through the real library: hints in, offer or -FI_ENODATA out.

#include <dlfcn.h>

#include "common.h"

// One change of the hints, and its required result.
struct row {
	const char *name;
	void (*change)(struct fi_info *hints);
	int error;
	int (*holds)(const struct fi_info *info);
};

static void plain(struct fi_info *h) { (void)h; }
static int all(const struct fi_info *i)
{
	return (i->caps & (FI_MSG | FI_TAGGED)) == (FI_MSG | FI_TAGGED) && i->mode == 0 &&
	       i->addr_format == FI_SOCKADDR_IN && i->src_addrlen == 16 &&
	       i->domain_attr->mr_mode == 0 && i->ep_attr->max_msg_size >= 1u << 30 &&
	       i->domain_attr->cq_data_size == 8 && i->tx_attr->inject_size >= 192 &&
	       i->tx_attr->iov_limit >= 4 && i->rx_attr->iov_limit >= 4 &&
	       !strcmp(i->fabric_attr->prov_name, "xdp") && !strcmp(i->domain_attr->name, "lo") &&
	       i->domain_attr->max_ep_tx_ctx == 1 && i->domain_attr->max_ep_rx_ctx == 1;
}

static void tagged(struct fi_info *h) { h->caps = FI_TAGGED | FI_DIRECTED_RECV; }
static int only_tagged(const struct fi_info *i)
{
	return (i->caps & FI_TAGGED) && !(i->caps & FI_MSG) && (i->caps & FI_DIRECTED_RECV) &&
	       (i->caps & FI_SEND) && (i->caps & FI_RECV) && !(i->caps & FI_SOURCE);
}

static void rma(struct fi_info *h) { h->caps = FI_MSG | FI_RMA; }
static int with_rma(const struct fi_info *i)
{
	uint64_t directions = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	return (i->caps & directions) == directions && !(i->caps & (FI_ATOMIC | FI_TAGGED)) &&
	       i->tx_attr->rma_iov_limit >= 1 && i->domain_attr->mr_key_size == 8;
}
static int enough_counters(const struct fi_info *i) { return i->domain_attr->cntr_cnt >= 1; }
static void hmem(struct fi_info *h) { h->caps = FI_MSG | FI_HMEM; }
static void every_mr_mode(struct fi_info *h)
{
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				  FI_MR_ENDPOINT;
}
static int no_mr_mode(const struct fi_info *i) { return i->domain_attr->mr_mode == 0; }

// The hints of well-known applications.
static void mpich(struct fi_info *h)
{
	uint64_t order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
			 FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV;
	h->mode = FI_CONTEXT | FI_ASYNC_IOV | FI_RX_CQ_DATA | FI_CONTEXT2;
	h->domain_attr->mode = FI_RESTRICTED_COMP;
	h->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_HMEM;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->control_progress = h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->av_type = FI_AV_TABLE;
	h->domain_attr->cq_data_size = 4;
	h->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	h->rx_attr->op_flags = FI_COMPLETION;
	h->tx_attr->msg_order = h->rx_attr->msg_order = order;
}
static int mpich_takes(const struct fi_info *i)
{
	return i->domain_attr->threading == FI_THREAD_DOMAIN && i->mode == 0 &&
	       i->domain_attr->mr_mode == 0 && i->domain_attr->av_type == FI_AV_TABLE &&
	       i->domain_attr->max_ep_tx_ctx == 1 && i->domain_attr->cq_data_size >= 4;
}
static void openshmem(struct fi_info *h)
{
	h->caps = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_FENCE;
	h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->threading = FI_THREAD_COMPLETION;
	h->domain_attr->mr_key_size = 1;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	h->tx_attr->inject_size = 16;
}
static int openshmem_takes(const struct fi_info *i)
{
	return i->mode == 0 && i->tx_attr->inject_size >= 16 && i->ep_attr->max_msg_size > 0 &&
	       i->domain_attr->data_progress == FI_PROGRESS_AUTO && (i->caps & FI_RMA_EVENT);
}
static void nixl(struct fi_info *h)
{
	h->caps = FI_MSG | FI_RMA | FI_LOCAL_COMM | FI_REMOTE_COMM;
	h->mode = FI_CONTEXT;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED;
	h->domain_attr->threading = FI_THREAD_COMPLETION;
	h->domain_attr->name = strdup("lo");
}
static void mxl(struct fi_info *h)
{
	h->caps = FI_RMA | FI_REMOTE_WRITE;
	h->domain_attr->mr_mode =
		FI_MR_VIRT_ADDR | FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->addr_format = FI_SOCKADDR_IN;
}
static int target_only(const struct fi_info *i)
{
	uint64_t directions = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	return (i->caps & directions) == FI_REMOTE_WRITE && !(i->tx_attr->caps & FI_WRITE) &&
	       (i->rx_attr->caps & FI_REMOTE_WRITE);
}

static void thread_domain(struct fi_info *h) { h->domain_attr->threading = FI_THREAD_DOMAIN; }
static int thread_domain_back(const struct fi_info *i)
{
	return i->domain_attr->threading == FI_THREAD_DOMAIN;
}

static void auto_progress(struct fi_info *h)
{
	h->domain_attr->data_progress = FI_PROGRESS_AUTO;
	h->domain_attr->control_progress = FI_PROGRESS_AUTO;
}
static int auto_back(const struct fi_info *i)
{
	return i->domain_attr->data_progress == FI_PROGRESS_AUTO;
}

static void big_queues(struct fi_info *h) { h->tx_attr->size = h->rx_attr->size = 65536; }
static int big_back(const struct fi_info *i)
{
	return i->tx_attr->size == 65536 && i->rx_attr->size == 65536;
}
static void bigger_queues(struct fi_info *h) { h->tx_attr->size = 65537; }

static void order(struct fi_info *h) { h->tx_attr->msg_order = FI_ORDER_SAS; }
static int order_back(const struct fi_info *i)
{
	return (i->tx_attr->msg_order & FI_ORDER_SAS) && (i->rx_attr->msg_order & FI_ORDER_SAS);
}
static void strict(struct fi_info *h) { h->tx_attr->msg_order = FI_ORDER_STRICT; }
static int strict_back(const struct fi_info *i)
{
	return (i->tx_attr->msg_order & FI_ORDER_STRICT) == FI_ORDER_STRICT;
}
static int no_order(const struct fi_info *i)
{
	return i->tx_attr->msg_order == FI_ORDER_SAS && i->rx_attr->msg_order == FI_ORDER_SAS;
}
static void no_such_order(struct fi_info *h) { h->tx_attr->msg_order = 1ull << 60; }
static void msg(struct fi_info *h) { h->ep_attr->type = FI_EP_MSG; }
static int connected(const struct fi_info *i)
{
	return i->ep_attr->type == FI_EP_MSG && !(i->caps & (FI_SOURCE | FI_DIRECTED_RECV));
}
static void dgram(struct fi_info *h) { h->ep_attr->type = FI_EP_DGRAM; }
static int datagrams(const struct fi_info *i)
{
	return i->ep_attr->type == FI_EP_DGRAM && !(i->caps & (FI_TAGGED | FI_RMA | FI_ATOMIC));
}
static void protocol(struct fi_info *h) { h->ep_attr->protocol = FI_PROTO_UDP; }
static void long_message(struct fi_info *h) { h->ep_attr->max_msg_size = SIZE_MAX; }
static void shared_context(struct fi_info *h)
{
	h->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
}
static int shared_back(const struct fi_info *i)
{
	return i->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT &&
	       i->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT &&
	       i->domain_attr->max_ep_stx_ctx && i->domain_attr->max_ep_srx_ctx;
}
static void auth_key(struct fi_info *h) { h->ep_attr->auth_key_size = 4; }
static void long_inject(struct fi_info *h) { h->tx_attr->inject_size = 1 << 20; }
static void long_iov(struct fi_info *h) { h->rx_attr->iov_limit = 64; }
static void buffered(struct fi_info *h) { h->rx_attr->total_buffered_recv = 1; }
static void counters(struct fi_info *h) { h->domain_attr->cntr_cnt = 1; }
static void cq_data(struct fi_info *h) { h->domain_attr->cq_data_size = 16; }
static void other_domain(struct fi_info *h) { h->domain_attr->name = strdup("no-such-domain"); }
static void other_fabric(struct fi_info *h) { h->fabric_attr->name = strdup("10.9.8.0/24"); }
static void infiniband(struct fi_info *h) { h->addr_format = FI_SOCKADDR_IB; }
static void any_sockaddr(struct fi_info *h) { h->addr_format = FI_SOCKADDR; }
static int concrete(const struct fi_info *i) { return i->addr_format == FI_SOCKADDR_IN; }

static const struct row rows[] = {
	{"plain", plain, 0, all},
	{"tagged", tagged, 0, only_tagged},
	{"rma", rma, 0, with_rma},
	{"hmem", hmem, FI_ENODATA, NULL},
	{"MPICH", mpich, 0, mpich_takes},
	{"OpenSHMEM", openshmem, 0, openshmem_takes},
	{"NIXL", nixl, 0, no_mr_mode},
	{"MXL target", mxl, 0, target_only},
	{"every mr_mode offered", every_mr_mode, 0, no_mr_mode},
	{"FI_THREAD_DOMAIN", thread_domain, 0, thread_domain_back},
	{"FI_PROGRESS_AUTO", auto_progress, 0, auto_back},
	{"big queues", big_queues, 0, big_back},
	{"queues too big", bigger_queues, FI_ENODATA, NULL},
	{"FI_ORDER_SAS", order, 0, order_back},
	{"FI_ORDER_STRICT", strict, 0, strict_back},
	{"no order", plain, 0, no_order},
	{"no such order", no_such_order, FI_ENODATA, NULL},
	{"FI_EP_MSG", msg, 0, connected},
	{"FI_EP_DGRAM", dgram, 0, datagrams},
	{"other protocol", protocol, FI_ENODATA, NULL},
	{"message too long", long_message, FI_ENODATA, NULL},
	{"FI_SHARED_CONTEXT", shared_context, 0, shared_back},
	{"auth key", auth_key, FI_ENODATA, NULL},
	{"inject too long", long_inject, FI_ENODATA, NULL},
	{"iov too long", long_iov, FI_ENODATA, NULL},
	{"total_buffered_recv", buffered, FI_ENODATA, NULL},
	{"counters", counters, 0, enough_counters},
	{"cq_data_size too large", cq_data, FI_ENODATA, NULL},
	{"other domain", other_domain, FI_ENODATA, NULL},
	{"other fabric", other_fabric, FI_ENODATA, NULL},
	{"FI_SOCKADDR_IB", infiniband, FI_ENODATA, NULL},
	{"FI_SOCKADDR", any_sockaddr, 0, concrete},
};

static void table(void)
{
	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		struct fi_info *hints = hints_for_us(), *info = NULL;
		rows[n].change(hints);
		int got = fi_getinfo(VERSION, "127.0.0.1", NULL, FI_SOURCE, hints, &info);
		int holds = got == -rows[n].error && (got || rows[n].holds(info));
		printf("%-24s %s\n", rows[n].name, holds ? "ok" : "WRONG");
		if (!holds)
			printf("%s\n", info ? fi_tostr(info, FI_TYPE_INFO) : fi_strerror(-got));
		failures += !holds;
		// Memory shared by the hints, the offer and the library must be freed once.
		struct fi_info *copy = info ? fi_dupinfo(info) : NULL;
		fi_freeinfo(info);
		fi_freeinfo(copy);
		fi_freeinfo(hints);
	}
}

static void addresses(void)
{
	struct fi_info *hints = hints_for_us(), *info = NULL;
	// A destination selects the interface that leads to it.
	MUST(fi_getinfo(VERSION, "127.0.0.1", "7471", FI_NUMERICHOST, hints, &info));
	CHECK(!strcmp(info->domain_attr->name, "lo"));
	CHECK(info->dest_addrlen == 16 && info->src_addrlen == 16 && info->next == NULL);
	fi_freeinfo(info);
	// The service of a passive side is its port.
	MUST(fi_getinfo(VERSION, NULL, "7471", FI_SOURCE, hints, &info));
	const unsigned char *port = (const unsigned char *)info->src_addr + 2;
	CHECK(port[0] == 7471 >> 8 && port[1] == (7471 & 0xff));
	CHECK(info->dest_addr == NULL);
	fi_freeinfo(info);
	// By hints alone.
	hints->addr_format = FI_SOCKADDR_IN;
	hints->src_addr = calloc(1, 16);
	hints->src_addrlen = 16;
	memcpy(hints->src_addr, "\x02\x00\x1d\x2f\x7f\x00\x00\x01", 8);
	MUST(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info));
	CHECK(!memcmp(info->src_addr, hints->src_addr, 8) && info->next == NULL);
	fi_freeinfo(info);
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, "no.such.host.invalid", NULL, 0, hints, &info));
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, "127.0.0.1", "no-such-service", 0, hints, &info));
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, "203.0.113.9", NULL, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
}

// Hints that name an open fabric or domain: only offers on it, and none if it is not ours.
static void open_objects(void)
{
	struct fi_info *hints = hints_for_us(), *info = NULL, *found = NULL;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_ops foreign_ops = {.size = sizeof(foreign_ops)};
	struct fid_domain foreign = {.fid = {.fclass = FI_CLASS_DOMAIN, .ops = &foreign_ops}};
	MUST(fi_getinfo(VERSION, "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	hints->fabric_attr->fabric = fabric;
	hints->domain_attr->domain = domain;
	EXPECT(0, fi_getinfo(VERSION, NULL, NULL, 0, hints, &found));
	CHECK(found->next == NULL && !strcmp(found->domain_attr->name, "lo"));
	CHECK(!memcmp(found->src_addr, info->src_addr, 8));
	fi_freeinfo(found);
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, "::1", NULL, FI_SOURCE, hints, &found));
	hints->domain_attr->domain = &foreign;
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, NULL, NULL, 0, hints, &found));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

// The fabric and the domain in the first offer to these hints.
static void expect_open(uint32_t version, struct fi_info *hints, struct fid_fabric *fabric,
		 struct fid_domain *domain)
{
	struct fi_info *found = NULL;
	EXPECT(0, fi_getinfo(version, "127.0.0.1", NULL, FI_SOURCE, hints, &found));
	CHECK(found && found->fabric_attr->fabric == fabric && found->domain_attr->domain == domain);
	fi_freeinfo(found);
}

// Open objects are reported, the first of a name, unless the hints name one.
static void instances(void)
{
	struct fi_info *hints = hints_for_us(), *info = NULL;
	struct fid_fabric *fabrics[2];
	struct fid_domain *domains[3];
	MUST(fi_getinfo(VERSION, "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	expect_open(VERSION, hints, NULL, NULL);
	MUST(fi_fabric(info->fabric_attr, &fabrics[0], NULL));
	expect_open(VERSION, hints, fabrics[0], NULL);
	MUST(fi_fabric(info->fabric_attr, &fabrics[1], NULL));
	MUST(fi_domain(fabrics[1], info, &domains[2], NULL));
	expect_open(VERSION, hints, fabrics[0], NULL);
	MUST(fi_domain(fabrics[0], info, &domains[0], NULL));
	MUST(fi_domain(fabrics[0], info, &domains[1], NULL));
	expect_open(VERSION, hints, fabrics[0], domains[0]);
	// Hints that name a domain find its fabric; hints that name a fabric find its first domain.
	hints->domain_attr->domain = domains[1];
	expect_open(VERSION, hints, fabrics[0], domains[1]);
	hints->fabric_attr->fabric = fabrics[0];
	expect_open(VERSION, hints, fabrics[0], domains[1]);
	hints->domain_attr->domain = NULL;
	hints->fabric_attr->fabric = fabrics[1];
	expect_open(VERSION, hints, fabrics[1], domains[2]);
	hints->fabric_attr->fabric = NULL;
	// Refused: other keys, structures of another length.
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	expect_open(VERSION, hints, fabrics[0], NULL);
	hints->domain_attr->mr_mode = 0;
	expect_open(FI_VERSION(1, 5), hints, NULL, NULL);
	// On another network.
	struct fi_info *found = NULL;
	if (!fi_getinfo(VERSION, "::1", NULL, FI_SOURCE, hints, &found))
		CHECK(!found->fabric_attr->fabric && !found->domain_attr->domain);
	fi_freeinfo(found);
	found = NULL;
	// A domain is no fabric.
	hints->fabric_attr->fabric = (struct fid_fabric *)domains[0];
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, "127.0.0.1", NULL, FI_SOURCE, hints, &found));
	hints->fabric_attr->fabric = NULL;
	// Closed objects are not reported, and hints that name one have no offer.
	hints->domain_attr->domain = domains[0];
	EXPECT(0, fi_close(&domains[0]->fid));
	EXPECT(FI_ENODATA, fi_getinfo(VERSION, "127.0.0.1", NULL, FI_SOURCE, hints, &found));
	hints->domain_attr->domain = NULL;
	expect_open(VERSION, hints, fabrics[0], domains[1]);
	EXPECT(0, fi_close(&domains[1]->fid));
	EXPECT(0, fi_close(&fabrics[0]->fid));
	expect_open(VERSION, hints, fabrics[1], domains[2]);
	EXPECT(0, fi_close(&domains[2]->fid));
	EXPECT(0, fi_close(&fabrics[1]->fid));
	expect_open(VERSION, hints, NULL, NULL);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void versions(void)
{
	struct fi_info *hints = hints_for_us(), *info = NULL;
	uint32_t ours = FI_VERSION(1, 0), newest = fi_version();
	for (; ours <= newest; ours = ours == FI_VERSION(1, 22) ? FI_VERSION(2, 0) : ours + 1) {
		EXPECT(0, fi_getinfo(ours, NULL, NULL, 0, hints, &info));
		fi_freeinfo(info);
		info = NULL;
	}
	fi_freeinfo(hints);
}

// Members that libfabric appended after the headers here. They are requested by the running
// library's own functions, as a newer application does.
static void newer_members(void)
{
	struct fi_info *(*dup)(const struct fi_info *);
	int (*ask)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		   struct fi_info **);
	*(void **)&dup = dlsym(RTLD_DEFAULT, "fi_dupinfo");
	*(void **)&ask = dlsym(RTLD_DEFAULT, "fi_getinfo");
	uint32_t version = fi_version();
	struct fi_info *plain = hints_for_us(), *hints = dup(plain), *info = NULL;
	// The part of struct fi_domain_attr behind tclass, which the headers here may not have.
	size_t *max_ep_auth_key = (size_t *)((char *)hints->domain_attr + 192); // 1.20
	uint32_t *max_group_id = (uint32_t *)((char *)hints->domain_attr + 200); // 2.0
	EXPECT(0, ask(version, NULL, NULL, 0, hints, &info));
	fi_freeinfo(info);
	if (version >= FI_VERSION(1, 20)) {
		*max_ep_auth_key = 1;
		EXPECT(FI_ENODATA, ask(version, NULL, NULL, 0, hints, &info));
		*max_ep_auth_key = 0;
	}
	if (version >= FI_VERSION(2, 0)) {
		*max_group_id = 1;
		EXPECT(FI_ENODATA, ask(version, NULL, NULL, 0, hints, &info));
		*max_group_id = 0;
	}
	EXPECT(0, ask(version, NULL, NULL, 0, hints, &info));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	fi_freeinfo(plain);
}

int main(void)
{
	table();
	newer_members();
	addresses();
	open_objects();
	instances();
	versions();
	return test_status("getinfo");
}
