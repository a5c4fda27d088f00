// SPDX-License-Identifier: MIT OR Apache-2.0
// An endpoint with a silent peer lingers when it is closed. Other calls on the domain do not wait
// for it.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common.h"

#define ATTEMPTS 5

static atomic_int closed;

static void *close_endpoint(void *ep)
{
	EXPECT(0, fi_close(&((struct fid_ep *)ep)->fid));
	atomic_store(&closed, 1);
	return NULL;
}

// A peer that has a socket and answers nothing.
static int silent(struct sockaddr_in *name)
{
	socklen_t len = sizeof(*name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	memset(name, 0, sizeof(*name));
	name->sin_family = AF_INET;
	name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	MUST(bind(fd, (struct sockaddr *)name, sizeof(*name)));
	MUST(getsockname(fd, (struct sockaddr *)name, &len));
	return fd;
}

// Whether memory was registered while an endpoint lingered.
static int registered_meanwhile(struct fi_info *hints)
{
	static char memory[64], message[8];
	struct sockaddr_in name;
	int fd = silent(&name);
	struct fi_cq_attr cq_attr = {0};
	struct pair pair;
	struct fid_mr *mr;
	fi_addr_t peer;
	pthread_t closer;
	pair_open(&pair, info_on("127.0.0.1", hints), &cq_attr, 0);
	CHECK(fi_av_insert(pair.av, &name, 1, &peer, 0, NULL) == 1);
	MUST(fi_send(pair.ep[0], message, sizeof(message), NULL, peer, NULL));
	atomic_store(&closed, 0);
	MUST(pthread_create(&closer, NULL, close_endpoint, pair.ep[0]));
	// Long enough for the close to begin, and much shorter than it lingers.
	usleep(50000);
	EXPECT(0, fi_mr_reg(pair.domain, memory, sizeof(memory), FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	usleep(20000);
	int meanwhile = !atomic_load(&closed);
	pthread_join(closer, NULL);
	EXPECT(0, fi_close(&mr->fid));
	MUST(fi_endpoint(pair.domain, pair.info, &pair.ep[0], NULL));
	pair_close(&pair);
	close(fd);
	return meanwhile;
}

int main(void)
{
	struct fi_info *hints = hints_for_us();
	int meanwhile = 0;
	hints->caps = FI_MSG | FI_RMA;
	// A machine that stands still for longer than an endpoint lingers gets another attempt.
	for (int attempt = 0; attempt < ATTEMPTS && !meanwhile; attempt++)
		meanwhile = registered_meanwhile(hints);
	CHECK(meanwhile);
	fi_freeinfo(hints);
	return test_status("closing");
}
