// SPDX-License-Identifier: MIT OR Apache-2.0
// Cancelled receives: an unmatched one is cancelled, and takes no later message; a matched one ends
// well although it was cancelled. A message that is too long is an error.
#include "check.h"

static int partner;

// Receives of a tag that is sent only after their cancellation.
static void cancelled_takes_nothing(int size)
{
    enum { COUNT = 4 };
    unsigned char *buffers[COUNT], *out = allocate((size_t)size), *in = allocate((size_t)size);
    MPI_Request requests[COUNT];
    for (int i = 0; i < COUNT; i++) {
        buffers[i] = allocate((size_t)size);
        MPI_Irecv(buffers[i], size, MPI_BYTE, partner, 7, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        MPI_Status status;
        int cancelled = 0;
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    fill(out, (size_t)size, (unsigned)rank);
    MPI_Sendrecv(out, size, MPI_BYTE, partner, 7, in, size, MPI_BYTE, partner, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    verify(in, (size_t)size, (unsigned)partner);
    for (int i = 0; i < COUNT; i++) {
        for (int byte = 0; byte < size; byte++)
            CHECK(buffers[i][byte] == 0xA5);
        free(buffers[i]);
    }
    free(out);
    free(in);
}

// The barrier comes after the message on the same connection, but may overtake it: so the program
// asks until the message is there. A completed receive cannot be cancelled any more.
static void matched_is_not_cancelled(void)
{
    int value = -1, mine = rank, done = 0, cancelled = 1;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&value, 1, MPI_INT, partner, 8, MPI_COMM_WORLD, &request);
    MPI_Send(&mine, 1, MPI_INT, partner, 8, MPI_COMM_WORLD);
    while (!done)
        MPI_Request_get_status(request, &done, &status);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(!cancelled && value == partner);
}

static void too_long_is_truncated(int size)
{
    unsigned char *out = allocate((size_t)size), *in = allocate((size_t)size);
    MPI_Request request;
    int kind = MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Irecv(in, size / 2, MPI_BYTE, partner, 9, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(out, size, MPI_BYTE, partner, 9, MPI_COMM_WORLD);
    int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &kind);
    CHECK(kind == MPI_ERR_TRUNCATE);
    for (int byte = size / 2; byte < size; byte++)
        CHECK(in[byte] == 0xA5);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    // The partner's error is over before the next test begins.
    MPI_Barrier(MPI_COMM_WORLD);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(ranks % 2 == 0);
    partner = (rank + ranks / 2) % ranks;
    cancelled_takes_nothing(16);
    cancelled_takes_nothing(100000);
    matched_is_not_cancelled();
    too_long_is_truncated(64);
    too_long_is_truncated(8000);
    return end("cancel");
}
