/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are the same in each run, so that two tenants of a test never have one share (fair_share.h),
 * which is rare, but would fail it. */
#include <stdint.h>
#include <sys/random.h>

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags);

ssize_t __wrap_getrandom(void *out, size_t size, unsigned flags)
{
    static uint64_t state = 1;
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((uint8_t *)out)[i] = (uint8_t)(state >> 56);
    }
    return (ssize_t)size;
}
