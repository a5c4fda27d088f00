// SPDX-License-Identifier: MIT OR Apache-2.0
// More ranks than cores: all to all point to point, a reduction, an exchange, then many messages to
// rank 0.
#include "check.h"

enum { LENGTH = 3000, STORM = 10 };

static void pairs(void)
{
    unsigned char *out = allocate(LENGTH), *in = allocate((size_t)ranks * LENGTH);
    MPI_Request *requests = allocate(2 * (size_t)ranks * sizeof *requests);
    fill(out, LENGTH, (unsigned)rank);
    for (int peer = 0; peer < ranks; peer++)
        MPI_Irecv(in + (size_t)peer * LENGTH, LENGTH, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                  &requests[peer]);
    for (int step = 0; step < ranks; step++)
        MPI_Isend(out, LENGTH, MPI_BYTE, (rank + step) % ranks, 1, MPI_COMM_WORLD,
                  &requests[ranks + step]);
    MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < ranks; peer++)
        verify(in + (size_t)peer * LENGTH, LENGTH, (unsigned)peer);
    free(out);
    free(in);
    free(requests);
}

static void together(void)
{
    size_t bytes = (size_t)ranks * sizeof(int);
    int sum, *out = allocate(bytes), *in = allocate(bytes);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks * (ranks - 1) / 2);
    for (int i = 0; i < ranks; i++)
        out[i] = rank * ranks + i;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        CHECK(in[i] == i * ranks + rank);
    free(out);
    free(in);
}

// No rank waits for rank 0, which receives the messages late.
static void storm(void)
{
    if (rank == 0) {
        long total = 0;
        for (int i = 0; i < (ranks - 1) * STORM; i++) {
            int value;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            total += value;
        }
        CHECK(total == (long)STORM * ranks * (ranks - 1) / 2);
    } else {
        for (int i = 0; i < STORM; i++)
            MPI_Send(&rank, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    pairs();
    together();
    storm();
    return end("many");
}
