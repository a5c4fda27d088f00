// SPDX-License-Identifier: MIT OR Apache-2.0
// fi_msg(3), fi_tagged(3), fi_cq(3) and fi_av(3) between two endpoints of one process: every way to
// send and to receive, every form of completion. The argument is the address to use.

#include <poll.h>
#include <pthread.h>

#include "common.h"

static struct pair pair;
static char sent[1 << 16], got[1 << 16];
static struct fi_context2 contexts[4];

static void fill(size_t len)
{
	for (size_t n = 0; n < len; n++)
		sent[n] = (char)rand();
	memset(got, 0, sizeof(got));
}

// The completion of a receive at endpoint 1, and of a send at endpoint 0 if there is to be one.
static struct fi_cq_tagged_entry received(size_t len, int send_completes)
{
	struct fi_cq_tagged_entry entry = {0}, send = {0};
	fi_addr_t source = 1234;
	CHECK(next(&pair, 1, &entry, &source) == 1);
	CHECK(entry.op_context == &contexts[1] && entry.len == len);
	CHECK(source == pair.addr[0]);
	CHECK(!memcmp(sent, got, len));
	if (send_completes) {
		CHECK(next(&pair, 0, &send, &source) == 1);
		CHECK(send.op_context == &contexts[0] && (send.flags & FI_SEND));
		CHECK(source == FI_ADDR_NOTAVAIL);
	}
	return entry;
}

static void every_send(void)
{
	struct fid_ep *tx = pair.ep[0], *rx = pair.ep[1];
	fi_addr_t to = pair.addr[1];
	size_t len = 100;
	struct iovec out[3] = {{sent, 1}, {sent + 1, 0}, {sent + 1, 99}};
	struct iovec in[2] = {{got, 40}, {got + 40, sizeof(got) - 40}};
	struct fi_cq_tagged_entry entry;
	struct fi_msg msg = {.msg_iov = out, .iov_count = 3, .addr = to, .context = &contexts[0],
			     .data = 0x1234567890abcdef};
	struct fi_msg into = {.msg_iov = in, .iov_count = 2, .addr = FI_ADDR_UNSPEC,
			      .context = &contexts[1]};

	fill(len);
	MUST(fi_recv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_send(tx, sent, len, NULL, to, &contexts[0]));
	entry = received(len, 1);
	CHECK(entry.flags == (FI_RECV | FI_MSG));

	fill(len);
	MUST(fi_recvv(rx, in, NULL, 2, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_sendv(tx, out, NULL, 3, to, &contexts[0]));
	received(len, 1);

	fill(len);
	MUST(fi_recvmsg(rx, &into, FI_COMPLETION));
	MUST(fi_sendmsg(tx, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
	entry = received(len, 1);
	CHECK(entry.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA) && entry.data == msg.data);

	fill(len);
	MUST(fi_recv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_senddata(tx, sent, len, NULL, 77, to, &contexts[0]));
	entry = received(len, 1);
	CHECK((entry.flags & FI_REMOTE_CQ_DATA) && entry.data == 77);

	// An injected buffer may be changed at once, and makes no completion.
	fill(len);
	char copy[100];
	memcpy(copy, sent, len);
	MUST(fi_inject(tx, copy, len, to));
	memset(copy, 0, len);
	MUST(fi_recv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	received(len, 0);

	fill(pair.info->tx_attr->inject_size);
	MUST(fi_injectdata(tx, sent, pair.info->tx_attr->inject_size, 78, to));
	MUST(fi_recv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	entry = received(pair.info->tx_attr->inject_size, 0);
	CHECK(entry.data == 78);

	fill(sizeof(sent));
	MUST(fi_recv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_send(tx, sent, sizeof(sent), NULL, to, &contexts[0]));
	received(sizeof(sent), 1);

	// An empty message is a message, too.
	fill(0);
	MUST(fi_send(tx, NULL, 0, NULL, to, &contexts[0]));
	MUST(fi_recv(rx, NULL, 0, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	received(0, 1);
}

static void every_tagged_send(void)
{
	struct fid_ep *tx = pair.ep[0], *rx = pair.ep[1];
	fi_addr_t to = pair.addr[1], from = pair.addr[0];
	size_t len = 60;
	struct iovec out[2] = {{sent, 30}, {sent + 30, 30}}, in = {got, sizeof(got)};
	struct fi_cq_tagged_entry entry;
	struct fi_msg_tagged msg = {.msg_iov = out, .iov_count = 2, .addr = to, .tag = 5,
				    .context = &contexts[0], .data = 99};
	struct fi_msg_tagged into = {.msg_iov = &in, .iov_count = 1, .addr = from, .tag = 4,
				     .ignore = 1, .context = &contexts[1]};
	fill(len);
	MUST(fi_trecv(rx, got, sizeof(got), NULL, from, 0xf00, 0xff, &contexts[1]));
	MUST(fi_tsend(tx, sent, len, NULL, to, 0xf42, &contexts[0]));
	entry = received(len, 1);
	CHECK(entry.tag == 0xf42 && entry.flags == (FI_RECV | FI_TAGGED));

	fill(len);
	MUST(fi_trecvv(rx, &in, NULL, 1, from, 9, 0, &contexts[1]));
	MUST(fi_tsendv(tx, out, NULL, 2, to, 9, &contexts[0]));
	received(len, 1);

	fill(len);
	MUST(fi_trecvmsg(rx, &into, FI_COMPLETION));
	MUST(fi_tsendmsg(tx, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
	entry = received(len, 1);
	CHECK(entry.tag == 5 && entry.data == 99 && (entry.flags & FI_REMOTE_CQ_DATA));

	fill(len);
	MUST(fi_tsenddata(tx, sent, len, NULL, 7, to, 8, &contexts[0]));
	MUST(fi_trecv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, 8, 0, &contexts[1]));
	entry = received(len, 1);
	CHECK(entry.data == 7 && entry.tag == 8);

	// Receives choose by tag: the second message first, the untagged one apart from both.
	fill(len);
	MUST(fi_tinject(tx, "one", 3, to, 1));
	MUST(fi_tinjectdata(tx, sent, len, 6, to, 2));
	MUST(fi_inject(tx, "two", 3, to));
	MUST(fi_trecv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, 2, 0, &contexts[1]));
	entry = received(len, 0);
	CHECK(entry.tag == 2 && entry.data == 6);
	memcpy(sent, "two", 3);
	MUST(fi_recv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	received(3, 0);
	memcpy(sent, "one", 3);
	MUST(fi_trecv(rx, got, sizeof(got), NULL, FI_ADDR_UNSPEC, 0, ~0ull, &contexts[1]));
	entry = received(3, 0);
	CHECK(entry.tag == 1);
}

static void errors(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	fill(100);
	// A buffer too short gets the beginning, and an error that says how much is missing.
	MUST(fi_recv(pair.ep[1], got, 30, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_send(pair.ep[0], sent, 100, NULL, pair.addr[1], &contexts[0]));
	EXPECT(FI_EAVAIL, next(&pair, 1, &entry, NULL));
	EXPECT(FI_EAVAIL, fi_cq_read(pair.cq[1], &entry, 1));
	CHECK(fi_cq_readerr(pair.cq[1], &error, 0) == 1);
	CHECK(error.err == FI_ETRUNC && error.olen == 70 && error.len == 30);
	CHECK(error.op_context == &contexts[1] && (error.flags & FI_RECV));
	CHECK(!memcmp(sent, got, 30) && got[30] == 0);
	char text[20];
	const char *words = fi_cq_strerror(pair.cq[1], error.prov_errno, NULL, text, sizeof(text));
	CHECK(strlen(words) > 19 && strlen(text) == 19 && !strncmp(words, text, 19));
	EXPECT(FI_EAGAIN, fi_cq_readerr(pair.cq[1], &error, 0));
	CHECK(next(&pair, 0, &entry, NULL) == 1);

	// A cancelled receive ends in error; the cancel of an unknown receive is no error.
	MUST(fi_trecv(pair.ep[1], got, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[1]));
	EXPECT(0, fi_cancel(&pair.ep[1]->fid, &contexts[1]));
	EXPECT(0, fi_cancel(&pair.ep[1]->fid, &contexts[1]));
	EXPECT(FI_EAVAIL, next(&pair, 1, &entry, NULL));
	CHECK(fi_cq_readerr(pair.cq[1], &error, 0) == 1);
	CHECK(error.err == FI_ECANCELED && error.op_context == &contexts[1]);
}

// A full endpoint returns -FI_EAGAIN, and continues when completions are read.
static void exhaustion(void)
{
	struct fi_cq_tagged_entry entry;
	size_t posted = 0, done = 0;
	ssize_t status;
	fill(8);
	while (!(status = fi_send(pair.ep[0], sent, 8, NULL, pair.addr[1], &contexts[0])))
		posted++;
	EXPECT(FI_EAGAIN, status);
	CHECK(posted == pair.info->tx_attr->size);
	double end = seconds() + 20;
	while (done < posted && seconds() < end) {
		MUST(fi_recv(pair.ep[1], got, 8, NULL, FI_ADDR_UNSPEC, &contexts[1]));
		CHECK(next(&pair, 1, &entry, NULL) == 1 && !memcmp(sent, got, 8));
		done++;
	}
	for (size_t n = 0; n < posted; n++)
		CHECK(next(&pair, 0, &entry, NULL) == 1);
}

static void vector(void)
{
	char name[64], other[64], text[64];
	size_t len = sizeof(name);
	fi_addr_t again = 99, service = 99;
	EXPECT(0, fi_av_lookup(pair.av, pair.addr[0], name, &len));
	CHECK(len == pair.info->src_addrlen);
	size_t room = sizeof(text);
	CHECK(fi_av_straddr(pair.av, name, text, &room) == text);
	CHECK(!strncmp(text, "fi_sockaddr_in", 14) && room == strlen(text) + 1);
	// Indices start at 0 and follow one another; the same address is the same index.
	CHECK(pair.addr[0] == 0 && pair.addr[1] == 1);
	CHECK(fi_av_insert(pair.av, name, 1, &again, 0, NULL) == 1 && again == pair.addr[0]);
	EXPECT(0, fi_av_remove(pair.av, &again, 1, 0));
	EXPECT(0, fi_av_lookup(pair.av, pair.addr[0], name, &len));
	const char *node = pair.info->addr_format == FI_SOCKADDR_IN ? "127.0.0.1" : "::1";
	CHECK(fi_av_insertsvc(pair.av, node, "4711", &service, 0, NULL) == 1 && service == 2);
	// A peer that is removed and inserted again is reached as before.
	EXPECT(0, fi_av_remove(pair.av, &pair.addr[1], 1, 0));
	EXPECT(FI_EINVAL, fi_av_remove(pair.av, &pair.addr[1], 1, 0));
	EXPECT(FI_EINVAL, fi_send(pair.ep[0], sent, 1, NULL, pair.addr[1], NULL));
	len = sizeof(other);
	EXPECT(0, fi_getname(&pair.ep[1]->fid, other, &len));
	CHECK(fi_av_insert(pair.av, other, 1, &pair.addr[1], 0, NULL) == 1);
	EXPECT(0, fi_av_remove(pair.av, &service, 1, 0));
	fill(10);
	MUST(fi_recv(pair.ep[1], got, 10, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_send(pair.ep[0], sent, 10, NULL, pair.addr[1], &contexts[0]));
	received(10, 1);
}

static void *signal_later(void *queue)
{
	usleep(100000);
	EXPECT(0, fi_cq_signal(queue));
	return NULL;
}

static void *send_later(void *unused)
{
	usleep(100000);
	MUST(fi_inject(pair.ep[0], "late", 4, pair.addr[1]));
	return unused;
}

static void waiting(void)
{
	struct fi_cq_tagged_entry entry;
	pthread_t thread;
	double start = seconds();
	EXPECT(FI_EAGAIN, fi_cq_sread(pair.cq[1], &entry, 1, NULL, 50));
	CHECK(seconds() - start > 0.045 && seconds() - start < 5);
	EXPECT(FI_EAGAIN, fi_cq_sread(pair.cq[1], &entry, 1, NULL, 0));

	start = seconds();
	pthread_create(&thread, NULL, signal_later, pair.cq[1]);
	EXPECT(FI_EAGAIN, fi_cq_sread(pair.cq[1], &entry, 1, NULL, 10000));
	CHECK(seconds() - start > 0.05 && seconds() - start < 5);
	pthread_join(thread, NULL);

	MUST(fi_recv(pair.ep[1], got, 4, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	start = seconds();
	pthread_create(&thread, NULL, send_later, NULL);
	CHECK(fi_cq_sread(pair.cq[1], &entry, 1, NULL, -1) == 1);
	CHECK(seconds() - start < 5 && entry.op_context == &contexts[1]);
	pthread_join(thread, NULL);

	// The application waits by itself.
	struct pollfd pollfd = {.events = POLLIN};
	struct fid *fids[] = {&pair.cq[1]->fid};
	EXPECT(0, fi_control(&pair.cq[1]->fid, FI_GETWAIT, &pollfd.fd));
	MUST(fi_recv(pair.ep[1], got, 4, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	pthread_create(&thread, NULL, send_later, NULL);
	ssize_t status = -FI_EAGAIN;
	int rounds = 0;
	start = seconds();
	while (status == -FI_EAGAIN && seconds() - start < 5) {
		if (!fi_trywait(pair.fabric, fids, 1))
			CHECK(poll(&pollfd, 1, 5000) == 1);
		status = fi_cq_read(pair.cq[1], &entry, 1);
		rounds++;
	}
	pthread_join(thread, NULL);
	CHECK(status == 1 && rounds < 1000);
	MUST(fi_recv(pair.ep[1], got, 4, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	MUST(fi_inject(pair.ep[0], "soon", 4, pair.addr[1]));
	while (!(status = fi_trywait(pair.fabric, fids, 1)) && seconds() - start < 10)
		poll(&pollfd, 1, 1000);
	EXPECT(FI_EAGAIN, status);
	CHECK(fi_cq_read(pair.cq[1], &entry, 1) == 1);
}

// An application that does not read its queue still receives and acknowledges.
static void inattention(void)
{
	struct fi_cq_tagged_entry entry;
	for (int round = 0; round < 3; round++) {
		fill(2000);
		MUST(fi_recv(pair.ep[1], got, 2000, NULL, FI_ADDR_UNSPEC, &contexts[1]));
		MUST(fi_send(pair.ep[0], sent, 2000, NULL, pair.addr[1], &contexts[0]));
		double start = seconds();
		CHECK(fi_cq_sread(pair.cq[0], &entry, 1, NULL, 5000) == 1);
		CHECK(entry.op_context == &contexts[0] && seconds() - start < 1);
		received(2000, 0);
	}
}

// A peer that does not exist: the operation ends within the configured time-out.
static void unreachable(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	fi_addr_t absent;
	const char *node = pair.info->addr_format == FI_SOCKADDR_IN ? "127.0.0.1" : "::1";
	CHECK(fi_av_insertsvc(pair.av, node, "9", &absent, 0, NULL) == 1);
	double start = seconds();
	MUST(fi_send(pair.ep[0], sent, 10, NULL, absent, &contexts[2]));
	EXPECT(FI_EAVAIL, next(&pair, 0, &entry, NULL));
	CHECK(fi_cq_readerr(pair.cq[0], &error, 0) == 1);
	CHECK(error.err == FI_EHOSTUNREACH && error.op_context == &contexts[2]);
	printf("unreachable after %.1f s\n", seconds() - start);
}

static void open_on(const char *address, enum fi_cq_format format, uint64_t caps, uint64_t cq_flags)
{
	struct fi_cq_attr attr = {.format = format, .wait_obj = FI_WAIT_FD};
	struct fi_info *hints = hints_for_us();
	hints->caps = caps;
	pair_open(&pair, info_on(address, hints), &attr, cq_flags);
	fi_freeinfo(hints);
}

// Nothing is written behind the end of a shorter form of an entry.
static void formats(const char *address)
{
	static const struct { enum fi_cq_format format; size_t size; } forms[] = {
		{FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry)},
		{FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry)},
		{FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry)},
		{FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry)},
	};
	for (int n = 0; n < 4; n++) {
		unsigned char entry[64];
		memset(entry, 0xa5, sizeof(entry));
		open_on(address, forms[n].format, FI_MSG | FI_TAGGED, 0);
		MUST(fi_trecv(pair.ep[1], got, 4, NULL, FI_ADDR_UNSPEC, 3, 0, &contexts[1]));
		MUST(fi_tinject(pair.ep[0], "four", 4, pair.addr[1], 3));
		CHECK(next(&pair, 1, entry, NULL) == 1);
		const struct fi_cq_tagged_entry *full = (const void *)entry;
		CHECK(full->op_context == &contexts[1]);
		CHECK(n < 1 || (full->flags == (FI_RECV | FI_TAGGED) && full->len == 4));
		CHECK(n < 3 || full->tag == 3);
		for (size_t at = forms[n].size; at < sizeof(entry); at++)
			CHECK(entry[at] == 0xa5);
		pair_close(&pair);
	}
}

// With FI_SELECTIVE_COMPLETION only requested completions are written; without FI_DIRECTED_RECV the
// source of a receive is ignored.
static void selective(const char *address)
{
	struct fi_cq_tagged_entry entry;
	struct iovec iov = {sent, 4}, into = {got, 4};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = &contexts[0]};
	struct fi_msg in = {.msg_iov = &into, .iov_count = 1, .context = &contexts[1]};
	open_on(address, FI_CQ_FORMAT_TAGGED, FI_MSG, FI_SELECTIVE_COMPLETION);
	msg.addr = pair.addr[1];
	in.addr = pair.addr[1];
	for (int round = 0; round < 2; round++) {
		fill(4);
		MUST(fi_recv(pair.ep[1], got, 4, NULL, FI_ADDR_UNSPEC, &contexts[2]));
		MUST(fi_send(pair.ep[0], sent, 4, NULL, pair.addr[1], &contexts[3]));
		MUST(fi_recvmsg(pair.ep[1], &in, FI_COMPLETION));
		MUST(fi_sendmsg(pair.ep[0], &msg, FI_COMPLETION));
		CHECK(next(&pair, 1, &entry, NULL) == 1 && entry.op_context == &contexts[1]);
		CHECK(next(&pair, 0, &entry, NULL) == 1 && entry.op_context == &contexts[0]);
		EXPECT(FI_EAGAIN, fi_cq_read(pair.cq[0], &entry, 1));
		EXPECT(FI_EAGAIN, fi_cq_read(pair.cq[1], &entry, 1));
	}
	uint64_t flags = FI_TRANSMIT;
	EXPECT(0, fi_control(&pair.ep[0]->fid, FI_GETOPSFLAG, &flags));
	CHECK(flags == 0);
	flags = FI_TRANSMIT | FI_COMPLETION;
	EXPECT(0, fi_control(&pair.ep[0]->fid, FI_SETOPSFLAG, &flags));
	MUST(fi_recv(pair.ep[1], got, 4, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	MUST(fi_send(pair.ep[0], sent, 4, NULL, pair.addr[1], &contexts[3]));
	CHECK(next(&pair, 0, &entry, NULL) == 1 && entry.op_context == &contexts[3]);
	pair_close(&pair);
}

// A closing endpoint delivers posted messages, although its queue has no reader any more.
static void last_words(const char *address)
{
	struct fi_cq_tagged_entry entry;
	open_on(address, FI_CQ_FORMAT_TAGGED, FI_MSG | FI_TAGGED, 0);
	MUST(fi_inject(pair.ep[0], "bye", 3, pair.addr[1]));
	EXPECT(0, fi_close(&pair.ep[0]->fid));
	MUST(fi_recv(pair.ep[1], got, 3, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	CHECK(fi_cq_sread(pair.cq[1], &entry, 1, NULL, 5000) == 1 && !memcmp(got, "bye", 3));
	MUST(fi_endpoint(pair.domain, pair.info, &pair.ep[0], NULL));
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	const char *address = argc > 1 ? argv[1] : "127.0.0.1";
	setenv("FI_XDP_PEER_TIMEOUT", "1000", 1);
	open_on(address, FI_CQ_FORMAT_TAGGED, 0, 0);
	every_send();
	every_tagged_send();
	errors();
	exhaustion();
	vector();
	waiting();
	inattention();
	unreachable();
	pair_close(&pair);
	formats(address);
	selective(address);
	last_words(address);
	return test_status("messages");
}
