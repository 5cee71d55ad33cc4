/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/hang_detector.h"
#include "agent-bpf/files/proc_pid.h"

#define STAT_BYTES_MAX 8192

bool cpu_need_parse(struct bytes stat, struct bytes schedstat, struct cpu_need *need)
{
    const uint8_t *name_end = stat.len ? memrchr(stat.data, ')', stat.len) : NULL;
    uint64_t ran_ns, waited_ns;
    *need = (struct cpu_need){0};
    if (!name_end || stat.data + stat.len - name_end < 3 ||
        !proc_parse_schedstat(schedstat, &ran_ns, &waited_ns))
        return false;
    *need = (struct cpu_need){
        .known = true, .runnable = name_end[2] == 'R', .ran_ns = ran_ns, .waited_ns = waited_ns};
    return true;
}

void cpu_need_read(pid_t pid, struct cpu_need *need)
{
    _cleanup_buf_ struct buf stat = BUF_INIT(STAT_BYTES_MAX);
    _cleanup_buf_ struct buf schedstat = BUF_INIT(STAT_BYTES_MAX);
    *need = (struct cpu_need){0};
    if (!proc_pid_read((uint32_t)pid, "stat", &stat) &&
        !proc_pid_read((uint32_t)pid, "schedstat", &schedstat))
        cpu_need_parse(buf_bytes(&stat), buf_bytes(&schedstat), need);
}

void hang_detector_reset(struct hang_detector *hang, pid_t pid, uint64_t now_ns)
{
    hang->since_ns = now_ns;
    cpu_need_read(pid, &hang->need);
}

/* One that waits for a CPU right now: for how long is not in the figures yet, so it is judged by
 * what it has run. */
bool hang_detector_is_hang(const struct hang_detector *hang, const struct cpu_need *need,
                           uint64_t now_ns, uint64_t allowed_ns)
{
    uint64_t silent_ns = now_ns - hang->since_ns;
    if (!hang->need.known || !need->known)
        return silent_ns >= allowed_ns;
    uint64_t waited_ns = need->waited_ns - hang->need.waited_ns;
    if (need->runnable)
        return need->ran_ns - hang->need.ran_ns >= allowed_ns;
    return silent_ns >= allowed_ns && silent_ns - allowed_ns >= waited_ns;
}
