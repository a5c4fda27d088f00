// SPDX-License-Identifier: MIT OR Apache-2.0
// One-sided operators: each operator of MPI, fetching, by every rank on a word of its own at rank
// 0. The previous value is compared each time.
#include "check.h"

static MPI_Win window;
static long *memory;

static long apply(MPI_Op op, long target, long operand)
{
    if (op == MPI_SUM) return target + operand;
    if (op == MPI_PROD) return target * operand;
    if (op == MPI_MAX) return target > operand ? target : operand;
    if (op == MPI_MIN) return target < operand ? target : operand;
    if (op == MPI_BAND) return target & operand;
    if (op == MPI_BOR) return target | operand;
    if (op == MPI_BXOR) return target ^ operand;
    if (op == MPI_LAND) return target && operand;
    if (op == MPI_LOR) return target || operand;
    if (op == MPI_LXOR) return !target != !operand;
    if (op == MPI_REPLACE) return operand;
    return target; // MPI_NO_OP
}

static void every_operation(void)
{
    const MPI_Op operations[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR,
                                 MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE, MPI_NO_OP};
    const long operands[] = {5, 3, 9, -2, 0x3f, 0x40, 0x11, 1, 0, 1, 12, 99};
    MPI_Aint displacement = (MPI_Aint)(rank + 1) * 8;
    long is = 0, was;
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
            long operand = operands[i] + round;
            MPI_Get_accumulate(&operand, 1, MPI_LONG, &was, 1, MPI_LONG, 0, displacement, 1,
                               MPI_LONG, operations[i], window);
            MPI_Win_flush(0, window);
            CHECK(was == is);
            is = apply(operations[i], is, operand);
        }
    }
    MPI_Win_unlock_all(window);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Aint bytes = (MPI_Aint)(ranks + 1) * 8;
    MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(memory, 0, (size_t)bytes);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    every_operation();
    MPI_Win_free(&window);
    return end("operators");
}
