// SPDX-License-Identifier: MIT OR Apache-2.0
// Probing: rank 0 sees messages before it receives them, by Probe, Iprobe, Mprobe and Improbe, with
// and without wildcards. No other receive can take a matched message.
#include "check.h"

static const int sizes[] = {0, 5, 900, 20000, 300000};
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 300000, ABSENT = 999 };

static unsigned char *buffer;

static unsigned name_of(int source, int tag)
{
    return (unsigned)(source * 100 + tag);
}

static void check_received(const MPI_Status *seen, const MPI_Status *got)
{
    int announced, arrived;
    MPI_Get_count(seen, MPI_BYTE, &announced);
    MPI_Get_count(got, MPI_BYTE, &arrived);
    CHECK(announced == arrived && arrived == sizes[seen->MPI_TAG % SIZES]);
    CHECK(seen->MPI_SOURCE == got->MPI_SOURCE && seen->MPI_TAG == got->MPI_TAG);
    verify(buffer, (size_t)arrived, name_of(got->MPI_SOURCE, got->MPI_TAG));
}

static void by_probe(int source, int tag)
{
    MPI_Status seen, got;
    MPI_Probe(source, tag, MPI_COMM_WORLD, &seen);
    MPI_Recv(buffer, LARGEST, MPI_BYTE, seen.MPI_SOURCE, seen.MPI_TAG, MPI_COMM_WORLD, &got);
    check_received(&seen, &got);
}

static void by_iprobe(int source, int tag)
{
    MPI_Status seen, got;
    int found = 0;
    while (!found)
        MPI_Iprobe(source, tag, MPI_COMM_WORLD, &found, &seen);
    MPI_Recv(buffer, LARGEST, MPI_BYTE, seen.MPI_SOURCE, seen.MPI_TAG, MPI_COMM_WORLD, &got);
    check_received(&seen, &got);
}

static void by_mprobe(int source, int tag)
{
    MPI_Status seen, got;
    MPI_Message message;
    MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &seen);
    CHECK(message != MPI_MESSAGE_NULL);
    MPI_Mrecv(buffer, LARGEST, MPI_BYTE, &message, &got);
    check_received(&seen, &got);
}

static void by_improbe(int source, int tag)
{
    MPI_Status seen, got;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request;
    int found = 0;
    while (!found)
        MPI_Improbe(source, tag, MPI_COMM_WORLD, &found, &message, &seen);
    MPI_Imrecv(buffer, LARGEST, MPI_BYTE, &message, &request);
    MPI_Wait(&request, &got);
    check_received(&seen, &got);
}

static void nothing_there(void)
{
    int found = 1;
    MPI_Message message;
    MPI_Iprobe(MPI_ANY_SOURCE, ABSENT, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
    CHECK(!found);
    MPI_Improbe(MPI_ANY_SOURCE, ABSENT, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
    CHECK(!found);
}

// The first of two equal messages is claimed; a plain receive must then get the second.
static void claimed_is_gone(void)
{
    MPI_Message message;
    int values[2] = {0, 0};
    MPI_Mprobe(1, 50, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Recv(&values[1], 1, MPI_INT, 1, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Mrecv(&values[0], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(values[0] == 1 && values[1] == 2);
}

static void receive(void)
{
    typedef void probing(int, int);
    probing *const ways[] = {by_probe, by_iprobe, by_mprobe, by_improbe};
    nothing_there();
    for (int way = 0; way < 4; way++) {
        for (int source = 1; source < ranks; source++)
            for (int size = SIZES - 1; size >= 0; size--)
                ways[way](source, way * SIZES + size);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < (ranks - 1) * SIZES; i++)
            ways[way](MPI_ANY_SOURCE, MPI_ANY_TAG);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    claimed_is_gone();
}

static void send_each(int way)
{
    MPI_Request requests[SIZES];
    unsigned char *parts[SIZES];
    for (int size = 0; size < SIZES; size++) {
        int tag = way * SIZES + size;
        parts[size] = allocate((size_t)sizes[size]);
        fill(parts[size], (size_t)sizes[size], name_of(rank, tag));
        MPI_Isend(parts[size], sizes[size], MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[size]);
    }
    MPI_Waitall(SIZES, requests, MPI_STATUSES_IGNORE);
    for (int size = 0; size < SIZES; size++)
        free(parts[size]);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    buffer = allocate(LARGEST);
    if (rank == 0) {
        receive();
    } else {
        for (int way = 0; way < 4; way++) {
            send_each(way);
            MPI_Barrier(MPI_COMM_WORLD);
            send_each(way);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        for (int value = 1; rank == 1 && value <= 2; value++)
            MPI_Send(&value, 1, MPI_INT, 0, 50, MPI_COMM_WORLD);
    }
    return end("probe");
}
