// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory that is refused: each allocation of the library in turn, alone and with all that follow.
// Every call returns 0 or -FI_ENOMEM, leaves nothing behind, and succeeds when there is memory.
// Likewise a thread that cannot start. Arguments: the address to open (127.0.0.1), the part of the
// allocations to refuse (1: each, 1000: every thousandth), and the name of an interface. The XDP
// program of the interface is detached, so that the thread that opens it again is refused memory.

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common.h"

// The library's code: only its allocations are refused.
static uintptr_t code_start, code_end;
// Allocations until the first refusal; negative: none is refused.
static atomic_long until = -1;
static atomic_int for_good;
static atomic_long refusals;

static int refused(void *caller)
{
	uintptr_t at = (uintptr_t)caller;
	if (at < code_start || at >= code_end || atomic_load(&until) < 0)
		return 0;
	long left = atomic_fetch_sub(&until, 1);
	if (left > 0)
		return 0;
	if (atomic_load(&for_good))
		atomic_store(&until, 0);
	atomic_fetch_add(&refusals, 1);
	errno = ENOMEM;
	return 1;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t size)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *block, size_t size)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(block, size);
}
void *aligned_alloc(size_t align, size_t size)
{
	return refused(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
}
int posix_memalign(void **block, size_t align, size_t size)
{
	if (refused(__builtin_return_address(0)))
		return ENOMEM;
	*block = __libc_memalign(align, size);
	return *block ? 0 : ENOMEM;
}

static atomic_int no_thread;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (atomic_load(&no_thread))
		return EAGAIN;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, run, arg);
}

static int find_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	if (!strstr(info->dlpi_name, "libxdp-fi"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
			code_start = info->dlpi_addr + part->p_vaddr;
			code_end = code_start + part->p_memsz;
		}
	}
	return 1;
}

static struct fi_info *hints;
static const char *address = "127.0.0.1";
static long step = 1;
// One port for all endpoints, so that a leaked endpoint keeps the next one from opening.
static char port[8];

struct objects {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
};

static int set_up(struct objects *all)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 100};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_FD};
	int error;
	memset(all, 0, sizeof(*all));
	// libfabric skips a provider that returns an error, and then has no offer.
	if (fi_getinfo(VERSION, address, port, FI_SOURCE, hints, &all->info) == -FI_ENODATA)
		return -FI_ENOMEM;
	if ((error = fi_fabric(all->info->fabric_attr, &all->fabric, NULL)) ||
	    (error = fi_domain(all->fabric, all->info, &all->domain, NULL)) ||
	    (error = fi_cq_open(all->domain, &cq_attr, &all->cq, NULL)) ||
	    (error = fi_av_open(all->domain, &av_attr, &all->av, NULL)) ||
	    (error = fi_endpoint(all->domain, all->info, &all->ep, NULL)) ||
	    (error = fi_ep_bind(all->ep, &all->av->fid, 0)) ||
	    (error = fi_ep_bind(all->ep, &all->cq->fid, FI_TRANSMIT | FI_RECV)))
		return error;
	return fi_enable(all->ep);
}

static void tear_down(struct objects *all)
{
	char entry[128];
	if (all->cq)
		EXPECT(FI_EAGAIN, fi_cq_read(all->cq, entry, 1));
	if (all->ep)
		EXPECT(0, fi_close(&all->ep->fid));
	if (all->av)
		EXPECT(0, fi_close(&all->av->fid));
	if (all->cq)
		EXPECT(0, fi_close(&all->cq->fid));
	if (all->domain)
		EXPECT(0, fi_close(&all->domain->fid));
	if (all->fabric)
		EXPECT(0, fi_close(&all->fabric->fid));
	fi_freeinfo(all->info);
}

// Refuses the allocation of this number, and all later ones if it is for good; returns whether
// there was one.
static int refuse(long number, int forever)
{
	struct objects all;
	atomic_store(&for_good, forever);
	atomic_store(&refusals, 0);
	atomic_store(&until, number);
	int error = set_up(&all);
	atomic_store(&until, -1);
	long met = atomic_load(&refusals);
	if (error != 0 && error != -FI_ENOMEM) {
		printf("allocation %ld%s: %s\n", number, forever ? " and later" : "",
		       fi_strerror(-error));
		failures++;
	}
	tear_down(&all);
	return met > 0;
}

// A datagram of the endpoint's port meets an endpoint that is refused memory when it is enabled:
// receives of the shared context stay there. Each allocation in turn; whether there was one.
static int refuse_sharing(long number)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep, *srx;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_info *datagrams = NULL, *wanted = hints_for_us();
	struct sockaddr_storage name;
	size_t len = sizeof(name);
	char byte = 1, into = 0;
	wanted->ep_attr->type = FI_EP_DGRAM;
	wanted->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	MUST(fi_getinfo(VERSION, "127.0.0.1", NULL, FI_SOURCE, wanted, &datagrams));
	MUST(fi_fabric(datagrams->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, datagrams, &domain, NULL));
	MUST(fi_cq_open(domain, NULL, &cq, NULL));
	MUST(fi_av_open(domain, &av_attr, &av, NULL));
	MUST(fi_srx_context(domain, datagrams->rx_attr, &srx, NULL));
	MUST(fi_endpoint(domain, datagrams, &ep, NULL));
	MUST(fi_ep_bind(ep, &av->fid, 0));
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_ep_bind(ep, &srx->fid, 0));
	MUST(fi_recv(srx, &into, 1, NULL, FI_ADDR_UNSPEC, NULL));
	MUST(fi_getname(&ep->fid, &name, &len));
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(sendto(udp, &byte, 1, 0, (struct sockaddr *)&name, (socklen_t)len) == 1);
	ssize_t room = srx->ops->rx_size_left(srx);
	atomic_store(&for_good, 0);
	atomic_store(&refusals, 0);
	atomic_store(&until, number);
	int error = fi_enable(ep);
	atomic_store(&until, -1);
	long met = atomic_load(&refusals);
	if (error) {
		EXPECT(FI_ENOMEM, error);
		EXPECT(-room, srx->ops->rx_size_left(srx));
	}
	close(udp);
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(0, fi_close(&srx->fid));
	EXPECT(0, fi_close(&av->fid));
	EXPECT(0, fi_close(&cq->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(datagrams);
	fi_freeinfo(wanted);
	return met > 0;
}

static void threads(void)
{
	struct objects all;
	atomic_store(&no_thread, 1);
	EXPECT(FI_ENOMEM, set_up(&all));
	atomic_store(&no_thread, 0);
	EXPECT(0, fi_enable(all.ep));
	tear_down(&all);
}

// While the port opens AF_XDP again, in a thread of its own, all memory is refused.
static void recovery(const char *interface)
{
	struct objects all;
	char command[64], entry[128];
	EXPECT(0, set_up(&all));
	atomic_store(&for_good, 1);
	atomic_store(&refusals, 0);
	atomic_store(&until, 0);
	// A port finds at once that its link went down.
	snprintf(command, sizeof(command), "ip link set %s down; ip link set %s up", interface,
		 interface);
	CHECK(system(command) == 0);
	double end = seconds() + 20;
	while (atomic_load(&refusals) < 50 && seconds() < end)
		fi_cq_read(all.cq, entry, 1);
	CHECK(atomic_load(&refusals) >= 50);
	atomic_store(&until, -1);
	tear_down(&all);
}

int main(int count, char **arguments)
{
	struct objects all;
	long number = 0;
	if (count > 1)
		address = arguments[1];
	if (count > 2)
		step = atol(arguments[2]);
	hints = hints_for_us();
	snprintf(port, sizeof(port), "%d", 20000 + (int)(getpid() % 30000));
	EXPECT(0, set_up(&all));
	tear_down(&all);
	dl_iterate_phdr(find_code, NULL);
	CHECK(code_start != 0);
	while (refuse(number, 0) && failures == 0)
		number += step;
	printf("%ld allocations\n", number);
	CHECK(number > 20);
	for (long from = 0; from < number && failures == 0; from += step)
		refuse(from, 1);
	for (long at = 0; refuse_sharing(at) && failures == 0;)
		at += step;
	threads();
	if (count > 3)
		recovery(arguments[3]);
	EXPECT(0, set_up(&all));
	tear_down(&all);
	fi_freeinfo(hints);
	return test_status("refused");
}
