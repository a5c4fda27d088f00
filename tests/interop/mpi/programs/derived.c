// SPDX-License-Identifier: MIT OR Apache-2.0
// Derived types: data sent with holes arrives with other holes, and the holes stay untouched.
#include "check.h"

static int right, left;

enum { ROWS = 120, COLUMNS = 90 };

static void matrix_column_to_row(void)
{
    static int from[ROWS][COLUMNS], to[ROWS];
    MPI_Datatype column;
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < COLUMNS; i++)
            from[row][i] = rank * 100000 + row * COLUMNS + i;
    MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < COLUMNS; i += 29) {
        MPI_Sendrecv(&from[0][i], 1, column, right, i, to, ROWS, MPI_INT, left, i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int row = 0; row < ROWS; row++)
            CHECK(to[row] == left * 100000 + row * COLUMNS + i);
    }
    MPI_Type_free(&column);
}

static void transposed(void)
{
    enum { N = 300 };
    static double from[N][N], to[N][N];
    MPI_Datatype column, columns;
    for (int i = 0; i < N * N; i++)
        from[i / N][i % N] = rank + i * 0.5;
    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &columns);
    MPI_Type_commit(&columns);
    MPI_Sendrecv(from, N * N, MPI_DOUBLE, right, 1, to, N, columns, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            CHECK(to[j][i] == left + (i * N + j) * 0.5);
    MPI_Type_free(&column);
    MPI_Type_free(&columns);
}

struct particle {
    char kind;
    double position[3];
    int charge;
};

static void structures(void)
{
    enum { COUNT = 4000 };
    struct particle *out = allocate(COUNT * sizeof *out), *in = allocate(COUNT * sizeof *in);
    int lengths[] = {1, 3, 1};
    MPI_Aint displacements[] = {offsetof(struct particle, kind),
                                offsetof(struct particle, position),
                                offsetof(struct particle, charge)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, packed, particle;
    MPI_Type_create_struct(3, lengths, displacements, types, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct particle), &particle);
    MPI_Type_commit(&particle);
    for (int i = 0; i < COUNT; i++)
        out[i] = (struct particle){(char)(i % 100), {rank, i, rank * i}, -i};
    MPI_Status status;
    int count;
    MPI_Sendrecv(out, COUNT, particle, right, 2, in, COUNT, particle, left, 2, MPI_COMM_WORLD,
                 &status);
    MPI_Get_count(&status, particle, &count);
    CHECK(count == COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK(in[i].kind == i % 100 && in[i].charge == -i);
        CHECK(in[i].position[0] == left && in[i].position[1] == i && in[i].position[2] == left * i);
    }
    MPI_Type_free(&packed);
    MPI_Type_free(&particle);
    free(out);
    free(in);
}

static void indexed_with_holes(void)
{
    enum { BLOCKS = 500, STRIDE = 7 };
    int lengths[BLOCKS], displacements[BLOCKS];
    static short out[BLOCKS * STRIDE], in[BLOCKS * STRIDE];
    MPI_Datatype blocks;
    for (int i = 0; i < BLOCKS; i++) {
        lengths[i] = i % STRIDE;
        displacements[i] = i * STRIDE;
    }
    for (int i = 0; i < BLOCKS * STRIDE; i++) {
        out[i] = (short)(i + rank);
        in[i] = -7;
    }
    MPI_Type_indexed(BLOCKS, lengths, displacements, MPI_SHORT, &blocks);
    MPI_Type_commit(&blocks);
    MPI_Sendrecv(out, 1, blocks, right, 3, in, 1, blocks, left, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < BLOCKS * STRIDE; i++)
        CHECK(in[i] == (i % STRIDE < lengths[i / STRIDE] ? (short)(i + left) : -7));
    MPI_Type_free(&blocks);
}

static void inner_block_of_a_cube(void)
{
    enum { EDGE = 24, INNER = 10, AT = 5 };
    static int cube[EDGE][EDGE][EDGE], block[INNER][INNER][INNER];
    int edges[] = {EDGE, EDGE, EDGE}, inner[] = {INNER, INNER, INNER}, at[] = {AT, AT, AT};
    MPI_Datatype inside;
    int *cell = &cube[0][0][0];
    for (int i = 0; i < EDGE * EDGE * EDGE; i++)
        cell[i] = rank * 50000 + i;
    MPI_Type_create_subarray(3, edges, inner, at, MPI_ORDER_C, MPI_INT, &inside);
    MPI_Type_commit(&inside);
    MPI_Sendrecv(cube, 1, inside, right, 4, block, INNER * INNER * INNER, MPI_INT, left, 4,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int x = 0; x < INNER; x++)
        for (int y = 0; y < INNER; y++)
            for (int z = 0; z < INNER; z++)
                CHECK(block[x][y][z]
                      == left * 50000 + ((x + AT) * EDGE + y + AT) * EDGE + z + AT);
    MPI_Type_free(&inside);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    matrix_column_to_row();
    transposed();
    structures();
    indexed_with_holes();
    inner_block_of_a_cube();
    return end("derived");
}
