// SPDX-License-Identifier: MIT OR Apache-2.0
// Many idle endpoints of one domain: each takes little memory, and together they wake no thread.

#include <sys/resource.h>

#include "common.h"

#define ENDPOINTS 64
// Bytes of an endpoint and its completion queue that nothing has used.
#define BYTES_MAX (2 << 20)
// Wake-ups of the process in a second: its sleep is one.
#define WAKEUPS_MAX 5

static struct fid_ep *endpoint[ENDPOINTS];
static struct fid_cq *queue[ENDPOINTS];

// Bytes of the process that are in memory.
static long resident(void)
{
	long all = 0, pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	CHECK(file && fscanf(file, "%ld %ld", &all, &pages) == 2);
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

static long wakeups(void)
{
	struct rusage usage;
	EXPECT(0, getrusage(RUSAGE_SELF, &usage));
	return usage.ru_nvcsw;
}

int main(void)
{
	struct fi_info *hints = hints_for_us();
	struct fi_info *info = info_on("127.0.0.1", hints);
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_av_open(domain, &av_attr, &av, NULL));
	long before = 0;
	for (int i = 0; i < ENDPOINTS; i++) {
		// The first endpoint also takes what all share.
		if (i == 1)
			before = resident();
		MUST(fi_cq_open(domain, &cq_attr, &queue[i], NULL));
		MUST(fi_endpoint(domain, info, &endpoint[i], NULL));
		MUST(fi_ep_bind(endpoint[i], &av->fid, 0));
		MUST(fi_ep_bind(endpoint[i], &queue[i]->fid, FI_TRANSMIT | FI_RECV));
		MUST(fi_enable(endpoint[i]));
	}
	long each = (resident() - before) / (ENDPOINTS - 1);
	printf("%ld bytes for each endpoint\n", each);
	CHECK(each < BYTES_MAX);

	sleep(1);
	long woken = wakeups();
	sleep(1);
	woken = wakeups() - woken;
	printf("%ld wake-ups\n", woken);
	CHECK(woken <= WAKEUPS_MAX);

	for (int i = 0; i < ENDPOINTS; i++) {
		EXPECT(0, fi_close(&endpoint[i]->fid));
		EXPECT(0, fi_close(&queue[i]->fid));
	}
	EXPECT(0, fi_close(&av->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(hints);
	fi_freeinfo(info);
	return test_status("crowd");
}
