// SPDX-License-Identifier: MIT OR Apache-2.0
// A message of 4 GiB and 5 bytes: lengths and offsets beyond 32 bits. Takes 8 GiB of memory. The
// argument is the address to use.

#include "common.h"

#define LEN ((4ull << 30) + 5)

static uint64_t word(uint64_t n)
{
	n *= 0x9e3779b97f4a7c15ull;
	return n ^ n >> 29;
}

int main(int argc, char **argv)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cq_tagged_entry entry = {0};
	struct pair pair;
	pair_open(&pair, info_on(argc > 1 ? argv[1] : "127.0.0.1", hints_for_us()), &attr, 0);
	CHECK(pair.info->ep_attr->max_msg_size >= LEN);
	// Longer than a page behind the end, which must stay as it was.
	uint64_t *sent = malloc(LEN + 8), *got = calloc(1, LEN + 4096);
	CHECK(sent && got);
	for (uint64_t n = 0; n <= LEN / 8; n++)
		sent[n] = word(n);
	double start = seconds();
	MUST(fi_trecv(pair.ep[1], got, LEN + 3, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	MUST(fi_tsend(pair.ep[0], sent, LEN, NULL, pair.addr[1], 1, NULL));
	ssize_t status;
	while ((status = next(&pair, 1, &entry, NULL)) == -FI_ETIMEDOUT && seconds() - start < 600)
		;
	CHECK(status == 1 && entry.len == LEN);
	CHECK(next(&pair, 0, &entry, NULL) == 1);
	printf("%.1f s\n", seconds() - start);
	CHECK(!memcmp(sent, got, LEN));
	for (size_t n = LEN; n < LEN + 4096; n++)
		CHECK(!((char *)got)[n]);
	pair_close(&pair);
	return test_status("large");
}
