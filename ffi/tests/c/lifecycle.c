// SPDX-License-Identifier: MIT OR Apache-2.0
// How processes end: without closing anything, with operations under way, with libfabric unloaded,
// as a fork; and that signals are the application's.

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "common.h"

static struct pair pair;
static char memory[1 << 20];

// Sends and receives that never complete, and an awake progress thread.
static void under_way(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
	struct fi_info *hints = hints_for_us();
	pair_open(&pair, info_on("127.0.0.1", hints), &attr, 0);
	fi_freeinfo(hints);
	for (int i = 0; i < 20; i++) {
		MUST(fi_recv(pair.ep[1], memory, 1, NULL, FI_ADDR_UNSPEC, NULL));
		MUST(fi_send(pair.ep[0], memory, sizeof(memory), NULL, pair.addr[1], NULL));
	}
	usleep(20000);
}

// Through a libfabric that is loaded and unloaded at run time: its destructor ends the
// provider while endpoints are open.
static void unloaded(void)
{
	void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(library != NULL);
	under_way();
	EXPECT(0, dlclose(library));
	usleep(50000);
}

static void forked(void)
{
	under_way();
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		if (child == 0)
			exit(0);
		int status = 1;
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	struct fi_cq_entry entry;
	ssize_t got = next(&pair, 1, &entry, NULL);
	CHECK(got == 1 || got == -FI_EAVAIL);
}

static volatile sig_atomic_t caught;
static pthread_t catcher;

static void on_signal(int number)
{
	(void)number;
	catcher = pthread_self();
	caught++;
}

// Only the application's threads get signals, and a sleeper is interrupted by them.
static void signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct fi_cq_entry entry[64];
	under_way();
	struct fi_cq_err_entry error;
	ssize_t got;
	while ((got = fi_cq_sread(pair.cq[1], entry, 64, NULL, 200)) != -FI_EAGAIN)
		if (got == -FI_EAVAIL)
			(void)fi_cq_readerr(pair.cq[1], &error, 0);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 50; i++) {
		kill(getpid(), SIGUSR1);
		CHECK(pthread_equal(catcher, pthread_self()));
	}
	CHECK(caught == 50);
	sigaction(SIGALRM, &action, NULL);
	ualarm(50000, 0);
	EXPECT(FI_EINTR, fi_cq_sread(pair.cq[1], entry, 1, NULL, 5000));
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	const char *end = argc > 1 ? argv[1] : "exit";
	alarm(60);
	if (!strcmp(end, "exit") || !strcmp(end, "return"))
		under_way();
	else if (!strcmp(end, "dlclose"))
		unloaded();
	else if (!strcmp(end, "fork"))
		forked();
	else if (!strcmp(end, "signals"))
		signals();
	int status = test_status("lifecycle");
	if (!strcmp(end, "exit"))
		exit(status);
	return status;
}
