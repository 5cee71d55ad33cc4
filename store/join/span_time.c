/* SPDX-License-Identifier: Apache-2.0 */
#include "store/join/span_time.h"

#define SLACK_NS (10 * UINT64_C(1000000))
#define SLEW     1000

bool span_time_has(uint64_t start_unix_ns, uint64_t end_unix_ns, uint64_t time_unix_ns)
{
    if (time_unix_ns < start_unix_ns)
        return start_unix_ns - time_unix_ns <= SLACK_NS;
    return time_unix_ns <= end_unix_ns || time_unix_ns - end_unix_ns <= SLACK_NS;
}

uint64_t span_time_over(uint64_t start_unix_ns, uint64_t end_unix_ns)
{
    uint64_t over;
    if (end_unix_ns < start_unix_ns)
        return UINT64_MAX;
    uint64_t slack = SLACK_NS + (end_unix_ns - start_unix_ns) / SLEW;
    return __builtin_add_overflow(end_unix_ns, slack, &over) ? UINT64_MAX : over;
}
