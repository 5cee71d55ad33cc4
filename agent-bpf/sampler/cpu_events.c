/* SPDX-License-Identifier: Apache-2.0 */
/* A CPU named by a uevent is closed and opened again: it may have been offline in between. */
#include "agent-bpf/sampler/cpu_events.h"
#include "agent-bpf/sampler/sampler.h"
#include "base/log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void end_cpu(struct cpu_events *events, uint32_t cpu)
{
    sampler_stop_cpu(events->sampler, cpu);
    procstream_cpu_close(&events->streams[cpu]);
    events->open.bits[cpu / 64] &= ~(UINT64_C(1) << (cpu % 64));
}

static void begin_cpu(struct cpu_events *events, uint32_t cpu)
{
    int r = procstream_cpu_open(cpu, &events->streams[cpu]);
    if (r == 0)
        r = sampler_start_cpu(events->sampler, cpu);
    if (r < 0) {
        end_cpu(events, cpu);
        if (r != -ENODEV) /* offline again */
            log_warn("sampler", "CPU %u is not sampled: %s", cpu, strerror(-r));
        return;
    }
    cpus_add(&events->open, cpu);
    if (events->came)
        events->came(events->context, cpu, &events->streams[cpu]);
}

static void events_update(struct cpu_events *events, const struct cpus *suspect)
{
    struct cpus online;
    int r = cpus_online(&online);
    if (r < 0) {
        log_warn("sampler", "cannot read which CPUs are online: %s", strerror(-r));
        return;
    }
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        bool is_online = cpus_has(&online, cpu);
        if (cpus_has(&events->open, cpu) && (!is_online || cpus_has(suspect, cpu))) {
            end_cpu(events, cpu);
            if (events->went)
                events->went(events->context, cpu);
        }
        if (is_online && !cpus_has(&events->open, cpu))
            begin_cpu(events, cpu);
    }
}

int cpu_events_open(struct cpu_events *events, struct sampler *sampler)
{
    *events = (struct cpu_events){.sampler = sampler, .uevent_fd = -1};
    events->streams = malloc(CPUS_MAX * sizeof(*events->streams));
    if (!events->streams)
        return -ENOMEM;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        events->streams[cpu] = (struct procstream_cpu){.fd = -1};
    events->uevent_fd = cpus_watch();
    if (events->uevent_fd < 0)
        log_info("sampler", "no news of CPUs from the kernel (%s): looking once a second",
                 strerror(-events->uevent_fd));
    cpu_events_update(events);
    return 0;
}

void cpu_events_close(struct cpu_events *events)
{
    if (!events->streams)
        return;
    for (uint32_t cpu = 0; cpu < CPUS_MAX; cpu++)
        if (cpus_has(&events->open, cpu))
            end_cpu(events, cpu);
    if (events->uevent_fd >= 0)
        close(events->uevent_fd);
    free(events->streams);
    *events = (struct cpu_events){.uevent_fd = -1};
}

void cpu_events_update(struct cpu_events *events)
{
    struct cpus suspect = {0};
    if (events->uevent_fd >= 0 && cpus_changed(events->uevent_fd, &suspect) == CPUS_ALL)
        memset(&suspect, 0xff, sizeof(suspect));
    events_update(events, &suspect);
}
