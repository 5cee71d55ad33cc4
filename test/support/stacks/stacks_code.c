/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with a function CODE_NAME(run), which calls CODE_NAME(inner), which calls
 * CODE_NAME(burn). CODE_ROOM bytes in its frames make one library's differ from another's.
 */
#include "test/support/stacks/stacks_code.h"

#define OWN_FRAME     __attribute__((noinline, noclone, noipa))
#define GLUE(a, b)    a##_##b
#define NAME(a, b)    GLUE(a, b)
#define CODE_NAME(of) NAME(CODE, of)

code_run CODE_NAME(run);

OWN_FRAME static void CODE_NAME(burn)(uint64_t end, uint64_t (*now)(void))
{
    volatile int sink[CODE_ROOM];
    while (now() < end)
        for (int i = 0; i < 50000; i++)
            sink[i % 2] = sink[0] + i;
}

OWN_FRAME static void CODE_NAME(inner)(uint64_t end, uint64_t (*now)(void))
{
    volatile char room[CODE_ROOM * 3];
    room[0] = 0;
    CODE_NAME(burn)(end, now);
    room[1] = room[0];
}

void CODE_NAME(run)(uint64_t end, uint64_t (*now)(void))
{
    volatile char room[CODE_ROOM * 7];
    room[0] = 0;
    CODE_NAME(inner)(end, now);
    room[1] = room[0];
}
