// SPDX-License-Identifier: MIT OR Apache-2.0
// Several threads of each rank at once, each with a tag of its own (MPI_THREAD_MULTIPLE).
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 60, LARGEST = 40000 };

static void *talk(void *argument)
{
    int me = *(int *)argument, partner = (rank + ranks / 2) % ranks;
    unsigned char *out = allocate(LARGEST), *in = allocate(LARGEST);
    for (int round = 0; round < ROUNDS; round++) {
        int length = round % 10 == 9 ? LARGEST : round * 50;
        unsigned seed = (unsigned)(me * 1000 + round);
        fill(out, (size_t)length, seed + (unsigned)rank);
        MPI_Sendrecv(out, length, MPI_BYTE, partner, me, in, LARGEST, MPI_BYTE, partner, me,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(in, (size_t)length, seed + (unsigned)partner);
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(provided == MPI_THREAD_MULTIPLE && ranks % 2 == 0);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, talk, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return end("threads");
}
