/* SPDX-License-Identifier: Apache-2.0 */
/* A new descriptor gets the lowest free number, so at least that many are open. */
#include "base/files.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#define RESERVE_PART  8
#define RESERVE_MAX   256
#define WARN_AGAIN_NS (60 * NS_PER_SEC)

void files_raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        log_warn("files", "the limit of file descriptors stays as it is: %s", strerror(errno));
}

static void files_warn(rlim_t limit)
{
    static uint64_t warned_ns;
    uint64_t now_ns = clock_monotonic_ns();
    if (warned_ns && now_ns - warned_ns < WARN_AGAIN_NS)
        return;
    warned_ns = now_ns;
    log_warn("files",
             "nearly all of %llu file descriptors are in use: further connections are closed; "
             "raise the limit (LimitNOFILE), or lower max_connections",
             (unsigned long long)limit);
}

bool files_are_short(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return false;
    rlim_t reserve = limit.rlim_cur / RESERVE_PART;
    if (reserve > RESERVE_MAX)
        reserve = RESERVE_MAX;
    if ((rlim_t)fd < limit.rlim_cur - reserve)
        return false;
    files_warn(limit.rlim_cur);
    return true;
}
