/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parts of the process table, private to process*.c. WRITER thread.
 *
 * An entry of the table is an incarnation: one process between fork, exec and exit. The newest of a
 * pid stands in the map; ended ones hang behind it (older) until PROCESS_GRACE_NS is over.
 */
#include "agent-bpf/process/process.h"
#include "base/fair_share.h"
#include "base/map.h"
#include "base/thread_owner.h"

#define PROCESS_INCARNATIONS_MAX      8    /* of one pid; the oldest go first */
#define PROCESS_EXECUTABLES_ASKED_MAX 1024 /* files new to us, by one process and its ancestors */
#define PROCESS_IDLE_EXECUTABLES_MAX                                                               \
    4096 /* kept though nothing maps them: names are asked for late */

struct process_executable {
    uint8_t identity[16];
    struct list idle; /* linked while refs is 0 */
    size_t refs;      /* mappings */
    int64_t tag;
    uint32_t last_pid; /* who mapped it last, and how */
    uint32_t last_parent_pid;
    struct process_mapping mapping; /* path is owned */
    size_t bytes;
};

struct image_mapping {
    uint64_t start;
    uint64_t length;
    uint64_t file_offset;
    uint64_t time_ns;
    struct process_executable *executable;
};

/* Sorted by address, without overlaps; shared by a process and its forks until one changes it. */
struct process_image {
    size_t refs;
    size_t n;
    size_t cap;
    struct image_mapping mappings[];
};

#define PROCESS_PAST_MAPPINGS 16 /* of a process; beyond, the oldest go first */

struct past_mapping {
    struct image_mapping mapping; /* or the part of it that something was mapped over */
    uint64_t until_ns;
};

struct process_past {
    size_t n;         /* ever put here */
    uint64_t lost_ns; /* older ones have gone: what lay where before that is not known for sure */
    struct past_mapping mappings[PROCESS_PAST_MAPPINGS];
};

struct process_published { /* what CONTEXT told, in one block */
    size_t bytes;
    uint8_t sources;
    uint8_t publishes;
    bool sets_trace_flags;
    struct bytes resource;
    size_t n_keys;
    struct bytes keys[];
};

struct process {
    uint32_t pid;
    uint32_t parent_pid; /* that forked it; 0 = not known */
    bool asked;          /* its details were asked for, or came with a scan */
    bool told;           /* the symbolizer may know it: say when it has left */
    uint64_t from_ns;
    uint64_t until_ns; /* UINT64_MAX while it lives */
    uint64_t seen_ns;  /* in a scan */
    uint64_t mappings_asked_ns;
    uint64_t sampled_ns; /* last; 0 = never */
    uint64_t context_asked_ns;
    bool context_wanted; /* though it has one */
    bool remapped;       /* mapped a file since its context was asked for */
    struct process *older;
    struct list ended;   /* the table's, in the order of time */
    struct list age;     /* while it lives: the table's, never_sampled or one of sampled */
    uint64_t tenant;     /* its cgroup, when it was sampled last */
    uint64_t charged;    /* to that, in bytes; 0: it was never sampled */
    struct list changed; /* the table's: a request is due */
    uint32_t n_asked; /* of PROCESS_EXECUTABLES_ASKED_MAX; goes on to children and through exec */
    struct process_image *image;
    struct process_past *past; /* NULL: nothing was mapped over */
    /* details */
    uint32_t own_pid;
    uint64_t start_ns;
    char *exe; /* owned copies; lengths below */
    size_t exe_len;
    bool exe_told; /* by the symbolizer, not guessed from a mapping */
    char *container;
    size_t container_len;
    char *pod;
    size_t pod_len;
    struct process_published *published;    /* NULL = none */
    uint8_t runtime, publisher, unreadable; /* as in symbolizer_context; not inherited */
    struct runtime_frames frames;           /* too */
    struct process_tag tag;
};

struct process_table {
    struct map processes;   /* newest incarnation by pid */
    struct map executables; /* by identity */
    size_t n_processes;     /* incarnations */
    size_t n_idle;
    size_t bytes;
    struct list idle;
    struct list ended;
    struct list changed;
    struct list never_sampled;         /* the oldest first */
    struct list sampled[FAIR_SHARES];  /* by tenant; the one sampled longest ago first */
    struct fair_share share;           /* of those in sampled */
    struct symbolizer_queue *requests; /* borrowed */
    uint64_t scan_asked_ns;
    uint64_t lost_ns; /* of the last event that was lost; 0 = none was */
    bool scan_wanted; /* since scan_asked_ns */
    bool kernel_known;
    struct process_kernel kernel;
    uint8_t kernel_build_id[64];
    int64_t kernel_tag;
    struct thread_owner owner; /* the writer */
};

static inline struct process *process_newest(const struct process_table *table, uint32_t pid)
{
    return map_get(&table->processes, &pid);
}

/* The incarnation that lived at that time. A time before the first known one gets the first: it
 * existed before its first event, unless that event is its fork. */
static inline struct process *process_at(const struct process_table *table, uint32_t pid,
                                         uint64_t time_ns)
{
    struct process *process = process_newest(table, pid);
    while (process && process->older && time_ns < process->from_ns)
        process = process->older;
    return process;
}

/* process_limits.c */
/* What one event may take, so it is kept free. */
#define PROCESS_ROOM_BYTES (1u << 20)

/* Bytes that are free. */
static inline size_t process_table_free(const struct process_table *table)
{
    return PROCESS_TABLE_BYTES_MAX - table->bytes;
}

/* One incarnation, with all that it has. */
void process_remove(struct process_table *table, struct process *process);
/* Sampled now, so it goes late, and as one of this tenant. */
void process_charge(struct process_table *table, struct process *process, uint64_t tenant);
void process_uncharge(struct process_table *table, struct process *process);
/* For one event, before it is applied: nothing goes while it is. */
void process_table_make_room(struct process_table *table);

/* Memory that counts against PROCESS_TABLE_BYTES_MAX; NULL also at the limit (counted). */
void *process_alloc(struct process_table *table, size_t size);
void process_free(struct process_table *table, void *memory, size_t size);

enum process_limit {
    PROCESS_LIMIT_PROCESSES,
    PROCESS_LIMIT_MAPPINGS,
    PROCESS_LIMIT_BYTES,
    PROCESS_LIMITS
};
void process_count_full(enum process_limit limit); /* an event is left out */

/* process_image.c: images and executables */
size_t process_image_bytes(const struct process_image *image);
/* Forgets the file that nothing has mapped for longest; false: there is none. */
bool process_executable_forget(struct process_table *table);
void process_image_release(struct process_table *table, struct process_image *image);
struct process_image *process_image_share(struct process_image *image); /* NULL stays NULL */
/* What lay there at the time; NULL if that is nothing, or not known any more. */
const struct image_mapping *process_mapping_at(const struct process *process, uint64_t time_ns,
                                               uint64_t address);
void process_past_free(struct process_table *table, struct process *process);
/* Puts the mapping in the place of whatever was there, which the process remembers. 0, -ENOMEM,
 * -ENOSPC; PROCESS_STALE: something newer is there. */
enum { PROCESS_STALE = 1 };
int process_image_map(struct process_table *table, struct process *process,
                      const struct process_event *event);
void process_executables_close(struct process_table *table);

/* process_details.c */
void process_details_inherit(struct process_table *table, struct process *child,
                             const struct process *parent, bool exec);
void process_details_guess_exe(struct process_table *table, struct process *process,
                               const char *path);
int process_details_answer(struct process_table *table, const struct symbolizer_details *details);
int process_context_answer(struct process_table *table, const struct symbolizer_context *context);
void process_details_free(struct process_table *table, struct process *process);

/* process_requests.c: into table->requests; what is left out there is counted */
/* Who can open the executable: the process that mapped it last, or its ancestors from parent_pid
 * on. */
struct symbolizer_executable_ref process_executable_ref(const struct process_table *table,
                                                        const struct process_executable *executable,
                                                        uint32_t parent_pid);
void process_want_executable(struct process_table *table, uint64_t tenant,
                             const struct process_executable *executable);
/* One scan of all processes, for those whose end was lost: it may come minutes later. What is
 * sampled meanwhile is asked for by itself. */
void process_want_scan(struct process_table *table, uint64_t time_ns);
void process_request_scan(struct process_table *table, uint64_t now_ns); /* if one is due */
/* It is sampled, and its mappings may be unknown: an event was lost since all was known of it. */
bool process_mappings_are_due(const struct process_table *table, const struct process *process);
void process_report_left(struct process_table *table, uint32_t pid); /* the process has ended */
