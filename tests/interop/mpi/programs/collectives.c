// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives, blocking and nonblocking, from every root, on the world and on halves of it. Each
// result is compared with a computed one.
#include "check.h"

static MPI_Comm comm;
static int me, size;

static void broadcast(int count)
{
    unsigned char *buffer = allocate((size_t)count);
    for (int root = 0; root < size; root++) {
        memset(buffer, 0, (size_t)count);
        if (me == root)
            fill(buffer, (size_t)count, (unsigned)root);
        MPI_Bcast(buffer, count, MPI_BYTE, root, comm);
        verify(buffer, (size_t)count, (unsigned)root);
    }
    free(buffer);
}

static void reductions(int count)
{
    long *in = allocate((size_t)count * sizeof *in), *out = allocate((size_t)count * sizeof *out);
    long all = (long)size * (size - 1) / 2, before = (long)me * (me - 1) / 2;
    for (int i = 0; i < count; i++)
        in[i] = me + (long)i;
    MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == all + (long)i * size);
    MPI_Scan(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == before + me + (long)i * (me + 1));
    MPI_Exscan(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; me > 0 && i < count; i++)
        CHECK(out[i] == before + (long)i * me);
    for (int root = 0; root < size; root++) {
        MPI_Reduce(in, out, count, MPI_LONG, MPI_MAX, root, comm);
        for (int i = 0; me == root && i < count; i++)
            CHECK(out[i] == size - 1 + (long)i);
    }
    double value = me == size / 2 ? -1.5 : me;
    struct { double value; int rank; } mine = {value, me}, least;
    MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm);
    CHECK(least.value == -1.5 && least.rank == size / 2);
    free(in);
    free(out);
}

static void gather_and_scatter(int count)
{
    int *one = allocate((size_t)count * sizeof(int));
    int *all = allocate((size_t)count * (size_t)size * sizeof(int));
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < count; i++)
            one[i] = me * count + i;
        MPI_Gather(one, count, MPI_INT, all, count, MPI_INT, root, comm);
        for (int i = 0; me == root && i < count * size; i++)
            CHECK(all[i] == i);
        memset(one, 0, (size_t)count * sizeof(int));
        MPI_Scatter(all, count, MPI_INT, one, count, MPI_INT, root, comm);
        for (int i = 0; i < count; i++)
            CHECK(one[i] == me * count + i);
    }
    memset(all, 0, (size_t)count * (size_t)size * sizeof(int));
    MPI_Allgather(one, count, MPI_INT, all, count, MPI_INT, comm);
    for (int i = 0; i < count * size; i++)
        CHECK(all[i] == i);
    free(one);
    free(all);
}

// Rank r gives r + 1 numbers; a rank sends s * size + r to rank r.
static void uneven(void)
{
    int *counts = allocate((size_t)size * sizeof(int));
    int *starts = allocate((size_t)size * sizeof(int));
    int total = 0, mine[256];
    for (int i = 0; i < size; total += counts[i], i++) {
        counts[i] = i + 1;
        starts[i] = total;
    }
    int *all = allocate((size_t)total * sizeof(int));
    for (int i = 0; i <= me; i++)
        mine[i] = me;
    MPI_Allgatherv(mine, me + 1, MPI_INT, all, counts, starts, MPI_INT, comm);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < counts[from]; i++)
            CHECK(all[starts[from] + i] == from);
    free(all);
    free(counts);
    free(starts);
}

static void everyone_to_everyone(int count)
{
    size_t bytes = (size_t)count * (size_t)size * sizeof(int);
    int *out = allocate(bytes), *in = allocate(bytes);
    MPI_Request request;
    for (int i = 0; i < count * size; i++)
        out[i] = me * 100000 + i;
    for (int way = 0; way < 2; way++) {
        memset(in, 0, bytes);
        if (way == 0) {
            MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm);
        } else {
            MPI_Ialltoall(out, count, MPI_INT, in, count, MPI_INT, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        for (int from = 0; from < size; from++)
            for (int i = 0; i < count; i++)
                CHECK(in[from * count + i] == from * 100000 + me * count + i);
    }
    MPI_Reduce_scatter_block(out, in, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; i++)
        CHECK(in[i] == size * (size - 1) / 2 * 100000 + size * (me * count + i));
    free(out);
    free(in);
}

// Several collectives in flight at once, completed in another order than they were started.
static void nonblocking(void)
{
    enum { UNDER_WAY = 6 };
    MPI_Request requests[UNDER_WAY], barrier;
    int in[UNDER_WAY], out[UNDER_WAY];
    for (int i = 0; i < UNDER_WAY; i++) {
        in[i] = me + i;
        MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, comm, &requests[i]);
    }
    MPI_Ibarrier(comm, &barrier);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    for (int i = UNDER_WAY - 1; i >= 0; i--) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        CHECK(out[i] == size * (size - 1) / 2 + i * size);
    }
}

static void run(MPI_Comm on)
{
    comm = on;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    MPI_Barrier(comm);
    broadcast(1);
    broadcast(70000);
    reductions(1);
    reductions(5000);
    gather_and_scatter(1);
    gather_and_scatter(3000);
    uneven();
    everyone_to_everyone(1);
    everyone_to_everyone(2500);
    nonblocking();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    run(MPI_COMM_WORLD);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    run(half);
    MPI_Comm_free(&half);
    return end("collectives");
}
