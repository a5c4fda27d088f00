// SPDX-License-Identifier: MIT OR Apache-2.0
// The address of a passive endpoint: it stays after calls that fail, and is free for another one
// once the endpoint is closed.

#include <arpa/inet.h>
#include <errno.h>

#include "common.h"

static struct fi_info *hints;
static struct fid_eq *queue;
static struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};

// The name of an endpoint.
static struct sockaddr_in6 name_of(fid_t fid)
{
	struct sockaddr_in6 name = {0};
	size_t len = sizeof(name);
	MUST(fi_getname(fid, &name, &len));
	return name;
}

// A UDP socket at an address, or -1 where it is in use.
static int socket_at(const void *address, size_t len)
{
	int socket_ = socket(((const struct sockaddr *)address)->sa_family, SOCK_DGRAM, 0);
	CHECK(socket_ >= 0);
	if (bind(socket_, address, (socklen_t)len) == 0)
		return socket_;
	CHECK(errno == EADDRINUSE);
	close(socket_);
	return -1;
}

static void kept_after_errors(struct fi_info *info, struct fid_fabric *fabric,
			      struct fid_domain *domain)
{
	struct fid_pep *pep;
	struct fid_ep *ep;
	struct fi_info *v6 = info_on("::1", hints);
	struct fid_fabric *fabric6;
	MUST(fi_fabric(v6->fabric_attr, &fabric6, NULL));
	MUST(fi_passive_ep(fabric, info, &pep, NULL));
	struct sockaddr_in6 before = name_of(&pep->fid), taken = before;
	// Another port, which is in use.
	((struct sockaddr_in *)&taken)->sin_port = 0;
	int other = socket_at(&taken, sizeof(struct sockaddr_in));
	socklen_t len = sizeof(taken);
	CHECK(getsockname(other, (struct sockaddr *)&taken, &len) == 0);
	EXPECT(FI_EADDRINUSE, fi_setname(&pep->fid, &taken, sizeof(struct sockaddr_in)));
	struct sockaddr_in6 after = name_of(&pep->fid);
	CHECK(!memcmp(&after, &before, sizeof(struct sockaddr_in)));
	CHECK(socket_at(&before, sizeof(struct sockaddr_in)) < 0);
	close(other);
	// The own address, and another one.
	EXPECT(0, fi_setname(&pep->fid, &before, sizeof(struct sockaddr_in)));
	EXPECT(0, fi_setname(&pep->fid, &taken, sizeof(struct sockaddr_in)));
	EXPECT(0, fi_close(&pep->fid));

	// An endpoint of a domain of the other family cannot have the address.
	MUST(fi_passive_ep(fabric6, v6, &pep, NULL));
	before = name_of(&pep->fid);
	info->handle = &pep->fid;
	EXPECT(FI_EADDRNOTAVAIL, fi_endpoint(domain, info, &ep, NULL));
	info->handle = NULL;
	after = name_of(&pep->fid);
	CHECK(!memcmp(&after, &before, sizeof(before)));
	CHECK(socket_at(&before, sizeof(before)) < 0);
	EXPECT(0, fi_close(&pep->fid));
	EXPECT(0, fi_close(&fabric6->fid));
	fi_freeinfo(v6);
}

// The next event of a queue must be this one.
static void expect_event(struct fid_eq *from, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	uint32_t event = 0;
	ssize_t got = fi_eq_sread(from, &event, entry, sizeof(*entry), 10000, 0);
	CHECK(got == sizeof(*entry) && event == wanted);
	if (failures)
		exit(1);
}

static void freed_though_a_connection_is_open(struct fi_info *info, struct fid_fabric *fabric,
					      struct fid_domain *domain)
{
	struct fid_pep *pep;
	struct fid_ep *client, *server;
	struct fid_eq *events;
	struct fi_eq_cm_entry entry;
	MUST(fi_eq_open(fabric, &eq_attr, &events, NULL));
	MUST(fi_passive_ep(fabric, info, &pep, NULL));
	MUST(fi_pep_bind(pep, &queue->fid, 0));
	MUST(fi_listen(pep));
	struct sockaddr_in6 name = name_of(&pep->fid);
	MUST(fi_endpoint(domain, info, &client, NULL));
	MUST(fi_ep_bind(client, &events->fid, 0));
	MUST(fi_connect(client, &name, NULL, 0));
	expect_event(queue, FI_CONNREQ, &entry);
	MUST(fi_endpoint(domain, entry.info, &server, NULL));
	fi_freeinfo(entry.info);
	MUST(fi_ep_bind(server, &queue->fid, 0));
	MUST(fi_accept(server, NULL, 0));
	expect_event(events, FI_CONNECTED, &entry);
	expect_event(queue, FI_CONNECTED, &entry);
	EXPECT(0, fi_close(&pep->fid));

	// The peer may not have confirmed the acceptance yet.
	double end = seconds() + 10;
	MUST(fi_passive_ep(fabric, info, &pep, NULL));
	while (fi_setname(&pep->fid, &name, sizeof(struct sockaddr_in)) && seconds() < end)
		usleep(1000);
	struct sockaddr_in6 again = name_of(&pep->fid);
	CHECK(!memcmp(&again, &name, sizeof(struct sockaddr_in)));
	MUST(fi_pep_bind(pep, &queue->fid, 0));
	EXPECT(0, fi_listen(pep));
	EXPECT(0, fi_shutdown(client, 0));
	expect_event(queue, FI_SHUTDOWN, &entry);
	CHECK(entry.fid == &server->fid);
	EXPECT(0, fi_close(&server->fid));
	EXPECT(0, fi_close(&client->fid));
	EXPECT(0, fi_close(&pep->fid));
	EXPECT(0, fi_close(&events->fid));
}

int main(void)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	hints = hints_for_us();
	hints->ep_attr->type = FI_EP_MSG;
	struct fi_info *info = info_on("127.0.0.1", hints);
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_eq_open(fabric, &eq_attr, &queue, NULL));
	kept_after_errors(info, fabric, domain);
	freed_though_a_connection_is_open(info, fabric, domain);
	EXPECT(0, fi_close(&queue->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return test_status("listen");
}
