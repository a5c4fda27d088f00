// SPDX-License-Identifier: MIT OR Apache-2.0
// One-sided: put and get under fence, lock, lock-all with flush, and post-start-complete-wait. They
// are small and large, contiguous and strided, into windows that MPI or the program allocated.
#include "check.h"

enum { SLOT = 40000, INTS = SLOT / (int)sizeof(int) };

static MPI_Win window;
static int *memory, *scratch;
static int right, left;

// Each rank has one slot in the window of every rank.
static MPI_Aint slot_of(int owner)
{
    return (MPI_Aint)owner * SLOT;
}

static int value(int writer, int reader, int round, int i)
{
    return writer * 1000003 + reader * 997 + round * 31 + i;
}

static void clear(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(memory, 0, (size_t)ranks * SLOT);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void write_to(int target, int round)
{
    for (int i = 0; i < INTS; i++)
        scratch[i] = value(rank, target, round, i);
}

static void expect_from(const int *from, int writer, int reader, int round)
{
    for (int i = 0; i < INTS; i++)
        CHECK(from[i] == value(writer, reader, round, i));
}

static void by_fence(void)
{
    clear();
    MPI_Win_fence(0, window);
    write_to(right, 1);
    MPI_Put(scratch, INTS, MPI_INT, right, slot_of(rank), SLOT, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    expect_from(memory + left * INTS, left, rank, 1);
    memset(scratch, 0, SLOT);
    MPI_Win_fence(0, window);
    // The data that this rank wrote, read back.
    MPI_Get(scratch, INTS, MPI_INT, right, slot_of(rank), INTS, MPI_INT, window);
    MPI_Win_fence(0, window);
    expect_from(scratch, rank, right, 1);
}

static void by_lock(void)
{
    clear();
    for (int target = 0; target < ranks; target++) {
        write_to(target, 2);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Put(scratch, INTS, MPI_INT, target, slot_of(rank), INTS, MPI_INT, window);
        MPI_Win_unlock(target, window);
        memset(scratch, 0, SLOT);
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
        MPI_Get(scratch, INTS, MPI_INT, target, slot_of(rank), INTS, MPI_INT, window);
        MPI_Win_unlock(target, window);
        expect_from(scratch, rank, target, 2);
    }
}

static void by_flush(void)
{
    enum { PIECES = 100 };
    clear();
    MPI_Win_lock_all(0, window);
    for (int target = 0; target < ranks; target++) {
        write_to(target, 3);
        // Many small puts, ended by one flush.
        for (int i = 0; i < PIECES; i++)
            MPI_Put(scratch + i, 1, MPI_INT, target, slot_of(rank) + i * (int)sizeof(int), 1,
                    MPI_INT, window);
        MPI_Win_flush_local(target, window);
        MPI_Win_flush(target, window);
        memset(scratch, 0, SLOT);
        MPI_Request request;
        MPI_Rget(scratch, PIECES, MPI_INT, target, slot_of(rank), PIECES, MPI_INT, window,
                 &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < PIECES; i++)
            CHECK(scratch[i] == value(rank, target, 3, i));
    }
    MPI_Win_flush_all(window);
    MPI_Win_unlock_all(window);
}

static void by_post_and_start(void)
{
    MPI_Group world, from, to;
    clear();
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &left, &from);
    MPI_Group_incl(world, 1, &right, &to);
    for (int round = 4; round < 7; round++) {
        write_to(right, round);
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        MPI_Put(scratch, INTS, MPI_INT, right, slot_of(rank), INTS, MPI_INT, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        expect_from(memory + left * INTS, left, rank, round);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Group_free(&from);
    MPI_Group_free(&to);
    MPI_Group_free(&world);
}

static void strided(void)
{
    enum { BLOCKS = INTS / 4 };
    MPI_Datatype every_fourth;
    clear();
    MPI_Type_vector(BLOCKS, 1, 4, MPI_INT, &every_fourth);
    MPI_Type_commit(&every_fourth);
    write_to(right, 8);
    MPI_Win_fence(0, window);
    MPI_Put(scratch, BLOCKS, MPI_INT, right, slot_of(rank), 1, every_fourth, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < INTS; i++)
        CHECK(memory[left * INTS + i]
              == (i % 4 == 0 && i / 4 < BLOCKS ? value(left, rank, 8, i / 4) : 0));
    MPI_Type_free(&every_fourth);
}

static void all_ways(void)
{
    by_fence();
    by_lock();
    by_flush();
    by_post_and_start();
    strided();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    scratch = allocate(SLOT);
    MPI_Aint bytes = (MPI_Aint)ranks * SLOT;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    all_ways();
    MPI_Win_free(&window);
    memory = allocate((size_t)bytes);
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    all_ways();
    MPI_Win_free(&window);
    return end("onesided");
}
