// SPDX-License-Identifier: MIT OR Apache-2.0
// Progress without the application (fi_domain(3), FI_PROGRESS_AUTO). A process that computes and
// does not call libfabric must not keep its peer waiting. It finds its messages afterwards. It
// computes until its peer has everything: a delay on a slow machine is no failure.

#include <poll.h>
#include <sys/wait.h>

#include "common.h"

enum { SMALL = 64, LARGE = 4 << 20, KEY = 42 };

// Seconds after which an operation hangs.
enum { HANG_SECONDS = 120 };

static char memory[LARGE], region[LARGE];

static struct fi_info *hints_of(const char *progress)
{
	struct fi_info *hints = hints_for_us();
	enum fi_progress wanted =
		strcmp(progress, "auto") ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;
	hints->domain_attr->data_progress = wanted;
	hints->domain_attr->control_progress = wanted;
	return hints;
}

static struct pair open_pair(const char *progress)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_info *hints = hints_of(progress);
	struct fi_info *info = info_on("127.0.0.1", hints);
	CHECK(info->domain_attr->data_progress == hints->domain_attr->data_progress);
	CHECK(info->domain_attr->control_progress == hints->domain_attr->control_progress);
	fi_freeinfo(hints);
	struct pair pair;
	pair_open(&pair, info, &attr, 0);
	return pair;
}

// Computes until the peer reports its end, or exits.
static void compute(void)
{
	struct pollfd done = {.fd = 0, .events = POLLIN};
	volatile double sum = 0;
	while (poll(&done, 1, 0) == 0)
		for (int i = 0; i < 1000000; i++)
			sum += 1;
}

// The process that computes: its first endpoint has buffers for two messages.
static int busy_process(const char *progress)
{
	struct pair pair = open_pair(progress);
	struct fi_cq_entry entry[2];
	char name[64];
	size_t len = sizeof(name);
	MUST(fi_getname(&pair.ep[0]->fid, name, &len));
	MUST(fi_recv(pair.ep[0], memory, SMALL, NULL, FI_ADDR_UNSPEC, &memory[0]));
	MUST(fi_recv(pair.ep[0], memory, LARGE, NULL, FI_ADDR_UNSPEC, &memory[1]));
	struct fid_mr *mr;
	MUST(fi_mr_reg(pair.domain, region, LARGE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr,
		       NULL));
	CHECK(write(1, name, sizeof(name)) == sizeof(name));
	compute();
	// A write completes at its initiator alone: its bytes must be here by now.
	CHECK(region[0] == 'W' && region[LARGE - 1] == 'W');
	EXPECT(0, fi_close(&mr->fid));
	// Both have arrived by now: one poll finds messages that were received meanwhile.
	CHECK(fi_cq_read(pair.cq[0], entry, 2) == 2);
	CHECK(entry[0].op_context == &memory[0] && entry[1].op_context == &memory[1]);
	CHECK(memory[0] == 'L' && memory[LARGE - 1] == 'L');
	pair_close(&pair);
	return failures != 0;
}

static void finish(struct pair *pair)
{
	struct fi_cq_entry entry;
	double end = seconds() + HANG_SECONDS;
	ssize_t got;
	while ((got = fi_cq_read(pair->cq[0], &entry, 1)) == -FI_EAGAIN && seconds() < end)
		;
	MUST(got);
}

static void send_and_wait(struct pair *pair, fi_addr_t to, size_t len)
{
	struct iovec iov = {memory, len};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to};
	MUST(fi_sendmsg(pair->ep[0], &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	finish(pair);
}

int main(int argc, char **argv)
{
	const char *progress = argc > 1 ? argv[1] : "auto";
	if (argc > 2)
		return busy_process(progress);
	int from[2], done[2];
	MUST(pipe(from));
	MUST(pipe(done));
	pid_t child = fork();
	if (child == 0) {
		dup2(done[0], 0);
		close(done[1]);
		dup2(from[1], 1);
		start_again("busy");
	}
	close(from[1]);
	close(done[0]);
	struct pair pair = open_pair(progress);
	char name[64];
	fi_addr_t to;
	CHECK(read(from[0], name, sizeof(name)) == sizeof(name));
	CHECK(fi_av_insert(pair.av, name, 1, &to, 0, NULL) == 1);
	memset(memory, 'S', SMALL);
	send_and_wait(&pair, to, SMALL);
	memset(memory, 'L', LARGE);
	send_and_wait(&pair, to, LARGE);
	memset(region, 'W', LARGE);
	MUST(fi_write(pair.ep[0], region, LARGE, NULL, to, 0, KEY, NULL));
	finish(&pair);
	MUST(fi_read(pair.ep[0], memory, LARGE, NULL, to, 0, KEY, NULL));
	finish(&pair);
	CHECK(!memcmp(memory, region, LARGE));
	close(done[1]);
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	pair_close(&pair);
	return test_status("progress");
}
