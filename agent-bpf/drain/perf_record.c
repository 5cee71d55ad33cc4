/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel writes these records, but other processes choose the paths and names in them. Every
 * length is checked against the record's own size.
 */
#include "agent-bpf/drain/perf_record.h"
#include <assert.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>

#ifndef PERF_RECORD_MISC_MMAP_BUILD_ID
#define PERF_RECORD_MISC_MMAP_BUILD_ID (1 << 14)
#endif

struct sample_id { /* ends each record */
    uint32_t pid, tid;
    uint64_t time;
};

struct task_record { /* PERF_RECORD_FORK, PERF_RECORD_EXIT */
    struct perf_event_header header;
    uint32_t pid, ppid;
    uint32_t tid, ptid;
    uint64_t time;
};

struct comm_record {
    struct perf_event_header header;
    uint32_t pid, tid;
};

struct mmap_record {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t address, length, offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t prot, flags;
};

_Static_assert(sizeof(struct mmap_record) == 72, "PERF_RECORD_MMAP2");
_Static_assert(sizeof(struct task_record) == 32, "PERF_RECORD_FORK");

static int pid_known(uint32_t pid)
{
    return pid != 0 && pid != UINT32_MAX; /* of another PID namespace, or reaped already */
}

static enum perf_record_outcome parse_task(const void *record, size_t size,
                                           struct process_event *out)
{
    struct task_record task;
    if (size < sizeof(task) + sizeof(struct sample_id))
        return PERF_RECORD_MALFORMED;
    memcpy(&task, record, sizeof(task));
    if (!pid_known(task.pid) || task.pid != task.tid)
        return PERF_RECORD_NEW_THREAD;
    out->pid = task.pid;
    out->parent_pid = pid_known(task.ppid) ? task.ppid : 0;
    out->kind = task.header.type == PERF_RECORD_FORK ? PROCESS_FORKED : PROCESS_EXITED;
    return out->kind == PROCESS_FORKED ? PERF_RECORD_EVENT : PERF_RECORD_LEADER_LEFT;
}

static enum perf_record_outcome parse_comm(const void *record, size_t size,
                                           struct process_event *out)
{
    struct comm_record comm;
    if (size < sizeof(comm) + sizeof(struct sample_id))
        return PERF_RECORD_MALFORMED;
    memcpy(&comm, record, sizeof(comm));
    if (!(comm.header.misc & PERF_RECORD_MISC_COMM_EXEC) || !pid_known(comm.pid))
        return PERF_RECORD_NEW_THREAD;
    out->pid = comm.pid;
    out->kind = PROCESS_EXECED;
    return PERF_RECORD_EVENT;
}

/* A compiler at run time (.NET, Erlang) writes its code through another mapping of a memfd. Loaders
 * of files map privately. */
static bool is_written_elsewhere(const struct mmap_record *mmap, const char *path)
{
    return mmap->flags & MAP_SHARED && !strncmp(path, "/memfd:", strlen("/memfd:"));
}

static enum perf_record_outcome parse_mmap(const void *record, size_t size,
                                           struct process_event *out)
{
    struct mmap_record mmap;
    if (size <= sizeof(mmap) + sizeof(struct sample_id))
        return PERF_RECORD_MALFORMED;
    memcpy(&mmap, record, sizeof(mmap));
    const char *path = (const char *)record + sizeof(mmap);
    size_t path_room = size - sizeof(mmap) - sizeof(struct sample_id);
    if (!memchr(path, '\0', path_room) || mmap.length == 0 ||
        mmap.address + mmap.length < mmap.address)
        return PERF_RECORD_MALFORMED;
    if (!pid_known(mmap.pid))
        return PERF_RECORD_NEW_THREAD;
    struct process_mapping *mapping = &out->mapping;
    out->kind = PROCESS_MAPPED;
    out->pid = mmap.pid;
    mapping->start = mmap.address;
    mapping->length = mmap.length;
    mapping->file_offset = mmap.offset;
    mapping->path = path;
    mapping->device_major = mmap.major;
    mapping->device_minor = mmap.minor;
    mapping->inode = is_written_elsewhere(&mmap, path) ? 0 : mmap.inode;
    mapping->inode_generation = mmap.generation;
    return PERF_RECORD_EVENT;
}

enum perf_record_outcome perf_record_parse(const void *record, size_t size,
                                           struct process_event *out)
{
    struct perf_event_header header;
    struct sample_id id;
    memset(out, 0, sizeof(*out));
    if (size < PERF_RECORD_SIZE_MIN)
        return PERF_RECORD_MALFORMED;
    memcpy(&header, record, sizeof(header));
    assert(header.size == size);
    memcpy(&id, (const char *)record + size - sizeof(id), sizeof(id));
    out->time_ns = id.time;
    switch (header.type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        return parse_task(record, size, out);
    case PERF_RECORD_COMM:
        return parse_comm(record, size, out);
    case PERF_RECORD_MMAP2:
        return parse_mmap(record, size, out);
    case PERF_RECORD_LOST:
        out->kind = PROCESS_LOST;
        return PERF_RECORD_EVENT;
    default:
        return PERF_RECORD_NEW_THREAD;
    }
}
