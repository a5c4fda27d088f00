// SPDX-License-Identifier: MIT OR Apache-2.0
// One-sided arithmetic in every type: all ranks at once on the same words of rank 0, so that a lost
// or repeated addition shows.
#include "check.h"

enum { WORDS = 1000, ROUNDS = 50 };

static MPI_Win window;
static long *memory;

static void clear(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(memory, 0, WORDS * sizeof *memory);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void read_all(long *into)
{
    MPI_Win_flush_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get(into, WORDS, MPI_LONG, 0, 0, WORDS, MPI_LONG, window);
    MPI_Win_flush(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sums_are_whole(void)
{
    long add[WORDS], sum[WORDS];
    clear();
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < WORDS; i++)
        add[i] = i + rank;
    for (int round = 0; round < ROUNDS / 10; round++)
        MPI_Accumulate(add, WORDS, MPI_LONG, 0, 0, WORDS, MPI_LONG, MPI_SUM, window);
    for (int round = 0; round < ROUNDS; round++)
        MPI_Accumulate(add, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, window);
    read_all(sum);
    MPI_Win_unlock_all(window);
    long all = (long)ranks * (ranks - 1) / 2;
    CHECK(sum[0] == all * (ROUNDS / 10 + ROUNDS));
    for (int i = 1; i < WORDS; i++)
        CHECK(sum[i] == (all + (long)i * ranks) * (ROUNDS / 10));
}

// Every rank draws tickets; no two ranks get the same one, and none is left out.
static void tickets_are_given_once(void)
{
    long one = 1, ticket, last = -1, zero = 0;
    int total = ranks * ROUNDS;
    unsigned char *mine = allocate((size_t)total), *all = allocate((size_t)total);
    memset(mine, 0, (size_t)total);
    clear();
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        CHECK(ticket > last && ticket < total);
        mine[ticket] = 1;
        last = ticket;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Fetch_and_op(&zero, &ticket, MPI_LONG, 0, 0, MPI_NO_OP, window);
    MPI_Win_flush(0, window);
    CHECK(ticket == total);
    MPI_Win_unlock_all(window);
    MPI_Allreduce(mine, all, total, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < total; i++)
        CHECK(all[i] == 1);
    free(mine);
    free(all);
}

// A counter by compare-and-swap: each success adds one, so the last value is their number.
static void compare_and_swap(void)
{
    clear();
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < ROUNDS / 5; round++) {
        long seen = 0, next, was = -1;
        for (;;) {
            next = seen + 1;
            MPI_Compare_and_swap(&next, &seen, &was, MPI_LONG, 0, 8, window);
            MPI_Win_flush(0, window);
            if (was == seen)
                break;
            seen = was;
        }
    }
    long all[WORDS];
    read_all(all);
    MPI_Win_unlock_all(window);
    CHECK(all[1] == (long)ranks * (ROUNDS / 5));
    CHECK(all[0] == 0 && all[2] == 0);
}

// A sum in each arithmetic type, by every rank on the first words of rank 0.
#define SUM_IN(type, mpi_type)                                                          \
    do {                                                                                \
        type add[4] = {1, 2, 3, 4}, sum[4];                                             \
        clear();                                                                        \
        MPI_Win_fence(0, window);                                                       \
        MPI_Accumulate(add, 4, mpi_type, 0, 0, 4, mpi_type, MPI_SUM, window);           \
        MPI_Win_fence(0, window);                                                       \
        MPI_Get(sum, 4, mpi_type, 0, 0, 4, mpi_type, window);                           \
        MPI_Win_fence(0, window);                                                       \
        for (int i = 0; i < 4; i++)                                                     \
            CHECK(sum[i] == (type)(add[i] * (type)ranks));                              \
    } while (0)

static void every_type(void)
{
    SUM_IN(signed char, MPI_SIGNED_CHAR);
    SUM_IN(unsigned short, MPI_UNSIGNED_SHORT);
    SUM_IN(int, MPI_INT);
    SUM_IN(unsigned, MPI_UNSIGNED);
    SUM_IN(long long, MPI_LONG_LONG);
    SUM_IN(float, MPI_FLOAT);
    SUM_IN(double, MPI_DOUBLE);
    SUM_IN(long double, MPI_LONG_DOUBLE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Win_allocate(WORDS * sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    sums_are_whole();
    tickets_are_given_once();
    compare_and_swap();
    every_type();
    MPI_Win_free(&window);
    return end("atomics");
}
