// SPDX-License-Identifier: MIT OR Apache-2.0
// Helpers of the test programs: checks that print where they failed, and two endpoints of one
// process. Compiled against whatever libfabric headers are installed.

#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define VERSION FI_VERSION(1, 17)

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);             \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

// A call and the libfabric error (or 0) that it must return.
#define EXPECT(error, call)                                                                        \
	do {                                                                                       \
		long got_ = (long)(call);                                                          \
		if (got_ != -(long)(error)) {                                                      \
			printf("%s:%d: %s: got %ld (%s), wanted %d\n", __FILE__, __LINE__, #call,  \
			       got_, fi_strerror((int)(got_ < 0 ? -got_ : 0)), -(int)(error));     \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

// A check after which the program cannot go on.
#define MUST(call)                                                                                 \
	do {                                                                                       \
		long got_ = (long)(call);                                                          \
		if (got_ < 0) {                                                                    \
			printf("%s:%d: %s: got %ld (%s)\n", __FILE__, __LINE__, #call, got_,       \
			       fi_strerror((int)-got_));                                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static inline int test_status(const char *program)
{
	printf("%s: libfabric %u.%u: %d failures\n", program, FI_MAJOR(fi_version()),
	       FI_MINOR(fi_version()), failures);
	return failures != 0;
}

static inline double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Hints for this provider on a numeric local address.
static inline struct fi_info *hints_for_us(void)
{
	struct fi_info *hints = fi_allocinfo();
	hints->fabric_attr->prov_name = strdup("xdp");
	hints->ep_attr->type = FI_EP_RDM;
	return hints;
}

static inline struct fi_info *info_on(const char *address, struct fi_info *hints)
{
	struct fi_info *info = NULL;
	MUST(fi_getinfo(VERSION, address, NULL, FI_SOURCE | FI_NUMERICHOST, hints, &info));
	return info;
}

// Two endpoints that know each other, on one domain.
struct pair {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq[2];
	struct fid_ep *ep[2];
	fi_addr_t addr[2];
};

static inline void pair_open(struct pair *pair, struct fi_info *info, struct fi_cq_attr *cq_attr,
			     uint64_t cq_flags)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 2};
	pair->info = info;
	MUST(fi_fabric(info->fabric_attr, &pair->fabric, NULL));
	MUST(fi_domain(pair->fabric, info, &pair->domain, NULL));
	MUST(fi_av_open(pair->domain, &av_attr, &pair->av, NULL));
	for (int i = 0; i < 2; i++) {
		char name[64];
		size_t len = sizeof(name);
		MUST(fi_cq_open(pair->domain, cq_attr, &pair->cq[i], NULL));
		MUST(fi_endpoint(pair->domain, info, &pair->ep[i], NULL));
		MUST(fi_ep_bind(pair->ep[i], &pair->av->fid, 0));
		MUST(fi_ep_bind(pair->ep[i], &pair->cq[i]->fid,
				FI_TRANSMIT | FI_RECV | cq_flags));
		MUST(fi_enable(pair->ep[i]));
		MUST(fi_getname(&pair->ep[i]->fid, name, &len));
		CHECK(fi_av_insert(pair->av, name, 1, &pair->addr[i], 0, NULL) == 1);
	}
}

static inline void pair_close(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		EXPECT(0, fi_close(&pair->ep[i]->fid));
		EXPECT(0, fi_close(&pair->cq[i]->fid));
	}
	EXPECT(0, fi_close(&pair->av->fid));
	EXPECT(0, fi_close(&pair->domain->fid));
	EXPECT(0, fi_close(&pair->fabric->fid));
	fi_freeinfo(pair->info);
}

// Starts this program again in the child of a fork, with one argument more, under the same loader.
// It has a libfabric of its own: a child may not use objects of its parent.
static inline void start_again(const char *argument)
{
	static char line[1 << 16];
	char *arguments[64] = {NULL};
	size_t count = 0;
	FILE *file = fopen("/proc/self/cmdline", "r");
	size_t len = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
	for (size_t at = 0; at < len && count < 60; at += strlen(line + at) + 1)
		arguments[count++] = line + at;
	arguments[count] = (char *)(uintptr_t)argument;
	execv("/proc/self/exe", arguments);
	_exit(127);
}

// Reads one completion of queue `which`, while both make progress; 1, or the error of the read, or
// -FI_ETIMEDOUT after ten seconds.
static inline ssize_t next(struct pair *pair, int which, void *entry, fi_addr_t *source)
{
	double end = seconds() + 10;
	while (seconds() < end) {
		ssize_t got = fi_cq_readfrom(pair->cq[which], entry, 1, source);
		if (got != -FI_EAGAIN)
			return got;
		got = fi_cq_read(pair->cq[!which], NULL, 0);
		if (got != -FI_EAGAIN && got != -FI_EAVAIL && got != 0)
			return got;
	}
	return -FI_ETIMEDOUT;
}

#endif
