// SPDX-License-Identifier: MIT OR Apache-2.0
// Address vectors (fi_av(3)): indices, errors, names and services, events, other processes, a
// million addresses.

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common.h"

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;

static struct sockaddr_in peer(uint32_t n)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	address.sin_addr.s_addr = htonl(0x0a000000 + (n >> 14));
	address.sin_port = htons(1024 + (n & 0x3fff));
	return address;
}

static struct fid_av *vector(enum fi_av_type type, uint64_t flags)
{
	struct fi_av_attr attr = {.type = type, .count = 4, .flags = flags};
	struct fid_av *av;
	MUST(fi_av_open(domain, &attr, &av, NULL));
	CHECK(attr.type == FI_AV_MAP || attr.type == FI_AV_TABLE);
	return av;
}

static int is(struct fid_av *av, fi_addr_t index, struct sockaddr_in wanted)
{
	struct sockaddr_in found = {0};
	size_t len = sizeof(found);
	int status = fi_av_lookup(av, index, &found, &len);
	return status == 0 && len == sizeof(found) && !memcmp(&found, &wanted, sizeof(found));
}

// Indices count up across calls, beyond the expected number; freed ones come back lowest first.
static void indices(enum fi_av_type type)
{
	struct fid_av *av = vector(type, 0);
	struct sockaddr_in address[10];
	fi_addr_t index[10];
	for (int i = 0; i < 10; i++)
		address[i] = peer(i);
	CHECK(fi_av_insert(av, address, 3, NULL, 0, NULL) == 3);
	CHECK(fi_av_insert(av, address + 3, 7, index, FI_MORE, NULL) == 7);
	CHECK(index[0] == 3 && index[6] == 9);
	for (int i = 0; i < 10; i++)
		CHECK(is(av, i, address[i]));
	// A second insertion has the same index, which stays until it was removed as often.
	CHECK(fi_av_insert(av, address + 5, 1, index, 0, NULL) == 1 && index[0] == 5);
	EXPECT(0, fi_av_remove(av, index, 1, 0));
	CHECK(is(av, 5, address[5]));
	// An address that is not in the vector does not keep the others from being removed.
	fi_addr_t gone[] = {7, 99, 5, 2, FI_ADDR_UNSPEC};
	EXPECT(FI_EINVAL, fi_av_remove(av, gone, 5, 0));
	EXPECT(FI_EINVAL, fi_av_remove(av, gone, 1, 0));
	size_t len = sizeof(address[0]);
	EXPECT(FI_EINVAL, fi_av_lookup(av, 5, &address[0], &len));
	EXPECT(FI_EBADFLAGS, fi_av_remove(av, gone, 1, FI_MORE));
	address[0] = peer(100);
	address[1] = peer(7);
	CHECK(fi_av_insert(av, address, 2, index, 0, NULL) == 2 && index[0] == 2 && index[1] == 5);
	// Zero addresses can be inserted and removed.
	CHECK(fi_av_insert(av, address, 0, NULL, 0, NULL) == 0);
	EXPECT(0, fi_av_remove(av, NULL, 0, 0));
	EXPECT(0, fi_close(&av->fid));
}

static void errors(void)
{
	struct fid_av *av = vector(FI_AV_TABLE, 0);
	struct sockaddr_in address[3] = {peer(0), peer(1), peer(2)};
	fi_addr_t index[3];
	int error[3] = {7, 7, 7};
	address[1].sin_family = AF_UNIX;
	CHECK(fi_av_insert(av, address, 3, index, FI_SYNC_ERR, error) == 2);
	CHECK(index[0] == 0 && index[1] == FI_ADDR_NOTAVAIL && index[2] == 1);
	CHECK(error[0] == 0 && error[1] == FI_EINVAL && error[2] == 0);
	EXPECT(FI_EINVAL, fi_av_insert(av, address, 1, index, FI_SYNC_ERR, NULL));
	EXPECT(FI_EBADFLAGS, fi_av_insert(av, address, 1, index, FI_AV_USER_ID, NULL));
	address[1] = peer(1);
	address[1].sin_port = 0;
	CHECK(fi_av_insert(av, address + 1, 1, index, 0, NULL) == 0);
	// A buffer that is too short gets a part, and the true length.
	char room[sizeof(address[0]) + 1] = {0};
	size_t len = 4;
	EXPECT(0, fi_av_lookup(av, 0, room, &len));
	CHECK(len == sizeof(address[0]) && !memcmp(room, &address[0], 4) && room[4] == 0);
	// Padding is not part of an address.
	memset(address[0].sin_zero, 0xff, sizeof(address[0].sin_zero));
	CHECK(fi_av_insert(av, address, 1, index, 0, NULL) == 1 && index[0] == 0);
	char text[64];
	len = sizeof(text);
	CHECK(fi_av_straddr(av, &address[0], text, &len) == text);
	CHECK(!strcmp(text, "fi_sockaddr_in://10.0.0.0:1024") && len == strlen(text) + 1);
	len = 5;
	CHECK(fi_av_straddr(av, &address[0], text, &len) == text && !strcmp(text, "fi_s"));
	CHECK(len == strlen("fi_sockaddr_in://10.0.0.0:1024") + 1);
	EXPECT(0, fi_close(&av->fid));
}

static void names(void)
{
	struct fid_av *av = vector(FI_AV_TABLE, 0);
	fi_addr_t index[8];
	struct sockaddr_in wanted = {.sin_family = AF_INET, .sin_port = htons(7471)};
	wanted.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fi_av_insertsvc(av, "127.0.0.1", "7471", index, 0, NULL) == 1 && is(av, 0, wanted));
	CHECK(fi_av_insertsvc(av, "localhost", "7471", index, 0, NULL) == 1 && index[0] == 0);
	CHECK(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.1:7471", NULL, index, 0, NULL) == 1);
	CHECK(index[0] == 0);
	int error = 0;
	EXPECT(FI_ENODATA,
	       fi_av_insertsvc(av, "no.such.host.invalid", "1", index, FI_SYNC_ERR, &error));
	CHECK(error == FI_ENODATA && index[0] == FI_ADDR_NOTAVAIL);
	EXPECT(FI_ENODATA, fi_av_insertsvc(av, "fi_sockaddr_in://1.1.1.1:1", "1", index, 0, NULL));
	// fi_av(3)'s own example.
	CHECK(fi_av_insertsym(av, "10.1.1.1", 2, "5000", 2, index, 0, NULL) == 4);
	for (int i = 0; i < 4; i++) {
		wanted.sin_addr.s_addr = htonl(0x0a010101 + i / 2);
		wanted.sin_port = htons(5000 + i % 2);
		CHECK(index[i] == (fi_addr_t)(1 + i) && is(av, index[i], wanted));
	}
	CHECK(fi_av_insertsym(av, "10.1.1.1", 1, "65535", 2, index, 0, NULL) == 1);
	CHECK(index[0] == 5 && index[1] == FI_ADDR_NOTAVAIL);
	EXPECT(FI_EINVAL, fi_av_insertsym(av, NULL, 1, "1", 1, index, 0, NULL));
	// More addresses than a vector can have are refused before the first insertion.
	EXPECT(FI_ENOMEM, fi_av_insertsym(av, "10.0.0.1", 1ul << 40, "1", 1, NULL, 0, NULL));
	EXPECT(FI_ENOMEM, fi_av_insertsym(av, "10.0.0.1", 1 << 20, "1", 1 << 20, NULL, 0, NULL));
	EXPECT(FI_EINVAL, fi_av_insertsym(av, "10.0.0.1", 1ul << 40, "1", 1ul << 40, NULL, 0, NULL));
	EXPECT(0, fi_close(&av->fid));
}

// With FI_EVENT the event queue reports each failure, then the number of successes.
static void events(void)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_eq *eq;
	struct sockaddr_in address[3] = {peer(0), peer(1), peer(2)};
	fi_addr_t index[3];
	struct fi_eq_entry entry;
	struct fi_eq_err_entry error = {0};
	uint32_t event = 0;
	int word;
	struct fid_av *av = vector(FI_AV_MAP, FI_EVENT);
	MUST(fi_eq_open(fabric, &attr, &eq, NULL));
	EXPECT(FI_ENOEQ, fi_av_insert(av, address, 1, index, 0, &word));
	EXPECT(FI_EBADFLAGS, fi_av_bind(av, &eq->fid, FI_READ));
	EXPECT(FI_EINVAL, fi_av_bind(av, &av->fid, 0));
	EXPECT(0, fi_av_bind(av, &eq->fid, 0));
	EXPECT(FI_EINVAL, fi_av_bind(av, &eq->fid, 0));
	EXPECT(FI_EBUSY, fi_close(&eq->fid));
	EXPECT(FI_EAGAIN, fi_eq_read(eq, &event, &entry, sizeof(entry), 0));
	address[1].sin_family = AF_UNIX;
	EXPECT(0, fi_av_insert(av, address, 3, index, 0, &word));
	EXPECT(FI_EAVAIL, fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0));
	CHECK(fi_eq_readerr(eq, &error, 0) == sizeof(error));
	CHECK(error.fid == &av->fid && error.context == &word && error.data == 1);
	CHECK(error.err == FI_EINVAL && error.err_data_size == 0);
	CHECK(fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0) == sizeof(entry));
	CHECK(event == FI_AV_COMPLETE && entry.fid == &av->fid && entry.context == &word);
	CHECK(entry.data == 2 && index[0] == 0 && index[1] == FI_ADDR_NOTAVAIL && index[2] == 1);
	EXPECT(0, fi_av_insertsvc(av, "127.0.0.1", "7471", index, 0, NULL));
	CHECK(fi_eq_read(eq, &event, &entry, sizeof(entry), 0) == sizeof(entry));
	CHECK(entry.data == 1 && entry.context == NULL && index[0] == 2);
	// A queue without a reader fills up, and reports that before an insertion.
	int status = 0, calls = 0;
	while (calls < 1 << 20 && (status = fi_av_insert(av, address, 1, index, 0, NULL)) == 0)
		calls++;
	CHECK(status == -FI_EAGAIN && calls >= 1024);
	while (fi_eq_read(eq, &event, &entry, sizeof(entry), 0) == sizeof(entry))
		calls--;
	CHECK(calls == 0);
	EXPECT(0, fi_close(&av->fid));
	EXPECT(0, fi_close(&eq->fid));
}

// Another process sees insertions of this one under the same name, at the same index.
static void shared(void)
{
	char name[64];
	int go[2], ready[2];
	char byte = 0;
	snprintf(name, sizeof(name), "av-test/%d", (int)getpid());
	MUST(pipe(go));
	MUST(pipe(ready));
	struct fi_av_attr attr = {.type = FI_AV_MAP, .name = name, .flags = FI_READ};
	struct fid_av *av;
	pid_t child = fork();
	if (child == 0) {
		dup2(go[0], 0);
		dup2(ready[1], 1);
		start_again(name);
	}
	// The child then has the only other end of the pipe: the pipe ends with it.
	close(ready[1]);
	EXPECT(FI_ENOENT, fi_av_open(domain, &attr, &av, NULL));
	attr.flags = 0;
	MUST(fi_av_open(domain, &attr, &av, NULL));
	CHECK(attr.map_addr != NULL);
	struct sockaddr_in address[2] = {peer(1), peer(2)};
	fi_addr_t index[2];
	CHECK(fi_av_insert(av, address, 2, index, 0, NULL) == 2);
	// Applications that share a vector read results of insertions here.
	const fi_addr_t *listed = attr.map_addr;
	CHECK(listed[0] == index[0] && listed[1] == index[1]);
	CHECK(write(go[1], &byte, 1) == 1);
	// The child has opened it, and inserted a third.
	CHECK(read(ready[0], &byte, 1) == 1);
	CHECK(is(av, 2, peer(3)));
	CHECK(write(go[1], &byte, 1) == 1);
	int status = 1;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	EXPECT(0, fi_close(&av->fid));
	attr.flags = FI_READ;
	EXPECT(FI_ENOENT, fi_av_open(domain, &attr, &av, NULL));
}

// A limit on the size of files makes insertions fail, and does not end the process.
static void limited(void)
{
	char name[64];
	struct rlimit before, small;
	snprintf(name, sizeof(name), "av-test/limit-%d", (int)getpid());
	struct fi_av_attr attr = {.type = FI_AV_MAP, .name = name};
	struct sockaddr_in address[3] = {peer(1), peer(2), peer(3)};
	fi_addr_t index[3];
	int errors[3];
	struct fid_av *av;
	MUST(fi_av_open(domain, &attr, &av, NULL));
	MUST(getrlimit(RLIMIT_FSIZE, &before));
	// Room for two records of the file, and a part of the third.
	small = (struct rlimit){.rlim_cur = 60, .rlim_max = before.rlim_max};
	MUST(setrlimit(RLIMIT_FSIZE, &small));
	CHECK(fi_av_insert(av, address, 3, index, FI_SYNC_ERR, errors) == 2);
	MUST(setrlimit(RLIMIT_FSIZE, &before));
	CHECK(errors[0] == 0 && errors[1] == 0 && errors[2] == EFBIG);
	CHECK(fi_av_insert(av, &address[2], 1, index, 0, NULL) == 1 && index[0] == 2);
	EXPECT(0, fi_close(&av->fid));
}

static int other_process(const char *name)
{
	struct fi_av_attr attr = {.type = FI_AV_MAP, .name = name, .flags = FI_READ};
	struct fid_av *reader, *writer;
	struct sockaddr_in address = peer(3);
	fi_addr_t index = 0;
	char byte = 0;
	if (read(0, &byte, 1) != 1)
		return 2;
	if (fi_av_open(domain, &attr, &reader, NULL) || !is(reader, 0, peer(1)) ||
	    !is(reader, 1, peer(2)))
		return 3;
	if (fi_av_insert(reader, &address, 1, &index, 0, NULL) != 0 || index != FI_ADDR_NOTAVAIL)
		return 4;
	attr.flags = 0;
	if (fi_av_open(domain, &attr, &writer, NULL) ||
	    fi_av_insert(writer, &address, 1, &index, 0, NULL) != 1 || index != 2)
		return 5;
	if (!is(reader, 2, peer(3)) || write(1, &byte, 1) != 1 || read(0, &byte, 1) != 1)
		return 6;
	return fi_close(&reader->fid) || fi_close(&writer->fid);
}

static void million(void)
{
	enum { COUNT = 1000000, BATCH = 1000 };
	static struct sockaddr_in address[BATCH];
	struct rusage before, after;
	struct fid_av *av = vector(FI_AV_TABLE, 0);
	getrusage(RUSAGE_SELF, &before);
	clock_t start = clock();
	for (uint32_t n = 0; n < COUNT; n += BATCH) {
		for (int i = 0; i < BATCH; i++)
			address[i] = peer(n + i);
		CHECK(fi_av_insert(av, address, BATCH, NULL, 0, NULL) == BATCH);
	}
	double took = (double)(clock() - start) / CLOCKS_PER_SEC;
	getrusage(RUSAGE_SELF, &after);
	long kilobytes = after.ru_maxrss - before.ru_maxrss;
	printf("a million addresses: %.2f s of processor time, %ld kB\n", took, kilobytes);
	CHECK(is(av, 0, peer(0)) && is(av, COUNT - 1, peer(COUNT - 1)));
	// Bounds, not measurements: a table with linear searches takes hours. Under valgrind all is slower
	// and larger.
	CHECK(getenv("UNDER_VALGRIND") || (took < 10 && kilobytes < 120 << 10));
	EXPECT(0, fi_close(&av->fid));
}

int main(int argc, char **argv)
{
	struct fi_info *hints = hints_for_us();
	hints->caps = FI_MSG | FI_SHARED_AV;
	info = info_on("127.0.0.1", hints);
	fi_freeinfo(hints);
	CHECK((info->caps & FI_SHARED_AV) && (info->domain_attr->caps & FI_SHARED_AV));
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	if (argc > 1)
		return other_process(argv[1]);
	indices(FI_AV_TABLE);
	indices(FI_AV_MAP);
	indices(FI_AV_UNSPEC);
	errors();
	names();
	events();
	// Under valgrind /proc/self/exe is valgrind.
	if (!getenv("UNDER_VALGRIND"))
		shared();
	limited();
	million();
	EXPECT(0, fi_close(&domain->fid));
	EXPECT(0, fi_close(&fabric->fid));
	fi_freeinfo(info);
	return test_status("av");
}
