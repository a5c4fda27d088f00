// SPDX-License-Identifier: MIT OR Apache-2.0
// Any source, any tag: rank 0 takes every message. Each message comes once, and those of one source
// come in the order in which they were sent, for any size.
#include "check.h"

enum { MESSAGES = 200, LARGEST = 70000 };

// Mostly small messages, with a rendezvous message now and then.
static int length_of(int number)
{
    return number % 17 == 16 ? LARGEST - number : number * 13 % 2000 + (int)sizeof(int);
}

static void receive_all(void)
{
    int *next = allocate((size_t)ranks * sizeof *next);
    unsigned char *buffer = allocate(LARGEST);
    memset(next, 0, (size_t)ranks * sizeof *next);
    for (int i = 0; i < (ranks - 1) * MESSAGES; i++) {
        MPI_Status status;
        int count, number;
        MPI_Recv(buffer, LARGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        memcpy(&number, buffer, sizeof number);
        int source = status.MPI_SOURCE;
        CHECK(source > 0 && source < ranks);
        CHECK(number == next[source] && status.MPI_TAG == number % 5);
        CHECK(count == length_of(number));
        verify(buffer + sizeof number, (size_t)count - sizeof number, (unsigned)(source + number));
        next[source]++;
    }
    for (int source = 1; source < ranks; source++)
        CHECK(next[source] == MESSAGES);
}

static void send_all(void)
{
    enum { WINDOW = 8 };
    unsigned char *buffers[WINDOW];
    MPI_Request requests[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        buffers[i] = allocate(LARGEST);
        requests[i] = MPI_REQUEST_NULL;
    }
    for (int number = 0; number < MESSAGES; number++) {
        int slot = number % WINDOW, length = length_of(number);
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        memcpy(buffers[slot], &number, sizeof number);
        fill(buffers[slot] + sizeof number, (size_t)length - sizeof number,
             (unsigned)(rank + number));
        MPI_Isend(buffers[slot], length, MPI_BYTE, 0, number % 5, MPI_COMM_WORLD, &requests[slot]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

// A posted wildcard and posted receives of one source compete for the same messages: the first
// posted receive that matches gets the first message.
static void wildcards_beside_directed(void)
{
    int source = 1, values[3] = {-1, -1, -1};
    MPI_Request requests[3];
    if (rank == 0) {
        MPI_Irecv(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, 30, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&values[1], 1, MPI_INT, source, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&values[2], 1, MPI_INT, source, 30, MPI_COMM_WORLD, &requests[2]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int value = 0; rank == source && value < 3; value++)
        MPI_Send(&value, 1, MPI_INT, 0, 30, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        CHECK(values[0] == 0 && values[1] == 1 && values[2] == 2);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (rank == 0)
        receive_all();
    else
        send_all();
    wildcards_beside_directed();
    return end("wildcard");
}
