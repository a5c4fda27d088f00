// SPDX-License-Identifier: MIT OR Apache-2.0
// FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV, FI_SOURCE_ERR, FI_DIRECTED_RECV and FI_FENCE, as in
// fi_msg(3), fi_tagged(3), fi_cq(3) and fi_endpoint(3). They are used between two endpoints of one
// process and from one to itself. The argument is the address to use.

#include "common.h"

#define TAG 0x7a6

static struct pair pair;
static char sent[1 << 17], got[1 << 17];
static struct fi_context2 contexts[4];
static const size_t lengths[] = {0, 20, 5000, 100000};

static void fill(size_t len)
{
	for (size_t n = 0; n < len; n++)
		sent[n] = (char)rand();
	memset(got, 0, sizeof(got));
}

static void open_on(const char *address, uint64_t caps, uint64_t cq_flags)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_info *hints = hints_for_us();
	hints->caps = caps;
	pair_open(&pair, info_on(address, hints), &attr, cq_flags);
	fi_freeinfo(hints);
}

// The next completion of endpoint `which`, which must be a success.
static struct fi_cq_tagged_entry success(int which)
{
	struct fi_cq_tagged_entry entry = {0};
	ssize_t status = next(&pair, which, &entry, NULL);
	CHECK(status == 1);
	if (status == -FI_EAVAIL) {
		struct fi_cq_err_entry error = {0};
		CHECK(fi_cq_readerr(pair.cq[which], &error, 0) == 1);
		printf("error: %s\n", fi_strerror(error.err));
	}
	return entry;
}

static struct fi_cq_err_entry failure(int which)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	EXPECT(FI_EAVAIL, next(&pair, which, &entry, NULL));
	CHECK(fi_cq_readerr(pair.cq[which], &error, 0) == 1);
	return error;
}

static void nothing(int which)
{
	struct fi_cq_tagged_entry entry;
	EXPECT(FI_EAGAIN, fi_cq_read(pair.cq[which], &entry, 1));
}

static int ask(uint64_t tag, void *buffer, size_t len, void *context, uint64_t flags)
{
	struct iovec iov = {buffer, len};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = buffer ? 1 : 0,
				    .addr = FI_ADDR_UNSPEC, .tag = tag, .context = context};
	return (int)fi_trecvmsg(pair.ep[1], &msg, flags);
}

// Peeks until the message has arrived.
static struct fi_cq_tagged_entry find(void *context, uint64_t flags)
{
	struct fi_cq_tagged_entry entry = {0};
	double end = seconds() + 10;
	while (seconds() < end) {
		MUST(ask(TAG, NULL, 0, context, FI_PEEK | flags));
		ssize_t status = fi_cq_read(pair.cq[1], &entry, 1);
		if (status == 1)
			return entry;
		EXPECT(FI_EAVAIL, status);
		struct fi_cq_err_entry error = {0};
		CHECK(fi_cq_readerr(pair.cq[1], &error, 0) == 1);
		CHECK(error.err == FI_ENOMSG && error.op_context == context);
		CHECK(error.flags == (FI_RECV | FI_TAGGED));
		fi_cq_read(pair.cq[0], NULL, 0);
	}
	CHECK(!"the message has arrived");
	return entry;
}

static void check_found(struct fi_cq_tagged_entry entry, void *context, size_t len)
{
	CHECK(entry.op_context == context && entry.len == len && entry.tag == TAG);
	CHECK(entry.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA) && entry.data == 99);
	CHECK(entry.buf == NULL);
}

static void peeking(void)
{
	struct fid_ep *tx = pair.ep[0], *rx = pair.ep[1];
	fi_addr_t to = pair.addr[1];
	for (size_t n = 0; n < sizeof(lengths) / sizeof(*lengths); n++) {
		size_t len = lengths[n];
		fill(len);
		// A peek, then a receive.
		MUST(fi_tsenddata(tx, sent, len, NULL, 99, to, TAG, &contexts[0]));
		check_found(find(&contexts[2], 0), &contexts[2], len);
		MUST(fi_trecv(rx, got, len, NULL, FI_ADDR_UNSPEC, TAG, 0, &contexts[1]));
		CHECK(success(1).len == len && !memcmp(sent, got, len));
		success(0);

		// A claimed message matches no other receive.
		MUST(fi_tsenddata(tx, sent, len, NULL, 99, to, TAG, &contexts[0]));
		check_found(find(&contexts[2], FI_CLAIM), &contexts[2], len);
		MUST(ask(TAG, NULL, 0, &contexts[1], FI_PEEK));
		CHECK(failure(1).err == FI_ENOMSG);
		EXPECT(FI_EINVAL, ask(TAG, got, len, &contexts[1], FI_CLAIM));
		EXPECT(0, fi_cancel(&rx->fid, &contexts[2]));
		nothing(1);
		memset(got, 0, len);
		MUST(ask(TAG, got, len, &contexts[2], FI_CLAIM));
		struct fi_cq_tagged_entry entry = success(1);
		CHECK(entry.op_context == &contexts[2] && entry.len == len && entry.data == 99);
		CHECK(!memcmp(sent, got, len));
		success(0);
		EXPECT(FI_EINVAL, ask(TAG, got, len, &contexts[2], FI_CLAIM));

		// A message that is discarded, at once or after a claim, completes its send.
		for (int claimed = 0; claimed < 2; claimed++) {
			MUST(fi_tsenddata(tx, sent, len, NULL, 99, to, TAG, &contexts[0]));
			check_found(find(&contexts[2], claimed ? FI_CLAIM : FI_DISCARD),
				    &contexts[2], len);
			if (claimed) {
				MUST(ask(TAG, NULL, 0, &contexts[2], FI_CLAIM | FI_DISCARD));
				check_found(success(1), &contexts[2], len);
			}
			success(0);
			MUST(ask(TAG, NULL, 0, &contexts[1], FI_PEEK));
			CHECK(failure(1).err == FI_ENOMSG);
		}
	}
	// Flags that mean nothing.
	EXPECT(FI_EBADFLAGS, ask(TAG, NULL, 0, NULL, FI_DISCARD));
	EXPECT(FI_EBADFLAGS, ask(TAG, NULL, 0, NULL, FI_PEEK | FI_CLAIM | FI_DISCARD));
	struct fi_msg msg = {.addr = FI_ADDR_UNSPEC};
	EXPECT(FI_EBADFLAGS, fi_recvmsg(rx, &msg, FI_PEEK));
}

static int post_many(void *buffer, size_t len, void *context)
{
	struct iovec iov = {buffer, len};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
			     .context = context};
	return (int)fi_recvmsg(pair.ep[1], &msg, FI_MULTI_RECV);
}

// Messages of every length land one behind the other.
static void sharing(int posted_first)
{
	size_t total = 0, least = 64, size = sizeof(size), count = sizeof(lengths) / sizeof(*lengths);
	for (size_t n = 0; n < count; n++)
		total += lengths[n];
	fill(total);
	EXPECT(0, fi_setopt(&pair.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			    sizeof(least)));
	least = 0;
	EXPECT(0, fi_getopt(&pair.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &size));
	CHECK(least == 64 && size == sizeof(least));
	if (posted_first)
		MUST(post_many(got, total + 63, &contexts[1]));
	char *from = sent;
	for (size_t n = 0; n < count; n++) {
		MUST(fi_senddata(pair.ep[0], from, lengths[n], NULL, n, pair.addr[1], &contexts[0]));
		from += lengths[n];
	}
	if (!posted_first) {
		for (int n = 0; n < 2000; n++) {
			fi_cq_read(pair.cq[0], NULL, 0);
			nothing(1);
		}
		MUST(post_many(got, total + 63, &contexts[1]));
	}
	for (size_t n = 0; n < count; n++) {
		struct fi_cq_tagged_entry entry = success(1);
		CHECK(entry.op_context == &contexts[1] && entry.len == lengths[entry.data]);
		uint64_t last = n + 1 == count ? FI_MULTI_RECV : 0;
		CHECK(entry.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA | last));
		char *expected = got;
		for (size_t m = 0; m < entry.data; m++)
			expected += lengths[m];
		CHECK(entry.buf == expected);
		success(0);
	}
	CHECK(!memcmp(sent, got, total));
}

static void many(void)
{
	sharing(1);
	sharing(0);
	// A message that is longer than the rest of the buffer is truncated.
	fill(300);
	MUST(post_many(got, 200, &contexts[1]));
	MUST(fi_inject(pair.ep[0], sent, 100, pair.addr[1]));
	CHECK(success(1).flags == (FI_RECV | FI_MSG));
	MUST(fi_inject(pair.ep[0], sent + 100, 200, pair.addr[1]));
	struct fi_cq_err_entry error = failure(1);
	CHECK(error.err == FI_ETRUNC && error.len == 100 && error.olen == 100);
	CHECK((error.flags & FI_MULTI_RECV) && error.buf == got + 100);
	CHECK(!memcmp(sent, got, 200));
	// Cancelled.
	MUST(post_many(got, 200, &contexts[1]));
	EXPECT(0, fi_cancel(&pair.ep[1]->fid, &contexts[1]));
	error = failure(1);
	CHECK(error.err == FI_ECANCELED && (error.flags & FI_MULTI_RECV));
	CHECK(error.op_context == &contexts[1]);
	// As a default flag, FI_MULTI_RECV is for untagged receives only.
	uint64_t flags = FI_RECV | FI_MULTI_RECV;
	EXPECT(0, fi_control(&pair.ep[1]->fid, FI_SETOPSFLAG, &flags));
	MUST(fi_recv(pair.ep[1], got, 120, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_trecv(pair.ep[1], got, 120, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[2]));
	MUST(fi_tinject(pair.ep[0], sent, 100, pair.addr[1], 1));
	CHECK(success(1).flags == (FI_RECV | FI_TAGGED));
	MUST(fi_inject(pair.ep[0], sent, 20, pair.addr[1]));
	CHECK(success(1).flags == (FI_RECV | FI_MSG));
	MUST(fi_inject(pair.ep[0], sent, 100, pair.addr[1]));
	CHECK(success(1).flags == (FI_RECV | FI_MSG | FI_MULTI_RECV));
	// A tagged multi-receive buffer needs the flag in its call.
	struct iovec iov = {got, 100};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
				    .tag = 8, .ignore = 7, .context = &contexts[1]};
	MUST(fi_trecvmsg(pair.ep[1], &msg, FI_MULTI_RECV));
	for (uint64_t tag = 8; tag < 10; tag++) {
		MUST(fi_tinject(pair.ep[0], sent, 30, pair.addr[1], tag));
		struct fi_cq_tagged_entry entry = success(1);
		CHECK(entry.tag == tag && entry.buf == got + 30 * (tag - 8));
		CHECK(!(entry.flags & FI_MULTI_RECV) == (tag == 8));
	}
	size_t size = 4;
	EXPECT(FI_EINVAL, fi_setopt(&pair.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, 4));
	EXPECT(FI_ETOOSMALL, fi_getopt(&pair.ep[1]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
				       &flags, &size));
	CHECK(size == sizeof(size));
	EXPECT(FI_ENOPROTOOPT, fi_getopt(&pair.ep[1]->fid, FI_OPT_ENDPOINT, 99, &flags, &size));
}

// More messages than slots, while no completion is read.
static void many_unread(void)
{
	size_t count = 2 * pair.info->rx_attr->size, got_all = 0;
	CHECK(count * 16 <= sizeof(got));
	fill(count * 16);
	MUST(post_many(got, count * 16 + 63, &contexts[1]));
	for (size_t n = 0; n < count; n++) {
		ssize_t status;
		while ((status = fi_inject(pair.ep[0], sent + 16 * n, 16, pair.addr[1])) == -FI_EAGAIN) {
			fi_cq_read(pair.cq[0], NULL, 0);
			fi_cq_read(pair.cq[1], NULL, 0);
		}
		EXPECT(0, status);
	}
	for (size_t n = 0; n < count; n++) {
		struct fi_cq_tagged_entry entry = success(1);
		CHECK(entry.buf == got + 16 * n && entry.len == 16);
		got_all += !(entry.flags & FI_MULTI_RECV);
	}
	CHECK(got_all == count - 1 && !memcmp(sent, got, count * 16));
}

// The release of a buffer is reported, whichever completions are requested.
static void many_selective(const char *address)
{
	open_on(address, FI_MSG | FI_MULTI_RECV, FI_SELECTIVE_COMPLETION);
	MUST(post_many(got, 100, &contexts[1]));
	MUST(fi_inject(pair.ep[0], sent, 20, pair.addr[1]));
	MUST(fi_inject(pair.ep[0], sent, 30, pair.addr[1]));
	struct fi_cq_tagged_entry entry = success(1);
	CHECK(entry.flags == (FI_RECV | FI_MSG | FI_MULTI_RECV) && entry.buf == got + 20);
	nothing(1);
	pair_close(&pair);
}

// Messages of an endpoint to itself, in order behind a fence.
static void oneself(void)
{
	struct fid_ep *ep = pair.ep[1];
	for (size_t n = 0; n < sizeof(lengths) / sizeof(*lengths); n++) {
		size_t len = lengths[n];
		fill(len);
		MUST(fi_trecv(ep, got, len, NULL, pair.addr[1], TAG, 0, &contexts[1]));
		struct iovec iov = {sent, len};
		struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair.addr[1],
					    .tag = TAG, .context = &contexts[0]};
		MUST(fi_tsendmsg(ep, &msg, FI_COMPLETION | (n ? FI_FENCE : 0)));
		uint64_t seen = 0;
		for (int m = 0; m < 2; m++)
			seen |= success(1).flags;
		CHECK(seen == (FI_SEND | FI_RECV | FI_TAGGED) && !memcmp(sent, got, len));
		// Unexpected, too.
		MUST(fi_tsend(ep, sent, len, NULL, pair.addr[1], TAG, &contexts[0]));
		MUST(fi_trecv(ep, got, len, NULL, pair.addr[1], TAG, 0, &contexts[1]));
		success(1);
		success(1);
		CHECK(!memcmp(sent, got, len));
	}
	struct iovec iov = {sent, 1};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair.addr[1]};
	EXPECT(FI_EBADFLAGS, fi_sendmsg(ep, &msg, FI_COMMIT_COMPLETE));
}

static void contextless(void)
{
	MUST(fi_trecv(pair.ep[1], got, 8, NULL, FI_ADDR_UNSPEC, 77, 0, NULL));
	EXPECT(0, fi_cancel(&pair.ep[1]->fid, NULL));
	nothing(1);
	MUST(fi_tinject(pair.ep[0], "eight...", 8, pair.addr[1], 77));
	CHECK(success(1).op_context == NULL);
}

// A sender that is not in the vector at first, and is inserted later.
static void unknown_sources(const char *address, int with_errors)
{
	open_on(address, FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV | (with_errors ? FI_SOURCE_ERR : 0),
		0);
	CHECK(!(pair.info->caps & FI_SOURCE_ERR) == !with_errors);
	CHECK(pair.info->domain_attr->max_err_data >= pair.info->src_addrlen);
	char name[64], raw[64];
	size_t len = sizeof(name);
	EXPECT(0, fi_getname(&pair.ep[0]->fid, name, &len));
	EXPECT(0, fi_av_remove(pair.av, &pair.addr[0], 1, 0));
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = 1;
	for (int n = 0; n < 4; n++) {
		MUST(fi_tinject(pair.ep[0], "a sender", 8, pair.addr[1], n));
		if (n == 3)
			break;
		MUST(fi_trecv(pair.ep[1], got, 8, NULL, FI_ADDR_UNSPEC, n, 0, &contexts[1]));
		if (!with_errors) {
			CHECK(next(&pair, 1, &entry, &source) == 1 && source == FI_ADDR_NOTAVAIL);
			continue;
		}
		EXPECT(FI_EAVAIL, next(&pair, 1, &entry, &source));
		memset(raw, 0, sizeof(raw));
		struct fi_cq_err_entry error = {.err_data = raw,
						.err_data_size = n == 0 ? sizeof(raw) : n == 1 ? 0 : 5};
		CHECK(fi_cq_readerr(pair.cq[1], &error, 0) == 1);
		CHECK(error.err == FI_EADDRNOTAVAIL && error.op_context == &contexts[1]);
		CHECK(error.len == 8 && error.tag == (uint64_t)n);
		CHECK(error.flags == (FI_RECV | FI_TAGGED));
		CHECK(error.err_data_size == (n == 2 ? 5 : len));
		CHECK(!memcmp(error.err_data, name, error.err_data_size));
		CHECK((error.err_data == raw) == (n != 1));
		CHECK(!memcmp(got, "a sender", 8));
		CHECK(strlen(fi_cq_strerror(pair.cq[1], error.prov_errno, error.err_data, NULL, 0)) > 8);
	}
	// A receive that names its source finds a stored message, once the source has an address in the
	// vector.
	for (int n = 0; n < 2000; n++) {
		nothing(1);
		fi_cq_read(pair.cq[0], NULL, 0);
	}
	CHECK(fi_av_insert(pair.av, name, 1, &pair.addr[0], 0, NULL) == 1);
	MUST(fi_trecv(pair.ep[1], got, 8, NULL, pair.addr[0], 3, 0, &contexts[1]));
	CHECK(next(&pair, 1, &entry, &source) == 1 && source == pair.addr[0]);
	// A receive that names its source stays valid when the source is removed and inserted again.
	MUST(fi_trecv(pair.ep[1], got, 8, NULL, pair.addr[0], 4, 0, &contexts[1]));
	MUST(fi_trecv(pair.ep[1], got, 8, NULL, pair.addr[1], 4, 0, &contexts[2]));
	EXPECT(0, fi_av_remove(pair.av, &pair.addr[0], 1, 0));
	EXPECT(FI_EINVAL, fi_trecv(pair.ep[1], got, 8, NULL, pair.addr[0], 4, 0, &contexts[3]));
	CHECK(fi_av_insert(pair.av, name, 1, &pair.addr[0], 0, NULL) == 1);
	MUST(fi_tinject(pair.ep[0], "a sender", 8, pair.addr[1], 4));
	CHECK(next(&pair, 1, &entry, &source) == 1 && source == pair.addr[0]);
	CHECK(entry.op_context == &contexts[1]);
	EXPECT(0, fi_cancel(&pair.ep[1]->fid, &contexts[2]));
	CHECK(failure(1).err == FI_ECANCELED);
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : "127.0.0.1";
	open_on(address, FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | FI_FENCE, 0);
	CHECK(pair.info->caps & FI_MULTI_RECV);
	CHECK(!(pair.info->caps & FI_SOURCE_ERR));
	peeking();
	many();
	oneself();
	contextless();
	many_unread();
	pair_close(&pair);
	many_selective(address);
	unknown_sources(address, 0);
	unknown_sources(address, 1);
	return test_status("matching");
}
