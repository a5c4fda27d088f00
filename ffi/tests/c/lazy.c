// SPDX-License-Identifier: MIT OR Apache-2.0
// The progress thread beside an application that polls at long intervals. A write needs few polls,
// whether its target calls the library or not. The thread sleeps while nothing is under way.

#include <dirent.h>

#include "common.h"

enum { LEN = 16 << 20, KEY = 42, IDLE_ENDPOINTS = 50 };

// Most polls for a write of LEN. Without the thread, each poll would move one window.
enum { POLLS_MAX = 400 };

// Most sleeps of the thread in a second without traffic.
enum { SLEEPS_MAX = 5 };

static char from[LEN], into[LEN];

// Voluntary context switches of the provider's threads.
static long thread_sleeps(void)
{
	long sum = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *task; tasks && (task = readdir(tasks));) {
		char path[600], line[256], name[32] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		FILE *status = fopen(path, "r");
		while (status && fgets(line, sizeof(line), status)) {
			long count;
			sscanf(line, "Name: %31s", name);
			if (!strcmp(name, "ofi-xdp") &&
			    sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
				sum += count;
		}
		if (status)
			fclose(status);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

static struct pair open_pair(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_info *hints = hints_for_us();
	struct pair pair;
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	pair_open(&pair, info_on("127.0.0.1", hints), &attr, 0);
	fi_freeinfo(hints);
	return pair;
}

// Writes LEN bytes, and polls every millisecond: at both ends, or at the initiator alone.
static void lazy_write(struct pair *pair, int target_polls)
{
	struct fi_cq_entry entry;
	struct fid_mr *mr;
	int polls = 0;
	ssize_t got;
	memset(from, target_polls + 1, LEN);
	MUST(fi_mr_reg(pair->domain, into, LEN, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	MUST(fi_write(pair->ep[0], from, LEN, NULL, pair->addr[1], 0, KEY, NULL));
	while ((got = fi_cq_read(pair->cq[0], &entry, 1)) == -FI_EAGAIN && polls++ < POLLS_MAX) {
		if (target_polls)
			CHECK(fi_cq_read(pair->cq[1], NULL, 0) <= 0);
		usleep(1000);
	}
	printf("%d polls, %s\n", polls, target_polls ? "both" : "the initiator alone");
	MUST(got);
	CHECK(!memcmp(from, into, LEN));
	EXPECT(0, fi_close(&mr->fid));
}

// Endpoints without traffic beside a pair that had some.
static void idle(struct pair *pair)
{
	static struct fid_ep *ep[IDLE_ENDPOINTS];
	for (int i = 0; i < IDLE_ENDPOINTS; i++) {
		MUST(fi_endpoint(pair->domain, pair->info, &ep[i], NULL));
		MUST(fi_ep_bind(ep[i], &pair->av->fid, 0));
		MUST(fi_ep_bind(ep[i], &pair->cq[0]->fid, FI_TRANSMIT | FI_RECV));
		MUST(fi_enable(ep[i]));
	}
	// Statistics and timers come to rest: a connection needs some seconds. A machine that is busy
	// may need more.
	long sleeps = SLEEPS_MAX + 1;
	for (int tries = 0; tries < 30 && sleeps > SLEEPS_MAX; tries++) {
		sleeps = thread_sleeps();
		sleep(1);
		sleeps = thread_sleeps() - sleeps;
	}
	printf("%ld sleeps in a second with %d endpoints\n", sleeps, IDLE_ENDPOINTS + 2);
	CHECK(sleeps <= SLEEPS_MAX);
	for (int i = 0; i < IDLE_ENDPOINTS; i++)
		EXPECT(0, fi_close(&ep[i]->fid));
}

int main(void)
{
	struct pair pair = open_pair();
	lazy_write(&pair, 1);
	lazy_write(&pair, 0);
	idle(&pair);
	lazy_write(&pair, 0);
	pair_close(&pair);
	return test_status("lazy");
}
