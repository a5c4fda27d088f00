// SPDX-License-Identifier: MIT OR Apache-2.0
// A peer that does not answer: a UDP socket that nobody reads, or a TCP socket that listens, as
// libfabric's own tcp has one, or a UDP socket that answers in another version of the protocol. The
// operation ends in an error.
//
// silent rdm|msg|rdm-tcp|msg-tcp|rdm-version

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "common.h"

// A socket of this type on the loopback interface, which never answers.
static struct sockaddr_in silent_socket(int type, int *fd_out)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, type, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(type == SOCK_DGRAM || listen(fd, 8) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
	*fd_out = fd;
	return address;
}

// Sends each packet back with another version, which is the upper half of its first byte.
static void *answer(void *argument)
{
	int fd = *(int *)argument;
	unsigned char packet[2048];
	struct sockaddr_in from;
	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t got = recvfrom(fd, packet, sizeof(packet), 0, (struct sockaddr *)&from, &len);
		if (got <= 0)
			return NULL;
		packet[0] = (unsigned char)(packet[0] + 0x10);
		if (sendto(fd, packet, (size_t)got, 0, (struct sockaddr *)&from, len) != got)
			return NULL;
	}
}

static void send_to(struct fi_info *info, struct sockaddr_in *silent)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cq_err_entry error = {0};
	struct fi_cq_tagged_entry entry;
	struct pair pair;
	fi_addr_t to;
	pair_open(&pair, info, &cq_attr, 0);
	CHECK(fi_av_insert(pair.av, silent, 1, &to, 0, NULL) == 1);
	MUST(fi_send(pair.ep[0], "x", 1, NULL, to, &error));
	EXPECT(FI_EAVAIL, next(&pair, 0, &entry, NULL));
	CHECK(fi_cq_readerr(pair.cq[0], &error, 0) == 1);
	CHECK(error.err == FI_EHOSTUNREACH || error.err == FI_ETIMEDOUT);
	pair_close(&pair);
}

static void connect_to(struct fi_info *info, struct sockaddr_in *silent)
{
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA};
	struct fi_eq_err_entry error = {0};
	struct fi_eq_cm_entry entry;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint32_t event;
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL));
	MUST(fi_endpoint(domain, info, &ep, NULL));
	MUST(fi_ep_bind(ep, &eq->fid, 0));
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(ep));
	MUST(fi_connect(ep, silent, NULL, 0));
	EXPECT(FI_EAVAIL, fi_eq_sread(eq, &event, &entry, sizeof(entry), 10000, 0));
	CHECK(fi_eq_readerr(eq, &error, 0) == sizeof(error));
	CHECK(error.err == FI_ETIMEDOUT || error.err == FI_ECONNREFUSED);
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(0, fi_close(&cq->fid));
	EXPECT(0, fi_close(&eq->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "rdm";
	int tcp = strstr(what, "-tcp") != NULL;
	static int fd;
	struct sockaddr_in silent = silent_socket(tcp ? SOCK_STREAM : SOCK_DGRAM, &fd);
	pthread_t thread;
	if (strstr(what, "-version"))
		CHECK(pthread_create(&thread, NULL, answer, &fd) == 0);
	struct fi_info *hints = hints_for_us();
	if (tcp) {
		free(hints->fabric_attr->prov_name);
		hints->fabric_attr->prov_name = strdup("tcp");
	}
	hints->ep_attr->type = strncmp(what, "msg", 3) ? FI_EP_RDM : FI_EP_MSG;
	if (hints->ep_attr->type == FI_EP_RDM)
		send_to(info_on("127.0.0.1", hints), &silent);
	else
		connect_to(info_on("127.0.0.1", hints), &silent);
	fi_freeinfo(hints);
	return test_status("silent");
}
