/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of the process stream. The event is opened and its buffer made with rights;
 * a second mapping of the same buffer needs none, and takes no locked memory of its own. That the
 * supervisor keeps its mapping lets the buffer outlive the service.
 */
#include "agent-bpf/sampler/procstream_cpu.h"
#include "base/limits.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t limit_procstream(const struct config *config)
{
    (void)config;
    long n = sysconf(_SC_NPROCESSORS_CONF);
    return (uint64_t)(n > 0 ? n : 1) * PROCSTREAM_BUFFER_BYTES;
}

LIMIT(procstream, LIMIT_KERNEL, "events of processes that are not read yet, by CPU",
      .count = limit_procstream);

static int open_event(uint32_t cpu)
{
    struct perf_event_attr attr = {
        .size = sizeof(attr),
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .mmap = 1, /* executable mappings alone: mmap_data is off */
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX, /* the reader polls */
    };
    long fd = syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

static int map_buffer(struct procstream_cpu *cpu)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t data = PROCSTREAM_BUFFER_BYTES < page ? page : PROCSTREAM_BUFFER_BYTES;
    for (; data >= page; data /= 2) {
        cpu->buffer_size = page + data;
        cpu->buffer = mmap(NULL, cpu->buffer_size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fd, 0);
        if (cpu->buffer != MAP_FAILED)
            return 0;
        if (errno != EPERM && errno != ENOMEM)
            break;
    }
    cpu->buffer = NULL;
    return -errno;
}

int procstream_cpu_open(uint32_t cpu, struct procstream_cpu *out)
{
    *out = (struct procstream_cpu){.fd = -1};
    int fd = open_event(cpu);
    if (fd < 0)
        return fd;
    out->fd = fd;
    int r = map_buffer(out);
    if (r < 0)
        procstream_cpu_close(out);
    return r;
}

void procstream_cpu_close(struct procstream_cpu *cpu)
{
    if (cpu->buffer)
        munmap(cpu->buffer, cpu->buffer_size);
    if (cpu->fd >= 0)
        close(cpu->fd);
    *cpu = (struct procstream_cpu){.fd = -1};
}
