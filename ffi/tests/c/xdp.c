// SPDX-License-Identifier: MIT OR Apache-2.0
// An endpoint on AF_XDP in a process that has signals, children and limits. Arguments: the address
// of an interface with one queue; signals, fork or limit. Needs root.

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

// The links of XDP programs that this process holds: one for an endpoint on AF_XDP.
static int links(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(folder));) {
		char path[300], target[64] = "";
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		if (readlink(path, target, sizeof(target) - 1) > 0)
			count += !strncmp(target, "anon_inode:bpf", 14) && strstr(target, "link");
	}
	closedir(folder);
	return count;
}

static struct fid_ep *open_on(struct fid_domain *domain, struct fi_info *info, int expected)
{
	struct fid_ep *ep;
	MUST(fi_endpoint(domain, info, &ep, NULL));
	CHECK(links() == expected);
	return ep;
}

static pthread_t target;
static atomic_int stop;

static void nothing(int signal) { (void)signal; }

static void *disturb(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop)) {
		pthread_kill(target, SIGUSR1);
		usleep(50);
	}
	return NULL;
}

// A timer that is faster than the verifier.
static void signals(struct fid_domain *domain, struct fi_info *info)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	pthread_t thread;
	target = pthread_self();
	MUST(sigaction(SIGUSR1, &action, NULL));
	MUST(pthread_create(&thread, NULL, disturb, NULL));
	struct fid_ep *ep = open_on(domain, info, 1);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	EXPECT(0, fi_close(&ep->fid));
}

// A child that lives on keeps neither the queue nor the port.
static void child(struct fid_domain *domain, struct fi_info *info)
{
	char name[64];
	size_t len = sizeof(name);
	struct fid_ep *ep = open_on(domain, info, 1);
	MUST(fi_getname(&ep->fid, name, &len));
	int lives[2];
	CHECK(pipe(lives) == 0);
	pid_t pid = fork();
	if (pid == 0)
		for (close(lives[1]);;)
			pause();
	CHECK(pid > 0);
	// The child closes its copies in fork(), when it gets a processor.
	char end;
	close(lives[1]);
	CHECK(read(lives[0], &end, 1) == 0);
	close(lives[0]);
	EXPECT(0, fi_close(&ep->fid));
	CHECK(links() == 0);
	struct fi_info *same = fi_dupinfo(info);
	free(same->src_addr);
	same->src_addr = memcpy(malloc(len), name, len);
	same->src_addrlen = len;
	ep = open_on(domain, same, 1);
	EXPECT(0, fi_close(&ep->fid));
	fi_freeinfo(same);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

// With a limit of 1 MiB on files (`ulimit -f`), the endpoint uses kernel UDP and gets no SIGXFSZ.
static void limit(struct fid_domain *domain, struct fi_info *info)
{
	struct rlimit before, small;
	MUST(getrlimit(RLIMIT_FSIZE, &before));
	small = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
	MUST(setrlimit(RLIMIT_FSIZE, &small));
	struct fid_ep *ep = open_on(domain, info, 0);
	EXPECT(0, fi_close(&ep->fid));
	MUST(setrlimit(RLIMIT_FSIZE, &before));
	ep = open_on(domain, info, 1);
	EXPECT(0, fi_close(&ep->fid));
}

int main(int count, char **arguments)
{
	struct fi_info *hints = hints_for_us();
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	if (count != 3)
		return 2;
	struct fi_info *info = info_on(arguments[1], hints);
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	if (!strcmp(arguments[2], "signals"))
		signals(domain, info);
	else if (!strcmp(arguments[2], "fork"))
		child(domain, info);
	else
		limit(domain, info);
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return test_status(arguments[2]);
}
