// SPDX-License-Identifier: MIT OR Apache-2.0
// Point-to-point in every mode: standard, synchronous, buffered, ready; blocking, nonblocking,
// persistent. Each rank sends to its right neighbour, from empty messages to rendezvous ones.
#include "check.h"

enum { ROUNDS = 3 };
static const int sizes[] = {0,    1,     8,     64,    1000,   1024,   1025,
                            4096, 16384, 32768, 32769, 100000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 1 << 20 };

static unsigned char *out, *in;
static int left, right;

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int start_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static unsigned name_of(int source, int size, int mode)
{
    return (unsigned)(source * 1000 + size * 10 + mode);
}

static void received(MPI_Status *status, int size, int mode)
{
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK(count == sizes[size] && status->MPI_SOURCE == left && status->MPI_TAG == mode);
    verify(in, (size_t)count, name_of(left, size, mode));
}

// Every second rank sends first; an odd ring's last rank waits for its neighbour only.
static void blocking(send_call *send, int size, int mode)
{
    MPI_Status status;
    fill(out, (size_t)sizes[size], name_of(rank, size, mode));
    if (rank % 2 == 0) {
        send(out, sizes[size], MPI_BYTE, right, mode, MPI_COMM_WORLD);
        MPI_Recv(in, LARGEST, MPI_BYTE, left, mode, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(in, LARGEST, MPI_BYTE, left, mode, MPI_COMM_WORLD, &status);
        send(out, sizes[size], MPI_BYTE, right, mode, MPI_COMM_WORLD);
    }
    received(&status, size, mode);
}

static void nonblocking(start_call *start, int size, int mode)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    fill(out, (size_t)sizes[size], name_of(rank, size, mode));
    MPI_Irecv(in, LARGEST, MPI_BYTE, left, mode, MPI_COMM_WORLD, &requests[0]);
    // A ready send may only be started when its receive is posted.
    if (start == MPI_Irsend)
        MPI_Barrier(MPI_COMM_WORLD);
    start(out, sizes[size], MPI_BYTE, right, mode, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    received(&statuses[0], size, mode);
}

static void persistent(start_call *create, int size, int mode)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    create(out, sizes[size], MPI_BYTE, right, mode, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in, LARGEST, MPI_BYTE, left, mode, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < ROUNDS; round++) {
        fill(out, (size_t)sizes[size], name_of(rank, size, mode));
        memset(in, 0, (size_t)sizes[size]);
        MPI_Start(&requests[1]);
        if (create == MPI_Rsend_init)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&requests[0]);
        MPI_Waitall(2, requests, statuses);
        received(&statuses[1], size, mode);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void exchange(int size, int mode)
{
    MPI_Status status;
    fill(out, (size_t)sizes[size], name_of(rank, size, mode));
    MPI_Sendrecv(out, sizes[size], MPI_BYTE, right, mode, in, LARGEST, MPI_BYTE, left, mode,
                 MPI_COMM_WORLD, &status);
    received(&status, size, mode);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    out = allocate(LARGEST);
    in = allocate(LARGEST);
    int room = 2 * (LARGEST + MPI_BSEND_OVERHEAD);
    void *buffer = allocate((size_t)room);
    MPI_Buffer_attach(buffer, room);
    for (int size = 0; size < SIZES; size++) {
        blocking(MPI_Send, size, 1);
        blocking(MPI_Ssend, size, 2);
        blocking(MPI_Bsend, size, 3);
        nonblocking(MPI_Isend, size, 4);
        nonblocking(MPI_Issend, size, 5);
        nonblocking(MPI_Ibsend, size, 6);
        nonblocking(MPI_Irsend, size, 7);
        persistent(MPI_Send_init, size, 8);
        persistent(MPI_Ssend_init, size, 9);
        persistent(MPI_Rsend_init, size, 10);
        exchange(size, 11);
    }
    MPI_Buffer_detach(&buffer, &room);
    return end("modes");
}
