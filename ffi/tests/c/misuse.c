// SPDX-License-Identifier: MIT OR Apache-2.0
// Mistakes of applications: each gets an error, none a crash.

#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common.h"

static void null_arguments(struct pair *p)
{
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fi_cq_attr cq_attr = {0};
	EXPECT(FI_EINVAL, fi_domain(p->fabric, NULL, &domain, NULL));
	EXPECT(FI_EINVAL, fi_domain(p->fabric, p->info, NULL, NULL));
	EXPECT(FI_EINVAL, fi_endpoint(p->domain, NULL, &ep, NULL));
	EXPECT(FI_EINVAL, fi_endpoint(p->domain, p->info, NULL, NULL));
	EXPECT(FI_EINVAL, fi_av_open(p->domain, NULL, &av, NULL));
	EXPECT(FI_EINVAL, fi_cq_open(p->domain, &cq_attr, NULL, NULL));
	EXPECT(0, fi_cq_open(p->domain, NULL, &cq, NULL));
	EXPECT(0, fi_close(&cq->fid));
	EXPECT(FI_EINVAL, fi_ep_bind(p->ep[0], NULL, 0));
	EXPECT(FI_EINVAL, fi_getname(&p->ep[0]->fid, NULL, NULL));
	EXPECT(FI_EINVAL, fi_cq_read(p->cq[0], NULL, 1));
	EXPECT(FI_EINVAL, fi_cq_readerr(p->cq[0], NULL, 0));
	EXPECT(FI_EINVAL, fi_sendmsg(p->ep[0], NULL, 0));
	EXPECT(FI_EINVAL, fi_trecvmsg(p->ep[0], NULL, 0));
	EXPECT(FI_EINVAL, fi_send(p->ep[0], NULL, 8, NULL, p->addr[1], NULL));
	EXPECT(FI_EINVAL, fi_sendv(p->ep[0], NULL, NULL, 2, p->addr[1], NULL));
	EXPECT(FI_EINVAL, fi_av_insert(p->av, NULL, 1, NULL, 0, NULL));
	EXPECT(FI_EINVAL, fi_av_remove(p->av, NULL, 1, 0));
	CHECK(fi_av_straddr(p->av, NULL, NULL, NULL) == NULL);
}

static void wrong_class(struct pair *p)
{
	struct fid_ep *ep;
	MUST(fi_endpoint(p->domain, p->info, &ep, NULL));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &p->domain->fid, 0));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &p->fabric->fid, 0));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &p->ep[0]->fid, 0));
	// A foreign object: its class is AV, its table is not ours.
	struct fi_ops foreign_ops = {.size = sizeof(foreign_ops)};
	struct fid_av foreign = {.fid = {.fclass = FI_CLASS_AV, .ops = &foreign_ops}};
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &foreign.fid, 0));
	// A table called with an object of another class.
	EXPECT(FI_EINVAL, p->ep[0]->msg->send((struct fid_ep *)p->cq[0], "x", 1, NULL, 0, NULL));
	EXPECT(FI_EINVAL, p->cq[0]->ops->read((struct fid_cq *)p->ep[0], NULL, 0));
	EXPECT(FI_EINVAL, p->cq[0]->fid.ops->close(&p->av->fid));
	struct fid *list[] = {&p->domain->fid};
	EXPECT(FI_EINVAL, fi_trywait(p->fabric, list, 1));
	EXPECT(0, fi_close(&ep->fid));
}

static void wrong_state(struct pair *p)
{
	struct fid_ep *ep;
	char byte = 0;
	MUST(fi_endpoint(p->domain, p->info, &ep, NULL));
	EXPECT(FI_EOPBADSTATE, fi_send(ep, &byte, 1, NULL, p->addr[0], NULL));
	EXPECT(FI_EOPBADSTATE, fi_trecv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
	EXPECT(FI_ENOAV, fi_enable(ep));
	EXPECT(0, fi_ep_bind(ep, &p->av->fid, 0));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &p->av->fid, 0));
	EXPECT(FI_ENOCQ, fi_enable(ep));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &p->cq[0]->fid, 0));
	EXPECT(FI_EBADFLAGS, fi_ep_bind(ep, &p->cq[0]->fid, FI_TRANSMIT | FI_READ));
	EXPECT(0, fi_ep_bind(ep, &p->cq[0]->fid, FI_TRANSMIT));
	EXPECT(FI_ENOCQ, fi_enable(ep));
	EXPECT(0, fi_ep_bind(ep, &p->cq[1]->fid, FI_RECV));
	EXPECT(0, fi_enable(ep));
	EXPECT(FI_EOPBADSTATE, fi_enable(ep));
	EXPECT(FI_EOPBADSTATE, fi_ep_bind(ep, &p->cq[0]->fid, FI_RECV));
	EXPECT(0, fi_close(&ep->fid));
}

// An alias is the same endpoint with other default flags.
static void alias(struct pair *p)
{
	struct fid_ep *other = NULL, *third = NULL;
	struct fi_cq_entry entry;
	uint64_t flags = FI_TRANSMIT;
	char byte = 1, name[64], own[64];
	size_t len = sizeof(name), own_len = sizeof(own);
	EXPECT(FI_EINVAL, fi_ep_alias(p->ep[0], &other, FI_COMPLETION));
	EXPECT(FI_EINVAL, fi_ep_alias(p->ep[0], &other, FI_TRANSMIT | FI_RECV));
	EXPECT(FI_EBADFLAGS, fi_ep_alias(p->ep[0], &other, FI_TRANSMIT | FI_PEEK));
	EXPECT(FI_EINVAL, fi_control(&p->ep[0]->fid, FI_ALIAS, NULL));
	EXPECT(FI_ENOSYS, fi_control(&p->cq[0]->fid, FI_ALIAS,
				     &(struct fi_alias){(struct fid **)&other, FI_TRANSMIT}));
	EXPECT(0, fi_ep_alias(p->ep[0], &other, FI_TRANSMIT | FI_DELIVERY_COMPLETE));
	EXPECT(0, fi_control(&other->fid, FI_GETOPSFLAG, &flags));
	CHECK(flags == FI_DELIVERY_COMPLETE);
	flags = FI_TRANSMIT;
	EXPECT(0, fi_control(&p->ep[0]->fid, FI_GETOPSFLAG, &flags));
	CHECK(flags == 0);
	flags = FI_TRANSMIT | FI_PEEK;
	EXPECT(FI_EBADFLAGS, fi_control(&other->fid, FI_SETOPSFLAG, &flags));
	EXPECT(0, fi_ep_alias(other, &third, FI_RECV));
	EXPECT(0, fi_getname(&other->fid, name, &len));
	EXPECT(0, fi_getname(&p->ep[0]->fid, own, &own_len));
	CHECK(len == own_len && !memcmp(name, own, len));
	EXPECT(FI_EINVAL, fi_ep_bind(other, &p->cq[0]->fid, FI_TRANSMIT));
	EXPECT(FI_EOPBADSTATE, fi_enable(other));
	EXPECT(FI_EBUSY, fi_close(&p->ep[0]->fid));
	MUST(fi_recv(p->ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	MUST(fi_send(other, &byte, 1, NULL, p->addr[1], NULL));
	CHECK(next(p, 1, &entry, NULL) == 1);
	CHECK(next(p, 0, &entry, NULL) == 1);
	EXPECT(0, fi_close(&other->fid));
	EXPECT(0, fi_close(&third->fid));
}

// A domain has one event queue.
static void domain_events(struct pair *p)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq, *foreign;
	MUST(fi_fabric(p->info->fabric_attr, &fabric, NULL));
	MUST(fi_eq_open(fabric, &attr, &foreign, NULL));
	MUST(fi_eq_open(p->fabric, &attr, &eq, NULL));
	MUST(fi_domain(p->fabric, p->info, &domain, NULL));
	EXPECT(FI_EINVAL, fi_domain_bind(domain, NULL, 0));
	EXPECT(FI_EINVAL, fi_domain_bind(domain, &p->cq[0]->fid, 0));
	EXPECT(FI_EINVAL, fi_domain_bind(domain, &foreign->fid, 0));
	EXPECT(FI_EBADFLAGS, fi_domain_bind(domain, &eq->fid, FI_PEEK));
	EXPECT(0, fi_domain_bind(domain, &eq->fid, FI_REG_MR));
	EXPECT(FI_EINVAL, fi_domain_bind(domain, &eq->fid, 0));
	EXPECT(FI_EBUSY, fi_close(&eq->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&eq->fid));
	EXPECT(0, fi_close(&foreign->fid));
	EXPECT(0, fi_close(&fabric->fid));
}

static void busy(struct pair *p)
{
	EXPECT(FI_EBUSY, fi_close(&p->fabric->fid));
	EXPECT(FI_EBUSY, fi_close(&p->domain->fid));
	EXPECT(FI_EBUSY, fi_close(&p->av->fid));
	EXPECT(FI_EBUSY, fi_close(&p->cq[0]->fid));
}

static void bad_addresses(struct pair *p)
{
	char byte = 0;
	fi_addr_t bad[] = {77, FI_ADDR_UNSPEC};
	char name[64] = {0};
	size_t len = sizeof(name);
	for (int i = 0; i < 2; i++) {
		EXPECT(FI_EINVAL, fi_send(p->ep[0], &byte, 1, NULL, bad[i], NULL));
		EXPECT(FI_EINVAL, fi_av_remove(p->av, &bad[i], 1, 0));
		EXPECT(FI_EINVAL, fi_av_lookup(p->av, bad[i], name, &len));
	}
	// An address without a family, and an IPv6 address in a vector of IPv4.
	fi_addr_t got = 5;
	int error = 0;
	CHECK(fi_av_insert(p->av, name, 1, &got, FI_SYNC_ERR, &error) == 0);
	CHECK(got == FI_ADDR_NOTAVAIL && error == FI_EINVAL);
	name[0] = 10;
	CHECK(fi_av_insert(p->av, name, 1, &got, 0, NULL) == 0);
	EXPECT(FI_EBADFLAGS, fi_av_insert(p->av, name, 1, &got, FI_AV_USER_ID, NULL));
	EXPECT(FI_ENODATA, fi_av_insertsvc(p->av, "no.such.host.invalid", "1", &got, 0, NULL));
	len = 3;
	EXPECT(FI_ETOOSMALL, fi_getname(&p->ep[0]->fid, name, &len));
	CHECK(len == 16);
}

static void bad_sizes(struct pair *p)
{
	static char big[1 << 16];
	struct iovec iov[5] = {{big, 1}, {big, 1}, {big, 1}, {big, 1}, {big, 1}};
	EXPECT(FI_EINVAL, fi_sendv(p->ep[0], iov, NULL, 5, p->addr[1], NULL));
	EXPECT(FI_EINVAL, fi_recvv(p->ep[0], iov, NULL, 5, FI_ADDR_UNSPEC, NULL));
	EXPECT(FI_EMSGSIZE, fi_inject(p->ep[0], big, p->info->tx_attr->inject_size + 1, p->addr[1]));
	EXPECT(FI_EMSGSIZE, fi_send(p->ep[0], big, (size_t)1 << 63, NULL, p->addr[1], NULL));
	iov[1].iov_len = SIZE_MAX;
	EXPECT(FI_EINVAL, fi_sendv(p->ep[0], iov, NULL, 2, p->addr[1], NULL));
}

static void not_offered(struct pair *p)
{
	char byte = 0;
	void *any = &byte;
	size_t count, size = sizeof(size_t);
	struct fid_cntr *cntr;
	struct fid_pep *pep;
	struct fid_ep *ep;
	struct fid_poll *poll;
	struct fid_wait *wait;
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fi_poll_attr poll_attr = {.flags = 1};
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fi_cq_attr mutex = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fi_cq_attr peer = {.flags = FI_PEER};
	struct fi_av_attr unnamed = {.flags = FI_READ}, flags = {.flags = 1ull << 60};
	struct fi_cq_attr no_set = {.wait_obj = FI_WAIT_SET};
	struct fi_atomic_attr atomic;
	struct fid_cq *cq;
	struct fid_av *av;
	EXPECT(FI_ENOSYS, fi_barrier(p->ep[0], 0, NULL));
	EXPECT(FI_ENOSYS, fi_cntr_open(p->domain, &cntr_attr, &cntr, NULL));
	EXPECT(FI_EOPNOTSUPP, fi_atomicvalid(p->ep[0], FI_VOID, FI_SUM, &count));
	EXPECT(FI_EOPNOTSUPP, fi_atomicvalid(p->ep[0], FI_FLOAT, FI_BXOR, &count));
	EXPECT(FI_EOPNOTSUPP, fi_query_atomic(p->domain, FI_UINT8, FI_ATOMIC_OP_LAST, &atomic, 0));
	EXPECT(FI_EBADFLAGS, fi_poll_open(p->domain, &poll_attr, &poll));
	EXPECT(FI_ENOSYS, fi_wait_open(p->fabric, &wait_attr, &wait));
	EXPECT(FI_EINVAL, fi_wait_open(p->fabric, NULL, &wait));
	EXPECT(FI_EINVAL, fi_passive_ep(p->fabric, p->info, &pep, NULL));
	EXPECT(0, fi_scalable_ep(p->domain, p->info, &ep, NULL));
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(FI_ENOSYS, fi_cq_open(p->domain, &mutex, &cq, NULL));
	EXPECT(FI_ENOSYS, fi_cq_open(p->domain, &peer, &cq, NULL));
	EXPECT(FI_EINVAL, fi_cq_open(p->domain, &no_set, &cq, NULL));
	EXPECT(FI_EINVAL, fi_av_open(p->domain, &unnamed, &av, NULL));
	EXPECT(FI_EBADFLAGS, fi_av_open(p->domain, &flags, &av, NULL));
	EXPECT(FI_ENOSYS, fi_connect(p->ep[0], any, NULL, 0));
	EXPECT(FI_ENOSYS, fi_setname(&p->ep[0]->fid, any, 1));
	EXPECT(FI_ENOPROTOOPT, fi_setopt(&p->ep[0]->fid, FI_OPT_ENDPOINT, 4711, &size, size));
	EXPECT(FI_ENOPROTOOPT,
	       fi_getopt(&p->ep[0]->fid, FI_OPT_ENDPOINT, FI_OPT_BUFFERED_MIN, &count, &size));
	EXPECT(FI_EOPNOTSUPP,
	       fi_getopt(&p->ep[0]->fid, FI_OPT_ENDPOINT, FI_OPT_XPU_TRIGGER, &count, &size));
	EXPECT(FI_EINVAL, fi_setopt(&p->ep[0]->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &size, 8));
	EXPECT(FI_ENOPROTOOPT, fi_getopt(&p->ep[0]->fid, FI_OPT_ENDPOINT, 4711, &size, &size));
	EXPECT(FI_ENOSYS, fi_control(&p->ep[0]->fid, 4711, NULL));
	struct fi_msg peek = {.addr = FI_ADDR_UNSPEC};
	EXPECT(FI_EBADFLAGS, fi_recvmsg(p->ep[0], &peek, FI_PEEK));
}

// Remote memory and counters: wrong arguments at once, wrong keys as error completions.
static void remote(struct pair *p)
{
	static char big[1 << 16];
	char byte = 1;
	struct fid_ep *ep = p->ep[0], *closed;
	struct fi_cntr_attr cntr_attr = {0};
	struct fi_cq_entry entry;
	struct fi_cq_err_entry error = {0};
	struct fid_cntr *cntr;
	uint64_t word = 1;
	size_t inject = p->info->tx_attr->inject_size;
	EXPECT(FI_EINVAL, fi_write(ep, NULL, 8, NULL, p->addr[1], 0, 0, NULL));
	EXPECT(FI_EINVAL, fi_read(ep, NULL, 8, NULL, p->addr[1], 0, 0, NULL));
	EXPECT(FI_EINVAL, fi_write(ep, &byte, 1, NULL, 77, 0, 0, NULL));
	EXPECT(FI_EINVAL, fi_read(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, NULL));
	EXPECT(FI_EINVAL, fi_writemsg(ep, NULL, 0));
	EXPECT(FI_EINVAL, fi_readmsg(ep, NULL, 0));
	EXPECT(FI_EINVAL, fi_atomicmsg(ep, NULL, 0));
	EXPECT(FI_EINVAL, fi_atomic(ep, &word, 1, NULL, 77, 0, 0, FI_UINT64, FI_SUM, NULL));
	EXPECT(FI_EMSGSIZE, fi_inject_write(ep, big, inject + 1, p->addr[1], 0, 0));
	EXPECT(FI_EINVAL, ep->rma->write((struct fid_ep *)p->cq[0], &byte, 1, NULL, 0, 0, 0, NULL));
	EXPECT(FI_EINVAL, ep->rma->read(NULL, &byte, 1, NULL, 0, 0, 0, NULL));
	// No such key.
	MUST(fi_write(ep, &byte, 1, NULL, p->addr[1], 0, 4711, &byte));
	CHECK(next(p, 0, &entry, NULL) == -FI_EAVAIL);
	CHECK(fi_cq_readerr(p->cq[0], &error, 0) == 1);
	CHECK(error.err == FI_EACCES && error.op_context == &byte);
	// Counters.
	EXPECT(0, fi_cntr_open(p->domain, &cntr_attr, &cntr, NULL));
	EXPECT(FI_EINVAL, cntr->ops->wait((struct fid_cntr *)ep, 0, 0));
	EXPECT(FI_EINVAL, cntr->ops->add(NULL, 1));
	EXPECT(FI_ENOSYS, fi_control(&cntr->fid, FI_GETWAIT, &word));
	MUST(fi_endpoint(p->domain, p->info, &closed, NULL));
	EXPECT(FI_EOPBADSTATE, fi_write(closed, &byte, 1, NULL, p->addr[1], 0, 0, NULL));
	EXPECT(FI_EOPBADSTATE, fi_read(closed, &byte, 1, NULL, p->addr[1], 0, 0, NULL));
	EXPECT(FI_EOPBADSTATE,
	       fi_atomic(closed, &word, 1, NULL, p->addr[1], 0, 0, FI_UINT64, FI_SUM, NULL));
	EXPECT(0, fi_ep_bind(closed, &cntr->fid, FI_SEND | FI_WRITE));
	EXPECT(FI_EINVAL, fi_ep_bind(closed, &cntr->fid, FI_WRITE));
	EXPECT(FI_EBUSY, fi_close(&cntr->fid));
	EXPECT(0, fi_close(&closed->fid));
	EXPECT(0, fi_close(&cntr->fid));
}

static void regions(struct pair *p)
{
	static char memory[4096];
	struct fid_mr *mr, *other;
	struct fi_mr_attr device = {.iface = FI_HMEM_CUDA, .iov_count = 1};
	uint64_t access = FI_SEND | FI_RECV;
	EXPECT(0, fi_mr_reg(p->domain, memory, sizeof(memory), access, 0, 42, 0, &mr, NULL));
	CHECK(fi_mr_key(mr) == 42);
	EXPECT(FI_ENOKEY, fi_mr_reg(p->domain, memory, 1, access, 0, 42, 0, &other, NULL));
	EXPECT(FI_EINVAL, fi_mr_reg(p->domain, memory, 1, 1ull << 60, 0, 43, 0, &other, NULL));
	EXPECT(FI_ENOSYS, fi_mr_regattr(p->domain, &device, 0, &other));
	EXPECT(0, fi_mr_bind(mr, &p->ep[0]->fid, 0));
	EXPECT(0, fi_mr_enable(mr));
	EXPECT(0, fi_close(&mr->fid));
	EXPECT(0, fi_mr_reg(p->domain, memory, 1, access, 0, 42, 0, &mr, NULL));
	EXPECT(0, fi_close(&mr->fid));
}

// The peers of a domain with virtual addresses name all parts of a region by one of them.
static void regions_of_parts(struct pair *p)
{
	static char memory[4096];
	struct fid_domain *domain;
	struct fid_mr *mr;
	struct iovec parts[] = {{memory, 0}, {memory, 1024}, {memory + 1024, 1024}};
	EXPECT(0, fi_mr_regv(p->domain, parts, 3, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	EXPECT(0, fi_close(&mr->fid));
	p->info->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
	MUST(fi_domain(p->fabric, p->info, &domain, NULL));
	p->info->domain_attr->mr_mode = 0;
	EXPECT(0, fi_mr_regv(domain, parts, 3, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	EXPECT(0, fi_close(&mr->fid));
	parts[2].iov_base = memory + 2048;
	EXPECT(FI_EINVAL, fi_mr_regv(domain, parts, 3, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	EXPECT(0, fi_mr_regv(domain, parts, 3, FI_SEND | FI_RECV, 0, 1, 0, &mr, NULL));
	EXPECT(0, fi_close(&mr->fid));
	EXPECT(0, fi_mr_regv(p->domain, parts, 3, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	EXPECT(0, fi_close(&mr->fid));
	EXPECT(0, fi_close(&domain->fid));
}

// Applications of versions before 1.9 pass attributes that end before the member `iface`.
static void regions_of_old(void)
{
	static char memory[64];
	struct iovec iov = {memory, sizeof(memory)};
	struct fi_info *hints = hints_for_us(), *info = NULL;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_mr *mr;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = offsetof(struct fi_mr_attr, iface);
	struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_SEND,
				  .requested_key = 7};
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(0, mprotect(pages + page, page, PROT_NONE));
	MUST(fi_getinfo(FI_VERSION(1, 5), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	EXPECT(0, fi_mr_regattr(domain, memcpy(pages + page - len, &attr, len), 0, &mr));
	CHECK(fi_mr_key(mr) == 7);
	EXPECT(0, fi_close(&mr->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	EXPECT(0, munmap(pages, 2 * page));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void names(struct pair *p)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	char *name = p->info->domain_attr->name;
	p->info->domain_attr->name = "no-such-interface";
	EXPECT(FI_ENODATA, fi_domain(p->fabric, p->info, &domain, NULL));
	p->info->domain_attr->name = name;
	name = p->info->fabric_attr->name;
	p->info->fabric_attr->name = "10.9.8.0/24";
	EXPECT(FI_ENODATA, fi_fabric(p->info->fabric_attr, &fabric, NULL));
	p->info->fabric_attr->name = name;
	// A port that is taken.
	struct fi_info *info = fi_dupinfo(p->info);
	size_t len = info->src_addrlen;
	EXPECT(0, fi_getname(&p->ep[0]->fid, info->src_addr, &len));
	EXPECT(FI_EADDRINUSE, fi_endpoint(p->domain, info, &ep, NULL));
	info->ep_attr->type = FI_EP_DGRAM;
	EXPECT(FI_EINVAL, fi_endpoint(p->domain, info, &ep, NULL));
	fi_freeinfo(info);
}

// The child of a fork may not use objects that it shares with its parent; the parent goes on.
static void fork_is_inert(struct pair *p)
{
	char byte = 1;
	struct fi_cq_entry entry;
	pid_t child = fork();
	if (child == 0) {
		failures = 0;
		EXPECT(FI_EOPBADSTATE, fi_send(p->ep[0], &byte, 1, NULL, p->addr[1], NULL));
		EXPECT(FI_EOPBADSTATE, fi_cq_read(p->cq[0], &entry, 1));
		EXPECT(0, fi_close(&p->ep[0]->fid));
		EXPECT(0, fi_close(&p->domain->fid));
		// Objects that the child opens are its own.
		struct pair own;
		struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
		struct fi_info *hints = hints_for_us();
		pair_open(&own, info_on("127.0.0.1", hints), &attr, 0);
		fi_freeinfo(hints);
		MUST(fi_recv(own.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
		MUST(fi_send(own.ep[0], &byte, 1, NULL, own.addr[1], NULL));
		CHECK(next(&own, 1, &entry, NULL) == 1);
		CHECK(next(&own, 0, &entry, NULL) == 1);
		pair_close(&own);
		fflush(stdout);
		// With the destructors of libfabric.
		exit(failures != 0);
	}
	int status = 0;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	MUST(fi_recv(p->ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	MUST(fi_send(p->ep[0], &byte, 1, NULL, p->addr[1], NULL));
	CHECK(next(p, 1, &entry, NULL) == 1);
	CHECK(next(p, 0, &entry, NULL) == 1);
}

int main(void)
{
	struct pair pair;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_info *hints = hints_for_us();
	pair_open(&pair, info_on("127.0.0.1", hints), &cq_attr, 0);
	fi_freeinfo(hints);
	null_arguments(&pair);
	wrong_class(&pair);
	wrong_state(&pair);
	alias(&pair);
	busy(&pair);
	domain_events(&pair);
	bad_addresses(&pair);
	bad_sizes(&pair);
	not_offered(&pair);
	remote(&pair);
	regions(&pair);
	regions_of_parts(&pair);
	regions_of_old();
	names(&pair);
	fork_is_inert(&pair);
	pair_close(&pair);
	return test_status("misuse");
}
