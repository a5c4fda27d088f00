// SPDX-License-Identifier: MIT OR Apache-2.0
// One interface with two addresses in one network: two offers with the same names, one domain.
// Arguments: the interface, its addresses, a foreign address, and one of the other family.

#include <arpa/inet.h>

#include "common.h"

// The IP address of a socket address as text.
static const char *text(const void *address)
{
	static char buffer[INET6_ADDRSTRLEN];
	const struct sockaddr_in *v4 = address;
	const struct sockaddr_in6 *v6 = address;
	if (v4->sin_family == AF_INET)
		return inet_ntop(AF_INET, &v4->sin_addr, buffer, sizeof(buffer));
	return inet_ntop(AF_INET6, &v6->sin6_addr, buffer, sizeof(buffer));
}

// A copy of an offer with another source.
static struct fi_info *moved(const struct fi_info *offer, const char *to)
{
	struct fi_info *info = fi_dupinfo(offer);
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	free(info->src_addr);
	if (inet_pton(AF_INET, to, &v4.sin_addr) == 1) {
		info->src_addr = memcpy(malloc(sizeof(v4)), &v4, sizeof(v4));
		info->src_addrlen = sizeof(v4);
	} else {
		CHECK(inet_pton(AF_INET6, to, &v6.sin6_addr) == 1);
		info->src_addr = memcpy(malloc(sizeof(v6)), &v6, sizeof(v6));
		info->src_addrlen = sizeof(v6);
	}
	return info;
}

// The offer on an address.
static struct fi_info *on(struct fi_info *offers, const char *address)
{
	for (; offers; offers = offers->next)
		if (!strcmp(text(offers->src_addr), address))
			return offers;
	printf("no offer on %s\n", address);
	exit(1);
}

// An endpoint of the pair on an address.
static void open_on(struct pair *pair, int i, struct fi_info *info, const char *address)
{
	char name[64];
	size_t len = sizeof(name);
	MUST(fi_cq_open(pair->domain, NULL, &pair->cq[i], NULL));
	MUST(fi_endpoint(pair->domain, info, &pair->ep[i], NULL));
	MUST(fi_ep_bind(pair->ep[i], &pair->av->fid, 0));
	MUST(fi_ep_bind(pair->ep[i], &pair->cq[i]->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(pair->ep[i]));
	MUST(fi_getname(&pair->ep[i]->fid, name, &len));
	if (strcmp(text(name), address)) {
		printf("an endpoint for %s is on %s\n", address, text(name));
		failures++;
	}
	CHECK(fi_av_insert(pair->av, name, 1, &pair->addr[i], 0, NULL) == 1);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = hints_for_us(), *offers = NULL, *found = NULL, *info;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_entry entry;
	struct fid_ep *ep;
	struct pair pair;
	char name[64], byte = 1;
	size_t len = sizeof(name);
	if (argc != 6)
		return 2;
	hints->domain_attr->name = strdup(argv[1]);
	MUST(fi_getinfo(VERSION, NULL, NULL, 0, hints, &offers));
	info = on(offers, argv[2]);
	found = on(offers, argv[3]);
	CHECK(!strcmp(info->domain_attr->name, found->domain_attr->name));
	CHECK(!strcmp(info->fabric_attr->name, found->fabric_attr->name));
	MUST(fi_fabric(info->fabric_attr, &pair.fabric, NULL));
	MUST(fi_domain(pair.fabric, info, &pair.domain, NULL));
	MUST(fi_av_open(pair.domain, &av_attr, &pair.av, NULL));
	open_on(&pair, 0, info, argv[2]);
	open_on(&pair, 1, found, argv[3]);
	MUST(fi_recv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	MUST(fi_send(pair.ep[0], &byte, 1, NULL, pair.addr[1], NULL));
	CHECK(next(&pair, 1, &entry, NULL) == 1);
	CHECK(next(&pair, 0, &entry, NULL) == 1);

	// Offers on the open domain are those of both addresses.
	hints->domain_attr->domain = pair.domain;
	EXPECT(0, fi_getinfo(VERSION, NULL, NULL, 0, hints, &found));
	on(found, argv[2]);
	on(found, argv[3]);
	fi_freeinfo(found);

	// An address that the interface does not have is refused; without an address the endpoint takes
	// the domain's.
	for (int i = 4; i <= 5; i++) {
		found = moved(info, argv[i]);
		EXPECT(FI_EADDRNOTAVAIL, fi_endpoint(pair.domain, found, &ep, NULL));
		fi_freeinfo(found);
	}
	found = moved(info, info->addr_format == FI_SOCKADDR_IN ? "0.0.0.0" : "::");
	MUST(fi_endpoint(pair.domain, found, &ep, NULL));
	MUST(fi_getname(&ep->fid, name, &len));
	CHECK(!strcmp(text(name), argv[2]));
	EXPECT(0, fi_close(&ep->fid));
	fi_freeinfo(found);

	pair.info = offers;
	pair_close(&pair);
	fi_freeinfo(hints);
	return test_status("addresses");
}
