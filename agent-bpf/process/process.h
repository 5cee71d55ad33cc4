/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process table: which executable lies where in which process, and what is known of the
 * process. WRITER thread only. Fed by the kernel's event stream (process_table_apply) and by the
 * symbolizer's answers (process_table_answer); what it wants of the symbolizer it puts into
 * the queue that it was opened with (symbolizer_queue.h).
 *
 * Time: a process remembers its image from before the last exec (or the last process with its pid)
 * for PROCESS_GRACE_NS, and the last few mappings that others took the place of, so samples may be
 * resolved after all events of a drain were applied: the sample's time chooses.
 *
 * Limits, each counted when reached: PROCESS_TABLE_MAX processes, PROCESS_MAPPINGS_MAX mappings
 * each, PROCESS_TABLE_BYTES_MAX in all. Near them, processes are forgotten (counted): those that
 * have ended, then those that were never sampled, then, of the cgroup that has most in the table,
 * the one that was sampled longest ago. One that is forgotten is asked about again when it is
 * sampled. An event for which there is no room all the same is left out, and its addresses stay
 * unresolved.
 */
#include "agent-bpf/symbolizer_messages.h"
#include "agent-bpf/process_event.h"
#include "agent-bpf/process/symbolizer_queue.h"

#define PROCESS_TABLE_MAX       65536
#define PROCESS_TABLE_BYTES_MAX (40u << 20)
#define PROCESS_GRACE_NS        UINT64_C(5000000000)
#define PROCESS_BUILD_ID_MAX    20 /* bytes of a GNU build id */

struct process_table;

/* Where an address lies. Borrowed until the next change of the table. */
struct process_place {
    const uint8_t
        *identity; /* 16 bytes: hash over the build id, else device and inode, and the path */
    uint64_t file_offset;
    const char *path;
    int64_t *tag; /* the caller's number for this executable (its rowid); 0 at first */
};

/* The caller's, about a process; zero at first, and again after each change of the details. */
struct process_tag {
    int64_t row; /* 0 = none */
    uint64_t cgroup_id;
    uint32_t uid;
};

struct process_details {
    uint32_t pid;
    uint32_t own_pid;             /* 0 = not known yet */
    uint64_t start_ns;            /* as in symbolizer_details; 0 = not known yet */
    struct bytes executable_name; /* raw bytes: sanitize before showing */
    struct bytes executable_path;
    struct bytes container_id;
    struct bytes pod_uid;  /* of Kubernetes */
    struct bytes resource; /* what it says of itself; empty = nothing */
    uint8_t sources;       /* as in symbolizer_context */
    uint8_t publishes;
    bool sets_trace_flags;
    uint8_t runtime; /* these too */
    uint8_t publisher;
    uint8_t unreadable;
    struct runtime_frames frames;
    size_t n_keys;
    const struct bytes *keys; /* names of thread context attributes by key index */
    struct process_tag *tag;
};

struct process_kernel { /* as the symbolizer told */
    uint8_t identity[16];
    uint64_t text_start; /* 0 = not known: kernel addresses stay absolute */
    uint64_t text_end;
    struct bytes build_id;
    int64_t *tag;
};

enum { PROCESS_UNKNOWN = 1 }; /* no such process, or no mapping of a file there */

/* The queue is borrowed and outlives the table. 0 or -ENOMEM. */
int process_table_open(struct symbolizer_queue *requests, struct process_table **table);
void process_table_close(struct process_table *table); /* NULL is fine */

/* 0; negative errno (-ENOMEM: the event is lost, a later scan repairs). */
int process_table_apply(struct process_table *table, const struct process_event *event);
/* SYMBOLIZER_EVENT, _SCAN_DONE, _DETAILS, _CONTEXT, _GONE, _KERNEL change the table; for
 * _EXECUTABLE and _NAMES, which belong into the dictionary, nothing happens here. */
int process_table_answer(struct process_table *table, const struct symbolizer_message *message);
/* Frees what has been dead for PROCESS_GRACE_NS; call with each drain. CLOCK_MONOTONIC. */
void process_table_expire(struct process_table *table, uint64_t now_ns);
/* A sample of this process was seen: asks for its details, for its context while it has none, and
 * again after it mapped another file. */
void process_table_sampled(struct process_table *table, uint32_t pid, uint64_t cgroup_id,
                           uint64_t time_ns);
/* A sample told that what is known of the process's context is out of date: asks at once, but not
 * more often than five times a second. */
void process_table_context_changed(struct process_table *table, uint32_t pid, uint64_t time_ns);

/* Both: 0 or PROCESS_UNKNOWN. time_ns: when the sample was taken. */
int process_table_resolve(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          uint64_t address, struct process_place *place);
int process_table_details(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          struct process_details *details);
/* 0 or PROCESS_UNKNOWN: the symbolizer has not told yet. */
int process_table_kernel(struct process_table *table, struct process_kernel *kernel);

/* Asks for names; addresses are offsets in the file, of the kernel (its identity) from _text.
 * PROCESS_UNKNOWN: nothing known maps this executable. Any n; split into messages. tenant: the
 * cgroup whose turn it takes (symbolizer_client.h); 0: not known. */
int process_table_want_names(struct process_table *table, uint64_t tenant,
                             const uint8_t identity[16], const uint64_t *addresses, size_t n);
struct process_unwind {
    uint64_t ticket; /* comes back in the answer */
    uint32_t pid;
    uint64_t time_ns;                 /* of the sample */
    const struct record_stack *stack; /* its copy behind it */
};

/* Asks to go on with a stack (SYMBOLIZER_UNWIND_WANTED). With it go the mappings that pc and the
 * words of the copy point into, those next to the leaf first, as many as a message may have.
 * PROCESS_UNKNOWN: no mapping is known there; -ENOMEM: not asked (counted). */
int process_table_want_unwind(struct process_table *table, const struct process_unwind *wanted);
struct process_code_wanted {
    uint64_t ticket; /* comes back in the answer */
    uint32_t pid;
    uint64_t time_ns; /* of the sample */
    uint32_t n;       /* at most RECORD_MAX_USER_FRAMES */
    struct record_frame *frames;
};

/* Asks for names of code that lies in no file (SYMBOLIZER_CODE_WANTED). PROCESS_UNKNOWN; -ENOMEM:
 * not asked (counted). */
int process_table_want_code(struct process_table *table, const struct process_code_wanted *wanted);
/* Since when the program ran that the process ran at that time, and the process's cgroup.
 * PROCESS_UNKNOWN: also while nothing is known of its mappings. */
int process_table_program(struct process_table *table, uint32_t pid, uint64_t time_ns,
                          uint64_t *since_ns, uint64_t *cgroup_id);
/* Requests for processes that were sampled or changed are collected, so that many changes make one
 * request; this puts them into the queue. Call after each batch, before the queue is taken. */
void process_table_request_changed(struct process_table *table);
/* Sets all tags to 0: the caller's numbers are void (rolled back). Asks again for the executables
 * that had one. */
void process_table_forget_tags(struct process_table *table);
