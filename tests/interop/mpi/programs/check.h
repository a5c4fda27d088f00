// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared code of the MPI test programs: checks that end the job, and bytes that identify a message.
#ifndef OFI_XDP_MPI_CHECK_H
#define OFI_XDP_MPI_CHECK_H

#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

// A failed check ends every rank, and the exit code of the job shows it.
#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "rank %d: %s:%d: not true: %s\n", rank, __FILE__, __LINE__, \
                    #condition);                                                     \
            MPI_Abort(MPI_COMM_WORLD, 3);                                            \
            exit(3);                                                                 \
        }                                                                            \
    } while (0)

// The byte at `i` of message `seed`: all messages differ, and so do their parts.
static inline unsigned char expected(size_t i, unsigned seed)
{
    return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16) * 3 + seed * 101 + 13);
}

static inline void fill(void *buffer, size_t length, unsigned seed)
{
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < length; i++)
        bytes[i] = expected(i, seed);
}

static inline void verify(const void *buffer, size_t length, unsigned seed)
{
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != expected(i, seed)) {
            fprintf(stderr, "rank %d: byte %zu of %zu of message %u is wrong\n", rank, i, length,
                    seed);
            MPI_Abort(MPI_COMM_WORLD, 4);
            exit(4);
        }
    }
}

static inline void *allocate(size_t length)
{
    void *memory = malloc(length ? length : 1);
    CHECK(memory != NULL);
    memset(memory, 0xA5, length);
    return memory;
}

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(ranks >= 2);
}

// The runner looks for this line: a launcher that lost its job may also exit with 0.
static inline int end(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("verified: %s on %d ranks\n", name, ranks);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

#endif
