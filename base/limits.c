/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"
#include <assert.h>

extern const struct limit __start_spanprof_limits[] __attribute__((weak, visibility("hidden")));
extern const struct limit __stop_spanprof_limits[] __attribute__((weak, visibility("hidden")));

const struct limit *limits_all(size_t *n)
{
    uintptr_t start = (uintptr_t)__start_spanprof_limits, stop = (uintptr_t)__stop_spanprof_limits;
    assert((stop - start) % sizeof(struct limit) == 0);
    *n = (stop - start) / sizeof(struct limit);
    return __start_spanprof_limits;
}
