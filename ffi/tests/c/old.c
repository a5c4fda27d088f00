// SPDX-License-Identifier: MIT OR Apache-2.0
// Applications of interface versions before 1.5: a listing for each version, down to none at all,
// and error entries that end in front of `err_data_size`.

#include <stddef.h>

#include "common.h"

#define OLD FI_VERSION(1, 4)

// An error entry of an old application, in front of memory that is not the entry's.
union cq_error {
	struct fi_cq_err_entry entry;
	struct {
		char known[offsetof(struct fi_cq_err_entry, err_data_size)];
		unsigned char behind[64];
	};
};
union eq_error {
	struct fi_eq_err_entry entry;
	struct {
		char known[offsetof(struct fi_eq_err_entry, err_data_size)];
		unsigned char behind[64];
	};
};

static int untouched(const unsigned char *bytes, size_t count)
{
	while (count > 0 && bytes[count - 1] == 0xa5)
		count--;
	return count == 0;
}

// Without hints, as an application asks that lists the providers first.
static void listing(uint32_t version)
{
	struct fi_info *all = NULL;
	int ours = 0;
	EXPECT(0, fi_getinfo(version, NULL, NULL, 0, NULL, &all));
	for (struct fi_info *info = all; info; info = info->next)
		ours += !strcmp(info->fabric_attr->prov_name, "xdp");
	CHECK(ours > 0);
	fi_freeinfo(all);
}

static void truncated(struct pair *pair)
{
	char to[4], from[8] = "too long";
	struct fi_cq_msg_entry entry;
	union cq_error error;
	memset(&error, 0xa5, sizeof(error));
	MUST(fi_recv(pair->ep[1], to, sizeof(to), NULL, FI_ADDR_UNSPEC, to));
	MUST(fi_send(pair->ep[0], from, sizeof(from), NULL, pair->addr[1], from));
	CHECK(next(pair, 1, &entry, NULL) == -FI_EAVAIL);
	CHECK(fi_cq_readerr(pair->cq[1], &error.entry, 0) == 1);
	CHECK(error.entry.err == FI_ETRUNC && error.entry.op_context == to && error.entry.olen == 4);
	CHECK(error.entry.err_data == NULL && untouched(error.behind, sizeof(error.behind)));
	EXPECT(FI_EINVAL, fi_cq_readerr(pair->cq[1], NULL, 0));
}

static void event(struct pair *pair)
{
	struct fi_av_attr av_attr = {.type = FI_AV_MAP, .flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	char no_address[28] = {0};
	union eq_error error;
	struct fi_eq_entry entry;
	struct fid_av *av;
	struct fid_eq *eq;
	fi_addr_t index;
	uint32_t code;
	memset(&error, 0xa5, sizeof(error));
	MUST(fi_av_open(pair->domain, &av_attr, &av, NULL));
	MUST(fi_eq_open(pair->fabric, &eq_attr, &eq, NULL));
	EXPECT(0, fi_av_bind(av, &eq->fid, 0));
	EXPECT(0, fi_av_insert(av, no_address, 1, &index, 0, no_address));
	EXPECT(FI_EAVAIL, fi_eq_sread(eq, &code, &entry, sizeof(entry), 1000, 0));
	CHECK(fi_eq_readerr(eq, &error.entry, 0) == (ssize_t)sizeof(error.known));
	CHECK(error.entry.err == FI_EINVAL && error.entry.context == no_address);
	CHECK(untouched(error.behind, sizeof(error.behind)));
	EXPECT(0, fi_close(&av->fid));
	EXPECT(0, fi_close(&eq->fid));
}

int main(void)
{
	struct fi_info *hints = hints_for_us(), *info = NULL;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
	struct pair pair;
	listing(0);
	for (uint32_t minor = 0; minor <= 5; minor++)
		listing(FI_VERSION(1, minor));
	MUST(fi_getinfo(OLD, "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	CHECK(info->domain_attr->mr_mode == FI_MR_SCALABLE);
	pair_open(&pair, info, &cq_attr, 0);
	truncated(&pair);
	event(&pair);
	pair_close(&pair);
	fi_freeinfo(hints);
	return test_status("old");
}
