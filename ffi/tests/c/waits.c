// SPDX-License-Identifier: MIT OR Apache-2.0
// Event queues, wait objects of every kind, wait sets, poll sets (fi_eq(3), fi_cq(3), fi_poll(3)).

#include <poll.h>
#include <pthread.h>

#include "common.h"

static struct pair pair;

static int readable(int fd, int timeout_ms)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	return poll(&pfd, 1, timeout_ms);
}

static void event_queue(void)
{
	struct fi_eq_attr attr = {.size = 32, .flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
	struct fi_eq_entry entry = {.fid = &pair.fabric->fid}, got;
	struct fi_eq_err_entry error;
	struct fid_eq *eq;
	struct fid *list[1];
	uint32_t event;
	int fd = -1;
	enum fi_wait_obj kind;
	MUST(fi_eq_open(pair.fabric, &attr, &eq, NULL));
	EXPECT(0, fi_control(&eq->fid, FI_GETWAIT, &fd));
	EXPECT(0, fi_control(&eq->fid, FI_GETWAITOBJ, &kind));
	CHECK(kind == FI_WAIT_FD);
	list[0] = &eq->fid;
	EXPECT(0, fi_trywait(pair.fabric, list, 1));
	CHECK(readable(fd, 0) == 0);
	EXPECT(FI_EAGAIN, fi_eq_read(eq, &event, &got, sizeof(got), 0));
	EXPECT(FI_EAGAIN, fi_eq_readerr(eq, &error, 0));
	double start = seconds();
	EXPECT(FI_EAGAIN, fi_eq_sread(eq, &event, &got, sizeof(got), 50, 0));
	CHECK(seconds() - start > 0.045);
	EXPECT(FI_EBADFLAGS, fi_eq_sread(eq, &event, &got, sizeof(got), 50, FI_COMPLETION));
	for (uintptr_t i = 0; i < 5; i++) {
		entry.context = (void *)i;
		CHECK(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0) == sizeof(entry));
	}
	CHECK(readable(fd, 0) == 1);
	EXPECT(FI_EAGAIN, fi_trywait(pair.fabric, list, 1));
	for (uintptr_t i = 0; i < 5; i++) {
		EXPECT(FI_ETOOSMALL, fi_eq_read(eq, &event, &got, 8, 0));
		CHECK(fi_eq_sread(eq, &event, &got, sizeof(got), 1000, FI_PEEK) == sizeof(got));
		CHECK(fi_eq_read(eq, &event, &got, sizeof(got), 0) == sizeof(got));
		CHECK(event == FI_NOTIFY && got.context == (void *)i && got.fid == entry.fid);
	}
	CHECK(readable(fd, 0) == 0);
	EXPECT(0, fi_trywait(pair.fabric, list, 1));
	EXPECT(FI_EINVAL, fi_eq_write(eq, FI_NOTIFY, &entry, 1 << 20, 0));
	EXPECT(FI_EINVAL, fi_eq_write(eq, FI_NOTIFY, NULL, 8, 0));
	// Events of any length, also of length 0.
	CHECK(fi_eq_write(eq, 77, "hello", 5, 0) == 5 && fi_eq_write(eq, 78, NULL, 0, 0) == 0);
	CHECK(fi_eq_read(eq, &event, &got, sizeof(got), 0) == 5 && event == 77);
	CHECK(!memcmp(&got, "hello", 5));
	CHECK(fi_eq_read(eq, &event, NULL, 0, 0) == 0 && event == 78);
	CHECK(strlen(fi_eq_strerror(eq, FI_EINVAL, NULL, NULL, 0)) > 0);
	EXPECT(0, fi_close(&eq->fid));
	// The queue takes as many events as requested; without a reader it fills up.
	for (size_t size = 1; size <= 1 << 16; size *= 16) {
		attr.size = size;
		MUST(fi_eq_open(pair.fabric, &attr, &eq, NULL));
		size_t count = 0;
		ssize_t status;
		while ((status = fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0)) > 0)
			count++;
		CHECK(status == -FI_EAGAIN && count >= size);
		EXPECT(0, fi_close(&eq->fid));
	}
	struct fi_eq_attr plain = {.wait_obj = FI_WAIT_NONE};
	MUST(fi_eq_open(pair.fabric, &plain, &eq, NULL));
	EXPECT(FI_EINVAL, fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0));
	EXPECT(FI_ENOSYS, fi_eq_sread(eq, &event, &got, sizeof(got), 0, 0));
	EXPECT(FI_ENOSYS, fi_control(&eq->fid, FI_GETWAIT, &fd));
	EXPECT(0, fi_close(&eq->fid));
	plain.flags = FI_AFFINITY;
	MUST(fi_eq_open(pair.fabric, &plain, &eq, NULL));
	EXPECT(0, fi_close(&eq->fid));
	plain.flags = 1ull << 60;
	EXPECT(FI_EBADFLAGS, fi_eq_open(pair.fabric, &plain, &eq, NULL));
}

static void *write_later(void *eq)
{
	usleep(50000);
	return (void *)fi_eq_write(eq, FI_NOTIFY, "x", 1, 0);
}

static void event_wakes_a_sleeper(void)
{
	struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_eq *eq;
	pthread_t thread;
	uint32_t event;
	char byte;
	MUST(fi_eq_open(pair.fabric, &attr, &eq, NULL));
	MUST(-pthread_create(&thread, NULL, write_later, eq));
	CHECK(fi_eq_sread(eq, &event, &byte, 1, -1, 0) == 1 && byte == 'x');
	pthread_join(thread, NULL);
	EXPECT(0, fi_close(&eq->fid));
}

// The calls that each kind of wait object allows.
static void wait_objects(void)
{
	static const struct {
		enum fi_wait_obj kind;
		int open, sread, getwait;
	} rows[] = {
		{FI_WAIT_NONE, 0, FI_ENOSYS, FI_ENOSYS}, {FI_WAIT_UNSPEC, 0, FI_EAGAIN, 0},
		{FI_WAIT_FD, 0, FI_EAGAIN, 0},		 {FI_WAIT_YIELD, 0, FI_EAGAIN, 0},
		{FI_WAIT_MUTEX_COND, FI_ENOSYS, 0, 0},	 {FI_WAIT_SET, FI_EINVAL, 0, 0},
		{FI_WAIT_POLLFD, FI_ENOSYS, 0, 0},	 {99, FI_EINVAL, 0, 0},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fi_cq_attr attr = {.wait_obj = rows[i].kind, .flags = FI_AFFINITY};
		struct fid_cq *cq;
		struct fi_cq_entry entry;
		enum fi_wait_obj kind;
		size_t threshold = 4;
		int fd;
		attr.wait_cond = FI_CQ_COND_THRESHOLD;
		EXPECT(rows[i].open, fi_cq_open(pair.domain, &attr, &cq, NULL));
		if (rows[i].open)
			continue;
		EXPECT(rows[i].sread, fi_cq_sread(cq, &entry, 1, &threshold, 0));
		EXPECT(rows[i].getwait, fi_control(&cq->fid, FI_GETWAIT, &fd));
		EXPECT(0, fi_control(&cq->fid, FI_GETWAITOBJ, &kind));
		CHECK(kind == rows[i].kind);
		EXPECT(0, fi_close(&cq->fid));
	}
	struct fi_cq_attr cond = {.wait_cond = 9};
	struct fid_cq *cq;
	EXPECT(FI_EINVAL, fi_cq_open(pair.domain, &cond, &cq, NULL));
	for (size_t size = 0; size <= 131072; size = size ? size * 2 : 8) {
		struct fi_cq_attr attr = {.size = size};
		MUST(fi_cq_open(pair.domain, &attr, &cq, NULL));
		EXPECT(0, fi_close(&cq->fid));
	}
}

// A queue of two endpoints that was opened for 8 completions, and is read when 600 are there.
static void small_queue(void)
{
	enum { COUNT = 300 };
	struct fi_cq_attr attr = {.size = 8, .format = FI_CQ_FORMAT_MSG};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 1};
	struct fi_cq_msg_entry entry[64];
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep[2];
	fi_addr_t to[2];
	static char buffer[COUNT];
	MUST(fi_cq_open(pair.domain, &attr, &cq, NULL));
	MUST(fi_av_open(pair.domain, &av_attr, &av, NULL));
	for (int i = 0; i < 2; i++) {
		char name[64];
		size_t len = sizeof(name);
		MUST(fi_endpoint(pair.domain, pair.info, &ep[i], NULL));
		MUST(fi_ep_bind(ep[i], &av->fid, 0));
		MUST(fi_ep_bind(ep[i], &cq->fid, FI_TRANSMIT | FI_RECV));
		MUST(fi_enable(ep[i]));
		MUST(fi_getname(&ep[i]->fid, name, &len));
		CHECK(fi_av_insert(av, name, 1, &to[i], 0, NULL) == 1);
	}
	EXPECT(FI_EBUSY, fi_close(&cq->fid));
	for (int i = 0; i < COUNT; i++)
		MUST(fi_recv(ep[1], &buffer[i], 1, NULL, FI_ADDR_UNSPEC, &buffer[i]));
	for (int i = 0; i < COUNT; i++)
		MUST(fi_send(ep[0], &buffer[i], 1, NULL, to[1], &buffer[i]));
	for (double end = seconds() + 0.2; seconds() < end;)
		(void)fi_cq_read(cq, NULL, 0);
	int sends = 0, receives = 0;
	for (double end = seconds() + 10; sends + receives < 2 * COUNT && seconds() < end;) {
		ssize_t got = fi_cq_read(cq, entry, 64);
		for (ssize_t i = 0; i < got; i++) {
			if (entry[i].flags & FI_SEND)
				sends++;
			// Completions come in order, and each once.
			else if (entry[i].op_context == &buffer[receives])
				receives++;
		}
	}
	CHECK(sends == COUNT && receives == COUNT);
	EXPECT(FI_EAGAIN, fi_cq_read(cq, entry, 1));
	EXPECT(0, fi_close(&ep[0]->fid));
	EXPECT(FI_EBUSY, fi_close(&av->fid));
	EXPECT(0, fi_close(&ep[1]->fid));
	EXPECT(0, fi_close(&cq->fid));
	EXPECT(0, fi_close(&av->fid));
}

static void *send_later(void *unused)
{
	(void)unused;
	usleep(50000);
	return (void *)fi_inject(pair.ep[0], "x", 1, pair.addr[1]);
}

// An endpoint that receives to a queue of its own; the pair's first endpoint sends to it.
struct reader {
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	fi_addr_t old;
};

static void open_reader(struct reader *reader, struct fi_cq_attr *attr)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	char name[64];
	size_t len = sizeof(name);
	MUST(fi_cq_open(pair.domain, attr, &reader->cq, NULL));
	MUST(fi_av_open(pair.domain, &av_attr, &reader->av, NULL));
	MUST(fi_endpoint(pair.domain, pair.info, &reader->ep, NULL));
	MUST(fi_ep_bind(reader->ep, &reader->av->fid, 0));
	MUST(fi_ep_bind(reader->ep, &reader->cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(reader->ep));
	MUST(fi_getname(&reader->ep->fid, name, &len));
	reader->old = pair.addr[1];
	CHECK(fi_av_insert(pair.av, name, 1, &pair.addr[1], 0, NULL) == 1);
}

static void close_reader(struct reader *reader)
{
	pair.addr[1] = reader->old;
	EXPECT(0, fi_close(&reader->ep->fid));
	EXPECT(0, fi_close(&reader->av->fid));
	EXPECT(0, fi_close(&reader->cq->fid));
}

static void poll_for(struct fid_cq *cq, double time)
{
	struct fi_cq_entry entry;
	for (double end = seconds() + time; seconds() < end;)
		EXPECT(FI_EAGAIN, fi_cq_read(cq, &entry, 1));
}

// While the application polls, packets cause no wake-up. A sleep after polling is woken at once,
// even if the progress thread has received the packet meanwhile. So are a long sleep, and a sleep
// on a descriptor without fi_trywait.
static void sleep_after_polling(void)
{
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_FD};
	struct reader reader;
	struct fi_cq_entry entry;
	pthread_t thread;
	char byte;
	int fd;
	open_reader(&reader, &attr);
	for (int i = 0; i < 5; i++) {
		MUST(fi_recv(reader.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
		poll_for(reader.cq, 0.03);
		MUST(-pthread_create(&thread, NULL, send_later, NULL));
		CHECK(fi_cq_sread(reader.cq, &entry, 1, NULL, 10000) == 1);
		pthread_join(thread, NULL);
	}
	EXPECT(0, fi_control(&reader.cq->fid, FI_GETWAIT, &fd));
	for (int i = 0; i < 5; i++) {
		MUST(fi_recv(reader.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
		poll_for(reader.cq, 0.03);
		MUST(fi_inject(pair.ep[0], "x", 1, pair.addr[1]));
		if (i > 2)
			usleep(50000);
		CHECK(readable(fd, 10000) == 1);
		CHECK(fi_cq_sread(reader.cq, &entry, 1, NULL, 10000) == 1);
	}
	close_reader(&reader);
}

// A set of two members: a queue that gets a message, and an event queue.
static void wait_set(void)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET, .flags = FI_WRITE};
	struct fi_cq_entry entry;
	struct fid_wait *set;
	struct reader reader;
	struct fid_eq *eq;
	struct fid *list[1];
	char byte;
	uint32_t event;
	pthread_t thread;
	int fd;
	MUST(fi_wait_open(pair.fabric, &attr, &set));
	cq_attr.wait_set = set;
	eq_attr.wait_set = set;
	open_reader(&reader, &cq_attr);
	MUST(fi_eq_open(pair.fabric, &eq_attr, &eq, NULL));
	EXPECT(FI_EBUSY, fi_close(&set->fid));
	EXPECT(FI_ENOSYS, fi_cq_sread(reader.cq, &entry, 1, NULL, 0));
	EXPECT(FI_ENOSYS, fi_eq_sread(eq, &event, &byte, 1, 0, 0));
	EXPECT(0, fi_control(&set->fid, FI_GETWAIT, &fd));
	double start = seconds();
	EXPECT(FI_ETIMEDOUT, fi_wait(set, 50));
	CHECK(seconds() - start > 0.045);
	list[0] = &set->fid;
	EXPECT(0, fi_trywait(pair.fabric, list, 1));
	CHECK(readable(fd, 0) == 0);
	// An event.
	CHECK(fi_eq_write(eq, FI_NOTIFY, "e", 1, 0) == 1);
	CHECK(readable(fd, 0) == 1);
	EXPECT(FI_EAGAIN, fi_trywait(pair.fabric, list, 1));
	EXPECT(0, fi_wait(set, 1000));
	CHECK(fi_eq_read(eq, &event, &byte, 1, 0) == 1);
	// A message for which only the waiting thread makes progress.
	for (int i = 0; i < 20; i++) {
		MUST(fi_recv(reader.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
		MUST(-pthread_create(&thread, NULL, send_later, NULL));
		EXPECT(0, fi_wait(set, 10000));
		CHECK(fi_cq_read(reader.cq, &entry, 1) == 1);
		pthread_join(thread, NULL);
	}
	close_reader(&reader);
	EXPECT(0, fi_close(&eq->fid));
	EXPECT(0, fi_close(&set->fid));
}

static volatile int asking;

static void *ask_on(void *set)
{
	struct fid *list[1] = {set};
	while (asking) {
		int answer = fi_trywait(pair.fabric, list, 1);
		CHECK(answer == 0 || answer == -FI_EAGAIN);
	}
	return NULL;
}

// A member is closed while another thread inspects its set: the set does not keep it open.
static void close_while_asked(void)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET};
	struct fid_wait *set;
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	struct fid_eq *eq;
	pthread_t thread;
	MUST(fi_wait_open(pair.fabric, &attr, &set));
	eq_attr.wait_set = cq_attr.wait_set = cntr_attr.wait_set = set;
	asking = 1;
	MUST(-pthread_create(&thread, NULL, ask_on, set));
	for (double end = seconds() + 1; seconds() < end;) {
		MUST(fi_eq_open(pair.fabric, &eq_attr, &eq, NULL));
		MUST(fi_cq_open(pair.domain, &cq_attr, &cq, NULL));
		MUST(fi_cntr_open(pair.domain, &cntr_attr, &cntr, NULL));
		MUST(fi_close(&cntr->fid));
		MUST(fi_close(&cq->fid));
		MUST(fi_close(&eq->fid));
	}
	asking = 0;
	pthread_join(thread, NULL);
	EXPECT(0, fi_close(&set->fid));
}

static void poll_set(void)
{
	struct fi_poll_attr attr = {0};
	struct fi_cq_entry entry;
	struct fid_poll *set;
	struct fid_cq *cq;
	void *context[4];
	int zero, one;
	char byte;
	MUST(fi_poll_open(pair.domain, &attr, &set));
	pair.cq[0]->fid.context = &zero;
	pair.cq[1]->fid.context = &one;
	CHECK(fi_poll(set, context, 4) == 0);
	EXPECT(0, fi_poll_add(set, &pair.cq[0]->fid, 0));
	EXPECT(0, fi_poll_add(set, &pair.cq[1]->fid, 0));
	EXPECT(0, fi_poll_add(set, &pair.cq[1]->fid, 0));
	EXPECT(FI_EINVAL, fi_poll_add(set, &pair.av->fid, 0));
	EXPECT(FI_EINVAL, fi_poll_add(set, NULL, 0));
	EXPECT(FI_EBADFLAGS, fi_poll_add(set, &pair.cq[0]->fid, 1));
	EXPECT(FI_EINVAL, fi_poll(set, NULL, 1));
	EXPECT(FI_EINVAL, fi_poll(set, context, -1));
	CHECK(fi_poll(set, context, 4) == 0);
	MUST(fi_recv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	MUST(fi_send(pair.ep[0], "x", 1, NULL, pair.addr[1], NULL));
	// Polling makes the progress.
	double end = seconds() + 10;
	int got = 0;
	while ((got = fi_poll(set, context, 4)) >= 0 && got < 2 && seconds() < end)
		;
	CHECK(got == 2 && context[0] == &zero && context[1] == &one);
	CHECK(fi_poll(set, context, 1) == 1 && context[0] == &zero);
	CHECK(fi_poll(set, NULL, 0) == 0);
	CHECK(fi_cq_read(pair.cq[0], &entry, 1) == 1);
	CHECK(fi_poll(set, context, 4) == 1 && context[0] == &one);
	EXPECT(0, fi_poll_del(set, &pair.cq[1]->fid, 0));
	EXPECT(FI_EINVAL, fi_poll_del(set, &pair.cq[1]->fid, 0));
	CHECK(fi_poll(set, context, 4) == 0);
	CHECK(fi_cq_read(pair.cq[1], &entry, 1) == 1);
	// A closed queue leaves the set.
	MUST(fi_cq_open(pair.domain, NULL, &cq, NULL));
	EXPECT(0, fi_poll_add(set, &cq->fid, 0));
	EXPECT(0, fi_close(&cq->fid));
	CHECK(fi_poll(set, context, 4) == 0);
	EXPECT(0, fi_close(&set->fid));
}

static volatile int polling;

static void *poll_on(void *set)
{
	void *context[4];
	while (polling)
		CHECK(fi_poll(set, context, 4) >= 0);
	return NULL;
}

// A member is closed while other threads poll its sets: the sets do not keep it open, and do not
// read it afterwards.
static void close_while_polled(void)
{
	enum { SETS = 2 };
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_poll_attr attr = {0};
	struct fid_poll *set[SETS];
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	pthread_t thread[SETS];
	polling = 1;
	for (int i = 0; i < SETS; i++) {
		MUST(fi_poll_open(pair.domain, &attr, &set[i]));
		MUST(-pthread_create(&thread[i], NULL, poll_on, set[i]));
	}
	for (double end = seconds() + 1; seconds() < end;) {
		MUST(fi_cq_open(pair.domain, NULL, &cq, NULL));
		MUST(fi_cntr_open(pair.domain, &cntr_attr, &cntr, NULL));
		for (int i = 0; i < SETS; i++) {
			EXPECT(0, fi_poll_add(set[i], &cq->fid, 0));
			EXPECT(0, fi_poll_add(set[i], &cntr->fid, 0));
		}
		MUST(fi_close(&cq->fid));
		MUST(fi_close(&cntr->fid));
	}
	polling = 0;
	for (int i = 0; i < SETS; i++) {
		pthread_join(thread[i], NULL);
		EXPECT(0, fi_close(&set[i]->fid));
	}
}

// Counters in poll sets and wait sets, and with a descriptor of their own.
static void counter(void)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
	struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_poll_attr poll_attr = {0};
	struct fid_cntr *alone, *member;
	struct fid_poll *polls;
	struct fid_wait *waits;
	struct fid *list[1];
	enum fi_wait_obj kind;
	void *context[2];
	int fd, word;
	MUST(fi_cntr_open(pair.domain, &attr, &alone, &word));
	EXPECT(0, fi_control(&alone->fid, FI_GETWAIT, &fd));
	EXPECT(0, fi_control(&alone->fid, FI_GETWAITOBJ, &kind));
	CHECK(kind == FI_WAIT_FD);
	list[0] = &alone->fid;
	EXPECT(0, fi_trywait(pair.fabric, list, 1));
	CHECK(readable(fd, 0) == 0);
	EXPECT(0, fi_cntr_add(alone, 3));
	CHECK(readable(fd, 1000) == 1);
	EXPECT(FI_EAGAIN, fi_trywait(pair.fabric, list, 1));
	CHECK(fi_cntr_read(alone) == 3);
	EXPECT(0, fi_trywait(pair.fabric, list, 1));
	EXPECT(FI_ETIMEDOUT, fi_cntr_wait(alone, 4, 20));
	EXPECT(0, fi_cntr_wait(alone, 3, 20));
	// A poll set does not return a counter that the application itself has set.
	MUST(fi_poll_open(pair.domain, &poll_attr, &polls));
	EXPECT(0, fi_poll_add(polls, &alone->fid, 0));
	CHECK(fi_poll(polls, context, 2) == 0);
	EXPECT(0, fi_cntr_add(alone, 1));
	CHECK(fi_poll(polls, context, 2) == 0);
	MUST(fi_wait_open(pair.fabric, &wait_attr, &waits));
	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = waits;
	MUST(fi_cntr_open(pair.domain, &attr, &member, NULL));
	EXPECT(FI_ENOSYS, fi_cntr_wait(member, 1, 0));
	EXPECT(FI_ETIMEDOUT, fi_wait(waits, 20));
	EXPECT(0, fi_cntr_add(member, 1));
	EXPECT(0, fi_wait(waits, 1000));
	CHECK(fi_cntr_read(member) == 1);
	// A change by operations is returned.
	struct fid_ep *ep;
	struct fid_cq *cq;
	MUST(fi_cq_open(pair.domain, NULL, &cq, NULL));
	MUST(fi_endpoint(pair.domain, pair.info, &ep, NULL));
	MUST(fi_ep_bind(ep, &pair.av->fid, 0));
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_ep_bind(ep, &alone->fid, FI_SEND));
	MUST(fi_ep_bind(ep, &member->fid, FI_RECV));
	MUST(fi_enable(ep));
	char name[64], byte;
	size_t len = sizeof(name);
	fi_addr_t own;
	MUST(fi_getname(&ep->fid, name, &len));
	CHECK(fi_av_insert(pair.av, name, 1, &own, 0, NULL) == 1);
	MUST(fi_recv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	MUST(fi_send(ep, "x", 1, NULL, own, NULL));
	EXPECT(0, fi_wait(waits, 10000));
	CHECK(fi_cntr_read(member) == 2);
	EXPECT(0, fi_cntr_wait(alone, 5, 10000));
	CHECK(fi_poll(polls, context, 2) == 1 && context[0] == &word);
	CHECK(fi_poll(polls, context, 2) == 0);
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(0, fi_close(&cq->fid));
	EXPECT(0, fi_close(&member->fid));
	EXPECT(0, fi_close(&waits->fid));
	EXPECT(0, fi_close(&alone->fid));
	CHECK(fi_poll(polls, context, 2) == 0);
	EXPECT(0, fi_close(&polls->fid));
}

int main(void)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_info *hints = hints_for_us();
	pair_open(&pair, info_on("127.0.0.1", hints), &cq_attr, 0);
	fi_freeinfo(hints);
	event_queue();
	event_wakes_a_sleeper();
	wait_objects();
	small_queue();
	sleep_after_polling();
	wait_set();
	close_while_asked();
	poll_set();
	close_while_polled();
	counter();
	pair_close(&pair);
	return test_status("waits");
}
