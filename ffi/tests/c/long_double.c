// SPDX-License-Identifier: MIT OR Apache-2.0
// Atomic operations on long double give what the processor gives, bit by bit: numbers near each
// other, far apart, below the least normal one, and what is no number. For x86-64.

#include <math.h>
#include <rdma/fi_atomic.h>

#include "common.h"

#define COUNT 32
#define ROUNDS 400

static uint64_t state = 88172645463325252ull;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static long double number(void)
{
	static const uint16_t exponents[] = {0, 1, 2, 64, 0x3fbe, 0x3fff, 0x4000, 0x7ffd, 0x7ffe};
	uint64_t choice = any() % 16, significand = any() | 1ull << 63;
	uint16_t exponent = 0x3fff + any() % 130 - 65;
	long double number = 0;
	switch (choice) {
	case 0: return any() & 1 ? 0.0L : -0.0L;
	case 1: return any() & 1 ? INFINITY : -(long double)INFINITY;
	case 2: return NAN;
	case 3: return (long double)(int64_t)any();
	case 4: exponent = any() % 0x7fff; break;
	case 5: exponent = exponents[any() % 9]; break;
	case 6: exponent = 0; break;
	// Few bits, so that ties are not rare.
	case 7: significand &= 0xe000000000000007ull; break;
	}
	if (!exponent)
		significand &= ~(1ull << 63);
	exponent |= any() & 1 ? 0x8000 : 0;
	memcpy(&number, &significand, 8);
	memcpy((char *)&number + 8, &exponent, 2);
	return number;
}

static long double sum(long double a, long double b) { return a + b; }
static long double product(long double a, long double b) { return a * b; }
// As fi_atomic(3) has them: a target that does not compare stays.
static long double least(long double a, long double b) { return b < a ? b : a; }
static long double greatest(long double a, long double b) { return b > a ? b : a; }
static long double either(long double a, long double b) { return a || b; }
static long double both(long double a, long double b) { return a && b; }
static long double one(long double a, long double b) { return !a != !b; }
static long double second(long double a, long double b) { (void)a; return b; }

static const struct {
	enum fi_op op;
	long double (*result)(long double, long double);
} ops[] = {
	{FI_SUM, sum}, {FI_PROD, product}, {FI_MIN, least}, {FI_MAX, greatest}, {FI_LOR, either},
	{FI_LAND, both}, {FI_LXOR, one}, {FI_ATOMIC_WRITE, second},
};

static int agree(long double is, long double should)
{
	if (isnan(is) || isnan(should))
		return isnan(is) && isnan(should);
	return !memcmp(&is, &should, 10);
}

static int swaps(enum fi_op op, long double compare, long double target)
{
	switch (op) {
	case FI_CSWAP: return compare == target;
	case FI_CSWAP_NE: return compare != target;
	case FI_CSWAP_LE: return compare <= target;
	case FI_CSWAP_LT: return compare < target;
	case FI_CSWAP_GE: return compare >= target;
	default: return compare > target;
	}
}

static long double target[COUNT], before[COUNT], operand[COUNT], compare[COUNT], fetched[COUNT];

static void fill(void)
{
	for (int n = 0; n < COUNT; n++) {
		target[n] = before[n] = number();
		operand[n] = number();
		compare[n] = any() & 1 ? target[n] : number();
	}
}

static void done(struct pair *pair)
{
	struct fi_cq_tagged_entry entry;
	CHECK(next(pair, 0, &entry, NULL) == 1);
}

static void combines(struct pair *pair)
{
	for (size_t n = 0; n < sizeof(ops) / sizeof(ops[0]); n++) {
		fill();
		MUST(fi_fetch_atomic(pair->ep[0], operand, COUNT, NULL, fetched, NULL, pair->addr[1], 0, 5,
				     FI_LONG_DOUBLE, ops[n].op, NULL));
		done(pair);
		for (int at = 0; at < COUNT; at++) {
			CHECK(agree(fetched[at], before[at]));
			CHECK(agree(target[at], ops[n].result(before[at], operand[at])));
		}
	}
}

static void compares(struct pair *pair)
{
	for (enum fi_op op = FI_CSWAP; op <= FI_CSWAP_GT; op++) {
		fill();
		MUST(fi_compare_atomic(pair->ep[0], operand, COUNT, NULL, compare, NULL, fetched, NULL,
				       pair->addr[1], 0, 5, FI_LONG_DOUBLE, op, NULL));
		done(pair);
		for (int at = 0; at < COUNT; at++) {
			int swapped = swaps(op, compare[at], before[at]);
			CHECK(agree(target[at], swapped ? operand[at] : before[at]));
		}
	}
}

// Two elements make a complex one.
static void complex_sums(struct pair *pair)
{
	fill();
	MUST(fi_fetch_atomic(pair->ep[0], operand, COUNT / 2, NULL, fetched, NULL, pair->addr[1], 0, 5,
			     FI_LONG_DOUBLE_COMPLEX, FI_SUM, NULL));
	done(pair);
	for (int at = 0; at < COUNT; at++)
		CHECK(agree(target[at], before[at] + operand[at]));
}

int main(void)
{
	struct fi_info *hints = hints_for_us();
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct pair pair;
	struct fid_mr *mr;
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
	pair_open(&pair, info_on("127.0.0.1", hints), &attr, 0);
	MUST(fi_mr_reg(pair.domain, target, sizeof(target), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0,
		       &mr, NULL));
	for (int round = 0; round < ROUNDS; round++) {
		combines(&pair);
		compares(&pair);
		complex_sums(&pair);
	}
	EXPECT(0, fi_close(&mr->fid));
	pair_close(&pair);
	fi_freeinfo(hints);
	return test_status("long_double");
}
