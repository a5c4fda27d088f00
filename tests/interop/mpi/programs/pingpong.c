// SPDX-License-Identifier: MIT OR Apache-2.0
// Half the round trip of 8-byte messages between the first and the last rank, in microseconds: the
// median of many. A measurement: it fails for wrong bytes, never for time.
#include "check.h"

enum { LENGTH = 8, WARM_UP = 500, ROUNDS = 5000 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double times[ROUNDS];
    unsigned char out[LENGTH], in[LENGTH];
    begin(&argc, &argv);
    int partner = rank == 0 ? ranks - 1 : 0;
    for (int round = -WARM_UP; (rank == 0 || rank == ranks - 1) && round < ROUNDS; round++) {
        fill(out, LENGTH, (unsigned)(round + rank));
        double start = MPI_Wtime();
        if (rank == 0)
            MPI_Send(out, LENGTH, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
        MPI_Recv(in, LENGTH, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank != 0)
            MPI_Send(out, LENGTH, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
        if (round >= 0)
            times[round] = (MPI_Wtime() - start) / 2 * 1e6;
        verify(in, LENGTH, (unsigned)(round + partner));
    }
    if (rank == 0) {
        qsort(times, ROUNDS, sizeof *times, by_size);
        printf("half-rtt-us: %.3f\n", times[ROUNDS / 2]);
    }
    return end("pingpong");
}
