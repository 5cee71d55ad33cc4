/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order: a record is stamped and written by the same CPU without interruption. So times within a
 * buffer ascend, and a record that is stamped before the drain and causes another one is in its
 * buffer before that one. The drain therefore reads the clock first, then the heads, and leaves
 * records younger than that time: events of a process, and what they cause, are in order across
 * drains too. A CPU of a virtual machine may be stopped between stamping and writing: that record
 * comes with the next drain, after younger ones that it has not caused.
 */
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/drain/exited_leaders.h"
#include "agent-bpf/drain/mapping_rate.h"
#include "agent-bpf/drain/perf_record.h"
#include "base/clock.h"
#include "base/stats.h"
#include "base/thread_owner.h"
#include <assert.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFERS_MAX (2 * PROCSTREAM_CPUS_MAX)
#define RECORD_MAX  (UINT16_MAX + 1)

STAT_COUNTER(events_delivered, "spanprof_process_events_total",
             "Process events (fork, exec, exit, executable mapping) read from the kernel.");
STAT_LOSS(events_lost, "spanprof_process_events_lost_total",
          "Times that the kernel lost process events, because a CPU's buffer was full; a scan "
          "repairs the table.");
STAT_LOSS(events_malformed, "spanprof_process_events_malformed_total",
          "Records of the process stream that were not understood.");
STAT_LOSS(exited_leaders_full, "spanprof_process_exited_leaders_overflow_total",
          "Processes treated as ended when their first thread ended, because too many such "
          "processes are remembered.");

STAT_LOSS(mappings_excluded, "spanprof_process_mappings_excluded_total",
          "Mappings left out because their process maps files without pause: its names may be "
          "missing.");

#define FILLING 8 /* a buffer that held more than this part of its size is drained again soon */

struct buffer {
    uint32_t cpu;
    bool gone;   /* unmapped once it is empty */
    bool broken; /* what it held was out of step */
    struct perf_event_mmap_page *control;
    size_t map_size;
    const uint8_t *data;
    uint64_t mask;
    uint64_t head, tail; /* during a drain */
    uint64_t time_ns;    /* of the record at tail */
};

struct procstream {
    struct buffer *buffers;
    size_t n_buffers, cap;
    bool filling; /* as the last drain found it */
    struct exited_leaders exited_leaders;
    struct mapping_rate mapping_rate;
    process_event_fn call; /* during a drain */
    void *context;
    size_t delivered;
    uint64_t record[RECORD_MAX / 8]; /* one that wraps around, straightened */
    struct thread_owner owner;       /* the loop */
};

int procstream_open(struct procstream **out)
{
    struct procstream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return -ENOMEM;
    exited_leaders_init(&stream->exited_leaders);
    *out = stream;
    return 0;
}

void procstream_close(struct procstream *stream)
{
    if (!stream)
        return;
    for (size_t i = 0; i < stream->n_buffers; i++)
        munmap(stream->buffers[i].control, stream->buffers[i].map_size);
    free(stream->buffers);
    free(stream);
}

static int reserve_buffer(struct procstream *stream)
{
    if (stream->n_buffers < stream->cap)
        return 0;
    size_t cap = stream->cap ? 2 * stream->cap : 8;
    if (cap > BUFFERS_MAX)
        return -ENOSPC;
    struct buffer *buffers = realloc(stream->buffers, cap * sizeof(*buffers));
    if (!buffers)
        return -ENOMEM;
    stream->buffers = buffers;
    stream->cap = cap;
    return 0;
}

int procstream_add(struct procstream *stream, uint32_t cpu, int fd, size_t buffer_size)
{
    CLAIM_THREAD(&stream->owner);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (buffer_size < 2 * page || ((buffer_size - page) & (buffer_size - page - 1)))
        return -EINVAL;
    int r = reserve_buffer(stream);
    if (r < 0)
        return r;
    void *map = mmap(NULL, buffer_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    procstream_remove(stream, cpu);
    stream->buffers[stream->n_buffers++] = (struct buffer){
        .cpu = cpu,
        .control = map,
        .map_size = buffer_size,
        .data = (const uint8_t *)map + page,
        .mask = buffer_size - page - 1,
    };
    return 0;
}

void procstream_remove(struct procstream *stream, uint32_t cpu)
{
    CLAIM_THREAD(&stream->owner);
    for (size_t i = 0; i < stream->n_buffers; i++)
        if (stream->buffers[i].cpu == cpu)
            stream->buffers[i].gone = true;
}

static void procstream_emit(struct procstream *stream, const struct process_event *event)
{
    stream->delivered++;
    stream->call(stream->context, event);
}

static void emit_simple(struct procstream *stream, enum process_event_kind kind, uint32_t pid,
                        uint64_t time_ns)
{
    procstream_emit(stream, &(struct process_event){.kind = kind, .pid = pid, .time_ns = time_ns});
}

static void procstream_handle_record(struct procstream *stream, const void *record, size_t size)
{
    struct process_event event;
    switch (perf_record_parse(record, size, &event)) {
    case PERF_RECORD_LEADER_LEFT:
        if (exited_leaders_add(&stream->exited_leaders, event.pid) != EXITED_LEADERS_FULL)
            return;
        stat_add(&exited_leaders_full, 1);
        break;
    case PERF_RECORD_EVENT:
        break;
    case PERF_RECORD_NEW_THREAD:
        return;
    case PERF_RECORD_MALFORMED:
        stat_add(&events_malformed, 1);
        return;
    }
    if (event.kind == PROCESS_LOST)
        stat_add(&events_lost, 1);
    if (event.kind == PROCESS_MAPPED &&
        !mapping_rate_take(&stream->mapping_rate, event.pid, event.time_ns)) {
        stat_add(&mappings_excluded, 1);
        return;
    }
    if (event.kind == PROCESS_FORKED)
        mapping_rate_forget(&stream->mapping_rate, event.pid);
    /* a new process with the number of one that left; a thread that exec'ed became the leader */
    if (event.kind == PROCESS_FORKED && exited_leaders_remove(&stream->exited_leaders, event.pid))
        emit_simple(stream, PROCESS_EXITED, event.pid, event.time_ns);
    if (event.kind == PROCESS_EXECED)
        exited_leaders_remove(&stream->exited_leaders, event.pid);
    procstream_emit(stream, &event);
}

/* Is there a whole record at the tail that is not younger than `until`? */
static bool buffer_peek(struct buffer *buffer, uint64_t until_ns)
{
    struct perf_event_header header;
    if (buffer->tail == buffer->head)
        return false;
    memcpy(&header, buffer->data + (buffer->tail & buffer->mask), sizeof(header));
    if (header.size < PERF_RECORD_SIZE_MIN || header.size % 8 ||
        header.size > buffer->head - buffer->tail) {
        stat_add(&events_malformed, 1);
        buffer->tail = buffer->head; /* nothing behind it can be read */
        buffer->broken = true;
        return false;
    }
    uint64_t end = buffer->tail + header.size;
    memcpy(&buffer->time_ns, buffer->data + ((end - 8) & buffer->mask), sizeof(buffer->time_ns));
    return buffer->time_ns <= until_ns;
}

static void buffer_handle_record(struct procstream *stream, struct buffer *buffer)
{
    struct perf_event_header header;
    size_t at = buffer->tail & buffer->mask, room = buffer->mask + 1 - at;
    const uint8_t *record = buffer->data + at;
    memcpy(&header, record, sizeof(header));
    if (header.size > room) {
        uint8_t *straight = (uint8_t *)stream->record;
        memcpy(straight, record, room);
        memcpy(straight + room, buffer->data, header.size - room);
        record = straight;
    }
    procstream_handle_record(stream, record, header.size);
    buffer->tail += header.size;
    __atomic_store_n(&buffer->control->data_tail, buffer->tail, __ATOMIC_RELEASE);
}

/* The buffer whose next record is the oldest. */
static struct buffer *procstream_oldest_buffer(struct procstream *stream, uint64_t until_ns)
{
    struct buffer *first = NULL;
    for (size_t i = 0; i < stream->n_buffers; i++) {
        struct buffer *buffer = &stream->buffers[i];
        if (buffer_peek(buffer, until_ns) && (!first || buffer->time_ns < first->time_ns))
            first = buffer;
    }
    return first;
}

static void forget_gone(struct procstream *stream)
{
    size_t kept = 0;
    for (size_t i = 0; i < stream->n_buffers; i++) {
        struct buffer *buffer = &stream->buffers[i];
        if (buffer->gone && buffer->tail == buffer->head)
            munmap(buffer->control, buffer->map_size);
        else
            stream->buffers[kept++] = *buffer;
    }
    stream->n_buffers = kept;
}

static void emit_gone(struct procstream *stream, uint64_t now_ns)
{
    uint32_t cursor = 0, pid;
    while ((pid = exited_leaders_next_gone(&stream->exited_leaders, &cursor)) != 0)
        emit_simple(stream, PROCESS_EXITED, pid, now_ns);
}

static void repair_broken(struct procstream *stream, uint64_t now_ns)
{
    for (size_t i = 0; i < stream->n_buffers; i++) {
        struct buffer *buffer = &stream->buffers[i];
        if (!buffer->broken)
            continue;
        buffer->broken = false;
        __atomic_store_n(&buffer->control->data_tail, buffer->tail, __ATOMIC_RELEASE);
        stat_add(&events_lost, 1);
        emit_simple(stream, PROCESS_LOST, 0, now_ns);
    }
}

size_t procstream_drain(struct procstream *stream, process_event_fn call, void *context)
{
    CLAIM_THREAD(&stream->owner);
    assert(!stream->call); /* not from within call() */
    uint64_t until_ns = clock_monotonic_ns();
    stream->call = call;
    stream->context = context;
    stream->delivered = 0;
    stream->filling = false;
    for (size_t i = 0; i < stream->n_buffers; i++) {
        struct buffer *buffer = &stream->buffers[i];
        buffer->tail = buffer->control->data_tail;
        buffer->head = __atomic_load_n(&buffer->control->data_head, __ATOMIC_ACQUIRE);
        stream->filling |= buffer->head - buffer->tail > (buffer->mask + 1) / FILLING;
    }
    struct buffer *next;
    while ((next = procstream_oldest_buffer(stream, until_ns)))
        buffer_handle_record(stream, next);
    repair_broken(stream, until_ns);
    emit_gone(stream, until_ns);
    forget_gone(stream);
    stream->call = NULL;
    stat_add(&events_delivered, (int64_t)stream->delivered);
    return stream->delivered;
}

bool procstream_is_filling(const struct procstream *stream)
{
    return stream->filling;
}
