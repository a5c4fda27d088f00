// SPDX-License-Identifier: MIT OR Apache-2.0
// A hardware provider that drives nothing, and writes every call into the file that MOCK_LOG
// names. It has two devices, mock0 and mock1, for FI_MSG and FI_RMA. As hardware providers do it
// opens only objects with its own names, and refuses everything else. libfabric loads it as
// libmock-fi.so.

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "mock.h"

#define CAPS                                                                                       \
	(FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
// A name with a colon in it, as those of verbs' fabrics may have.
#define FABRIC "net:7"

static void note(const char *format, ...)
{
	const char *path = getenv("MOCK_LOG");
	FILE *file = path ? fopen(path, "a") : NULL;
	va_list arguments;
	if (!file)
		return;
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	fputc('\n', file);
	fclose(file);
}

static const char *or_dash(const char *text)
{
	return text ? text : "-";
}

static int is_ours(const struct fi_info *info)
{
	const char *domain = info->domain_attr->name;
	return !strcmp(or_dash(info->fabric_attr->prov_name), "mock") &&
	       !strcmp(or_dash(info->fabric_attr->name), FABRIC) && domain &&
	       (!strcmp(domain, "mock0") || !strcmp(domain, "mock1"));
}

static void note_info(const char *call, const struct fi_info *info)
{
	note("%s %s %s %s", call, or_dash(info->fabric_attr->prov_name),
	     or_dash(info->fabric_attr->name), or_dash(info->domain_attr->name));
}

// The domain that was opened first on each device, which offers name as libfabric's utility code
// has them do.
static struct fid_domain *first_open[2];

static int close_fid(struct fid *fid)
{
	for (int i = 0; i < 2; i++)
		if (first_open[i] && fid == &first_open[i]->fid)
			first_open[i] = NULL;
	note("close %zu", fid->fclass);
	free(fid);
	return 0;
}

static int bind_fid(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void)fid, (void)other, (void)flags;
	return 0;
}

static int control_fid(struct fid *fid, int command, void *argument)
{
	(void)argument;
	note("control %zu %d", fid->fclass, command);
	return 0;
}

static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops), .close = close_fid, .bind = bind_fid, .control = control_fid,
};

static ssize_t write_rma(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
			 uint64_t addr, uint64_t key, void *context)
{
	(void)ep, (void)buf, (void)len, (void)desc, (void)to, (void)addr, (void)key, (void)context;
	return 0;
}

static struct fi_ops_rma rma_ops = {.size = sizeof(rma_ops), .write = write_rma};

static const struct fi_ops_rma *rma_table(struct fid_domain *domain)
{
	(void)domain;
	return &rma_ops;
}

static int open_endpoint(const char *call, struct fi_info *info, struct fid_ep **ep, void *context)
{
	note_info(call, info);
	if (!is_ours(info))
		return -FI_EINVAL;
	*ep = calloc(1, sizeof(**ep));
	(*ep)->fid.fclass = FI_CLASS_EP;
	(*ep)->fid.context = context;
	(*ep)->fid.ops = &fid_ops;
	(*ep)->rma = &rma_ops;
	return 0;
}

static int endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		     void *context)
{
	(void)domain;
	return open_endpoint("endpoint", info, ep, context);
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		     uint64_t flags, void *context)
{
	(void)domain;
	return flags == 8 ? open_endpoint("endpoint2", info, ep, context) : -FI_EBADFLAGS;
}

static int scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		     void *context)
{
	(void)domain;
	return open_endpoint("scalable_ep", info, ep, context);
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		     void *context)
{
	(void)domain, (void)attr;
	note("cq_open");
	*cq = calloc(1, sizeof(**cq));
	(*cq)->fid.fclass = FI_CLASS_CQ;
	(*cq)->fid.context = context;
	(*cq)->fid.ops = &fid_ops;
	return 0;
}

static struct mock_domain_ops domain_ops = {
	.known = {
		.size = sizeof(struct mock_domain_ops),
		.cq_open = cq_open,
		.endpoint = endpoint,
		.scalable_ep = scalable_ep,
		.endpoint2 = endpoint2,
	},
	.rma_table = rma_table,
};

static int open_domain(const char *call, struct fi_info *info, struct fid_domain **domain,
		     void *context)
{
	note_info(call, info);
	if (!is_ours(info))
		return -FI_EINVAL;
	*domain = calloc(1, sizeof(**domain));
	(*domain)->fid.fclass = FI_CLASS_DOMAIN;
	(*domain)->fid.context = context;
	(*domain)->fid.ops = &fid_ops;
	(*domain)->ops = &domain_ops.known;
	struct fid_domain **first = &first_open[info->domain_attr->name[4] - '0'];
	if (!*first)
		*first = *domain;
	return 0;
}

static int domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		     void *context)
{
	(void)fabric;
	return open_domain("domain", info, domain, context);
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		   uint64_t flags, void *context)
{
	(void)fabric;
	return flags == 8 ? open_domain("domain2", info, domain, context) : -FI_EBADFLAGS;
}

static int passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
		     void *context)
{
	(void)fabric;
	note_info("passive_ep", info);
	if (!is_ours(info))
		return -FI_EINVAL;
	*pep = calloc(1, sizeof(**pep));
	(*pep)->fid.fclass = FI_CLASS_PEP;
	(*pep)->fid.context = context;
	(*pep)->fid.ops = &fid_ops;
	return 0;
}

static int answer(void)
{
	return MOCK_ANSWER;
}

static struct mock_fabric_ops fabric_ops = {
	.known = {
		.size = sizeof(struct mock_fabric_ops),
		.domain = domain,
		.passive_ep = passive_ep,
		.domain2 = domain2,
	},
	.answer = answer,
};

static int fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	note("fabric %s %s", or_dash(attr->prov_name), or_dash(attr->name));
	if (!attr->name || strcmp(attr->name, FABRIC))
		return -FI_ENODATA;
	*fabric = calloc(1, sizeof(**fabric));
	(*fabric)->fid.fclass = FI_CLASS_FABRIC;
	(*fabric)->fid.context = context;
	(*fabric)->fid.ops = &fid_ops;
	(*fabric)->ops = &fabric_ops.known;
	return 0;
}

// Structures must have the running library's size, so its default symbols make them.
static struct fi_info *empty(void)
{
	struct fi_info *(*dup)(const struct fi_info *);
	*(void **)&dup = dlsym(RTLD_DEFAULT, "fi_dupinfo");
	return dup ? dup(NULL) : NULL;
}

static struct fi_info *device(const char *name)
{
	struct fi_info *info = empty();
	info->caps = info->tx_attr->caps = info->rx_attr->caps = CAPS;
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->protocol = 0x80006d6b;
	info->fabric_attr->name = strdup(FABRIC);
	info->domain_attr->name = strdup(name);
	info->domain_attr->domain = first_open[name[4] - '0'];
	info->domain_attr->mr_mode = FI_MR_LOCAL;
	return info;
}

static int same(const char *wanted, const char *name)
{
	return !wanted || !strcmp(wanted, name);
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **found)
{
	static __thread int inside;
	struct fi_info **next = found;
	const struct fi_fabric_attr *fabric = hints ? hints->fabric_attr : NULL;
	const struct fi_domain_attr *domain = hints ? hints->domain_attr : NULL;
	static const char *const names[] = {"mock0", "mock1", "mock1"};
	note("getinfo %s %s %s %s", or_dash(fabric ? fabric->prov_name : NULL),
	     or_dash(fabric ? fabric->name : NULL), or_dash(domain ? domain->name : NULL),
	     domain && domain->domain ? "open" : "-");
	(void)version, (void)node, (void)service, (void)flags;
	if (getenv("MOCK_ASKS") && !inside) {
		// Like a utility provider, it queries all providers, including the one that queries it.
		int (*ask)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
			   struct fi_info **);
		void (*forget)(struct fi_info *);
		struct fi_info *all = NULL;
		*(void **)&ask = dlsym(RTLD_DEFAULT, "fi_getinfo");
		*(void **)&forget = dlsym(RTLD_DEFAULT, "fi_freeinfo");
		inside = 1;
		if (!ask(version, NULL, NULL, 0, NULL, &all)) {
			int passed = 0;
			for (struct fi_info *info = all; info; info = info->next)
				passed += !strncmp(or_dash(info->domain_attr->name), "mock:", 5);
			note("asked %d", passed);
			forget(all);
		}
		inside = 0;
	}
	// Memory has to be registered. Hints without attributes do not promise that.
	if (hints && (hints->caps & ~(uint64_t)CAPS || !domain || !(domain->mr_mode & FI_MR_LOCAL)))
		return -FI_ENODATA;
	if (hints && hints->ep_attr && hints->ep_attr->type && hints->ep_attr->type != FI_EP_RDM)
		return -FI_ENODATA;
	*found = NULL;
	// The second device is offered twice, which passthrough must hide.
	for (int i = 0; i < 3; i++) {
		if (!same(fabric ? fabric->name : NULL, FABRIC) ||
		    !same(domain ? domain->name : NULL, names[i]))
			continue;
		*next = device(names[i]);
		next = &(*next)->next;
	}
	return *found ? 0 : -FI_ENODATA;
}

static void cleanup(void)
{
	note("cleanup");
}

static struct fi_provider provider = {
	.version = FI_VERSION(3, 1),
	.fi_version = FI_VERSION(1, 17),
	.name = "mock",
	.getinfo = getinfo,
	.fabric = fabric,
	.cleanup = cleanup,
};

FI_EXT_INI
{
	// As efa, psm3 and cxi: no utility provider over it (struct ofi_prov_context, ofi.h).
	((bool *)&provider.context)[5] = true;
	return &provider;
}
