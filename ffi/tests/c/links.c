// SPDX-License-Identifier: MIT OR Apache-2.0
// Changes of a link under open objects: a larger MTU, a lost carrier. Arguments: an interface and
// its address.

#include <arpa/inet.h>

#include "common.h"

static struct fi_info *hints;

static void change(const char *format, const char *interface)
{
	char command[128];
	snprintf(command, sizeof(command), format, interface);
	CHECK(system(command) == 0);
}

// An offer of datagrams that is newer than the domain has longer ones.
static void raised_mtu(const char *interface, const char *address)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	hints->ep_attr->type = FI_EP_DGRAM;
	struct fi_info *before = info_on(address, hints);
	MUST(fi_fabric(before->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, before, &domain, NULL));
	change("ip link set %s mtu 4000", interface);
	struct fi_info *after = info_on(address, hints);
	CHECK(after->ep_attr->max_msg_size > before->ep_attr->max_msg_size);
	EXPECT(0, fi_endpoint(domain, after, &ep, NULL));
	EXPECT(0, fi_close(&ep->fid));
	change("ip link set %s mtu 1500", interface);
	// The older and the newer offer are as good as before the change.
	EXPECT(0, fi_endpoint(domain, before, &ep, NULL));
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(FI_EINVAL, fi_endpoint(domain, after, &ep, NULL));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(before);
	fi_freeinfo(after);
}

// The kernel receives at an address of a link without a carrier: a listener on all addresses takes
// the request.
static void lost_carrier(const char *address)
{
	struct fi_info *found = NULL, *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *queue;
	struct fid_pep *pep;
	struct fid_ep *client, *server;
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_eq_cm_entry entry;
	uint32_t event = 0;
	struct sockaddr_in6 name = {0};
	size_t len = sizeof(name);
	hints->ep_attr->type = FI_EP_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	info = info_on(address, hints);
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_eq_open(fabric, &eq_attr, &queue, NULL));
	hints->fabric_attr->name = strdup(info->fabric_attr->name);
	MUST(fi_getinfo(VERSION, NULL, "7471", FI_SOURCE, hints, &found));
	MUST(fi_passive_ep(fabric, found, &pep, NULL));
	MUST(fi_pep_bind(pep, &queue->fid, 0));
	MUST(fi_listen(pep));
	MUST(fi_getname(&pep->fid, &name, &len));
	CHECK(((struct sockaddr_in *)&name)->sin_addr.s_addr == INADDR_ANY);
	MUST(fi_endpoint(domain, info, &client, NULL));
	MUST(fi_ep_bind(client, &queue->fid, 0));
	change("ip link set %s down", "x1");
	CHECK(inet_pton(AF_INET, address, &((struct sockaddr_in *)&name)->sin_addr) == 1);
	MUST(fi_connect(client, &name, NULL, 0));
	EXPECT(-sizeof(entry), fi_eq_sread(queue, &event, &entry, sizeof(entry), 10000, 0));
	CHECK(event == FI_CONNREQ);
	if (failures)
		exit(1);
	CHECK(!strcmp(entry.info->domain_attr->name, found->domain_attr->name));
	EXPECT(0, fi_endpoint(domain, entry.info, &server, NULL));
	fi_freeinfo(entry.info);
	EXPECT(0, fi_ep_bind(server, &queue->fid, 0));
	EXPECT(0, fi_accept(server, NULL, 0));
	for (int i = 0; i < 2; i++) {
		EXPECT(-sizeof(entry), fi_eq_sread(queue, &event, &entry, sizeof(entry), 10000, 0));
		CHECK(event == FI_CONNECTED);
	}
	EXPECT(0, fi_close(&server->fid));
	EXPECT(0, fi_close(&client->fid));
	EXPECT(0, fi_close(&pep->fid));
	EXPECT(0, fi_close(&queue->fid));
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(found);
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	hints = hints_for_us();
	raised_mtu(argv[1], argv[2]);
	lost_carrier(argv[2]);
	fi_freeinfo(hints);
	return test_status("links");
}
