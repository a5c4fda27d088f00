// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages of 64 MiB, in both directions at once, one of them into a receive that is posted late.
#include "check.h"

enum { LENGTH = 64 << 20 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    // Two ranks of different hosts: first and last.
    int partner = rank == 0 ? ranks - 1 : 0;
    if (rank == 0 || rank == ranks - 1) {
        unsigned char *out = allocate(LENGTH), *in = allocate(LENGTH);
        MPI_Request requests[2];
        fill(out, LENGTH, (unsigned)rank);
        MPI_Irecv(in, LENGTH, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, LENGTH, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        verify(in, LENGTH, (unsigned)partner);
        memset(in, 0, LENGTH);
        if (rank == 0) {
            fill(out, LENGTH, 77);
            MPI_Send(out, LENGTH, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
        } else {
            MPI_Probe(partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(in, LENGTH, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(in, LENGTH, 77);
        }
        free(out);
        free(in);
    }
    return end("large");
}
