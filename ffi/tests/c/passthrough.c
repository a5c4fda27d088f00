// SPDX-License-Identifier: MIT OR Apache-2.0
// An application's view of hardware that is passed through: offers, names, objects. The mock
// provider (mock.c) is the hardware; the test that starts this program reads its log.

#include "common.h"
#include "mock.h"

static struct fi_info *all(const struct fi_info *hints)
{
	struct fi_info *found = NULL;
	int status = fi_getinfo(VERSION, NULL, NULL, 0, hints, &found);
	return status ? NULL : found;
}

static struct fi_info *mock_hints(const char *provider)
{
	struct fi_info *hints = fi_allocinfo();
	hints->fabric_attr->prov_name = provider ? strdup(provider) : NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_RMA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL;
	return hints;
}

static int is_passed(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->prov_name, "xdp") &&
	       !strncmp(info->domain_attr->name, "mock:", 5);
}

static int count(const struct fi_info *list, int (*wanted)(const struct fi_info *))
{
	int number = 0;
	for (; list; list = list->next)
		number += wanted(list);
	return number;
}

static int is_ours(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->prov_name, "xdp") && !is_passed(info);
}

// Prints the offers, which the test compares.
static void list(const char *provider)
{
	struct fi_info *hints = mock_hints(provider), *found = all(hints);
	for (struct fi_info *info = found; info; info = info->next)
		if (!strncmp(info->fabric_attr->prov_name, "xdp", 3) ||
		    !strncmp(info->fabric_attr->prov_name, "mock", 4))
			printf("offer %s %s %s\n", info->fabric_attr->prov_name,
			       info->fabric_attr->name, info->domain_attr->name);
	if (!found)
		printf("no offer\n");
	fi_freeinfo(found);
	fi_freeinfo(hints);
}

static void first_and_once(void)
{
	struct fi_info *hints = mock_hints("xdp"), *found = all(hints);
	CHECK(found && is_passed(found) && found->next && is_passed(found->next));
	CHECK(found && !strcmp(found->domain_attr->name, "mock:mock0"));
	CHECK(found && !strcmp(found->next->domain_attr->name, "mock:mock1"));
	CHECK(found && !strcmp(found->fabric_attr->name, "mock:net:7"));
	CHECK(found && found->ep_attr->protocol == 0x80006d6b);
	CHECK(count(found, is_passed) == 2 && count(found, is_ours) > 0);
	fi_freeinfo(found);
	// Without hints the offers of the hardware are in the list, too.
	found = all(NULL);
	CHECK(count(found, is_passed) == 2);
	fi_freeinfo(found);
	// Hints without any attributes.
	struct fi_info bare = {.mode = ~0ULL};
	found = all(&bare);
	CHECK(found != NULL);
	fi_freeinfo(found);
	// Capabilities that the hardware lacks are offered by this provider alone.
	hints->caps = FI_TAGGED;
	found = all(hints);
	CHECK(count(found, is_passed) == 0 && count(found, is_ours) > 0);
	fi_freeinfo(found);
	fi_freeinfo(hints);
}

static void by_name(const char *domain, const char *fabric, int passed)
{
	struct fi_info *hints = mock_hints("xdp"), *found;
	hints->domain_attr->name = domain ? strdup(domain) : NULL;
	hints->fabric_attr->name = fabric ? strdup(fabric) : NULL;
	found = all(hints);
	if (count(found, is_passed) != passed || count(found, is_ours) > 0)
		printf("domain %s, fabric %s: %d passed through, %d ours\n", domain ? domain : "-",
		       fabric ? fabric : "-", count(found, is_passed), count(found, is_ours));
	CHECK(count(found, is_passed) == passed && count(found, is_ours) == 0);
	fi_freeinfo(found);
	fi_freeinfo(hints);
}

static void named(void)
{
	by_name("mock:mock1", NULL, 1);
	by_name("MOCK:mock0", "mock:net:7", 1);
	by_name("mock:mock2", NULL, 0);
	by_name("mock1", NULL, 0);
	by_name(NULL, "mock:net:7", 2);
	by_name(NULL, "mock:net", 0);
	by_name("other:mock1", NULL, 0);
}

struct opened {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
};

static void open_all(struct fi_info *info, struct opened *it)
{
	MUST(fi_fabric(info->fabric_attr, &it->fabric, &it->fabric));
	MUST(fi_domain(it->fabric, info, &it->domain, &it->domain));
	MUST(fi_endpoint(it->domain, info, &it->ep, &it->ep));
}

static void close_all(struct opened *it)
{
	EXPECT(0, fi_close(&it->ep->fid));
	EXPECT(0, fi_close(&it->domain->fid));
	EXPECT(0, fi_close(&it->fabric->fid));
}

// Every call that takes a fi_info, with one that the application was shown. The opened objects are
// the hardware's own.
static void objects(void)
{
	struct fi_info *hints = mock_hints("xdp"), *found = all(hints);
	struct opened it, again;
	struct fid_ep *ep;
	struct fid_domain *domain;
	struct fid_pep *pep;
	struct fid_cq *cq;
	open_all(found->next, &it);
	CHECK(it.fabric->fid.context == &it.fabric && it.domain->fid.context == &it.domain);
	CHECK(it.ep->fid.context == &it.ep);
	const struct mock_fabric_ops *fabric_ops = (const void *)it.fabric->ops;
	const struct mock_domain_ops *domain_ops = (const void *)it.domain->ops;
	CHECK(fabric_ops->known.size == sizeof(*fabric_ops) && fabric_ops->answer() == MOCK_ANSWER);
	CHECK(domain_ops->known.size == sizeof(*domain_ops));
	CHECK(it.ep->rma == domain_ops->rma_table(it.domain));
	CHECK(fabric_ops->known.eq_open == NULL && domain_ops->known.av_open == NULL);
	EXPECT(0, fi_write(it.ep, NULL, 0, NULL, 0, 0, 0, NULL));
	MUST(fi_cq_open(it.domain, NULL, &cq, NULL));
	EXPECT(0, fi_close(&cq->fid));
	MUST(fi_scalable_ep(it.domain, found->next, &ep, NULL));
	EXPECT(0, fi_close(&ep->fid));
	MUST(it.domain->ops->endpoint2(it.domain, found->next, &ep, 8, NULL));
	EXPECT(0, fi_close(&ep->fid));
	MUST(it.fabric->ops->domain2(it.fabric, found->next, &domain, 8, NULL));
	MUST(fi_endpoint(domain, found, &ep, NULL));
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(0, fi_close(&domain->fid));
	MUST(fi_passive_ep(it.fabric, found, &pep, NULL));
	EXPECT(0, fi_close(&pep->fid));
	EXPECT(FI_EINVAL, fi_domain(it.fabric, NULL, &domain, NULL));
	// The objects are opened a second time, and closed in another order.
	open_all(found, &again);
	CHECK(again.domain->ops == it.domain->ops && again.fabric->ops == it.fabric->ops);
	close_all(&it);
	MUST(fi_endpoint(again.domain, found, &ep, NULL));
	EXPECT(0, fi_close(&ep->fid));
	close_all(&again);
	// A domain name that does not exist.
	free(found->domain_attr->name);
	found->domain_attr->name = strdup("mock:mock9");
	MUST(fi_fabric(found->fabric_attr, &it.fabric, NULL));
	EXPECT(FI_EINVAL, fi_domain(it.fabric, found, &domain, NULL));
	EXPECT(0, fi_close(&it.fabric->fid));
	free(found->fabric_attr->name);
	found->fabric_attr->name = strdup("mock:elsewhere");
	EXPECT(FI_ENODATA, fi_fabric(found->fabric_attr, &it.fabric, NULL));
	fi_freeinfo(found);
	fi_freeinfo(hints);
}

// The hardware's own offers and objects are as they are without this provider.
static void beside(void)
{
	struct fi_info *hints = mock_hints("xdp"), *shown = all(hints);
	struct opened ours, own;
	fi_freeinfo(hints);
	hints = mock_hints("mock");
	struct fi_info *direct = all(hints);
	CHECK(direct && !strcmp(direct->fabric_attr->prov_name, "mock"));
	open_all(shown, &ours);
	open_all(direct, &own);
	CHECK(own.domain->ops != ours.domain->ops && own.fabric->ops != ours.fabric->ops);
	struct fid_domain *domain;
	// The hardware's own info on a fabric that was passed through.
	MUST(fi_domain(ours.fabric, direct, &domain, NULL));
	EXPECT(0, fi_close(&domain->fid));
	// Hints that name open objects.
	hints->domain_attr->domain = own.domain;
	fi_freeinfo(direct);
	direct = all(hints);
	CHECK(direct != NULL);
	fi_freeinfo(hints);
	hints = mock_hints("xdp");
	hints->domain_attr->domain = ours.domain;
	fi_freeinfo(shown);
	shown = all(hints);
	CHECK(count(shown, is_passed) == 1 && count(shown, is_ours) == 0);
	CHECK(shown && !strcmp(shown->domain_attr->name, "mock:mock0"));
	close_all(&ours);
	close_all(&own);
	fi_freeinfo(shown);
	fi_freeinfo(direct);
	fi_freeinfo(hints);
	// Hints that name a domain of this provider.
	hints = mock_hints("xdp");
	hints->caps = FI_TAGGED;
	shown = all(hints);
	MUST(fi_fabric(shown->fabric_attr, &own.fabric, NULL));
	MUST(fi_domain(own.fabric, shown, &own.domain, NULL));
	hints->caps = FI_RMA;
	hints->domain_attr->domain = own.domain;
	fi_freeinfo(shown);
	shown = all(hints);
	CHECK(count(shown, is_passed) == 0 && count(shown, is_ours) > 0);
	fi_freeinfo(shown);
	fi_freeinfo(hints);
	EXPECT(0, fi_close(&own.domain->fid));
	EXPECT(0, fi_close(&own.fabric->fid));
}

// The calls whose instructions are counted.
__attribute__((noinline)) void count_writes(struct fid_ep *ep, int number)
{
	for (int i = 0; i < number; i++)
		EXPECT(0, fi_write(ep, NULL, 0, NULL, 0, 0, 0, NULL));
}

static void writes(const char *provider)
{
	struct fi_info *hints = mock_hints(provider), *found = all(hints);
	struct opened it;
	CHECK(found && strstr(found->domain_attr->name, "mock0"));
	open_all(found, &it);
	count_writes(it.ep, 1000);
	close_all(&it);
	fi_freeinfo(found);
	fi_freeinfo(hints);
}

int main(int count, char **arguments)
{
	const char *mode = count > 1 ? arguments[1] : "";
	const char *which = count > 2 ? arguments[2] : NULL;
	if (!strcmp(mode, "list"))
		list(which);
	else if (!strcmp(mode, "objects"))
		objects();
	else if (!strcmp(mode, "offers"))
		first_and_once(), named();
	else if (!strcmp(mode, "beside"))
		beside();
	else if (!strcmp(mode, "writes"))
		writes(which);
	else
		failures++;
	return test_status("passthrough");
}
