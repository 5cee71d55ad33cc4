/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parts of the analyst, private to analyst*.c. Thread: its loop.
 *
 * A subject is a process that the service is interested in. It is looked at when the service asks,
 * and again after a while: while it has no context, at growing distances from 50 ms to 10 s as long
 * as the service keeps asking; when it has one, every 2 s for a newer one.
 */
#include "agent-bpf/analyst.h"
#include "agent-bpf/analyst_binary.h"
#include "agent-bpf/analyst_ledger.h"
#include "agent-bpf/analyst_messages.h"
#include "agent-bpf/otel_context.h"
#include "agent-bpf/proc_maps.h"
#include "agent-bpf/record.h"
#include "base/clock.h"
#include "base/map.h"
#include "context/context_layout.h"

#define ANALYST_SUBJECTS_MAX     65536
#define ANALYST_OUT_BYTES_MAX    (8u << 20)       /* unsent; above, no new work is taken up */
#define ANALYST_STEP_NS          (20 * NS_PER_MS) /* of work, then the loop's other business */
#define ANALYST_POLL_NS          (50 * NS_PER_MS)
#define ANALYST_REST_NS          (60 * NS_PER_SEC)
#define ANALYST_DISTANCES        9                 /* 50 ms << 0 .. 8 = 12.8 s */
#define ANALYST_SETTLED_DISTANCE 5                 /* 1.6 s: has a context */
#define ANALYST_INTEREST_NS      (15 * NS_PER_SEC) /* polled so long after the service asked */

struct subject {
    uint32_t pid;
    uint8_t distance; /* of its next look: index into analyst.waiting */
    bool reported;    /* a context was told to the service */
    bool entered;     /* the contexts map has an entry */
    bool sets_trace_flags;
    uint64_t due_ns;
    uint64_t asked_ns;
    uint64_t start_ns;
    uint64_t address;      /* of the OTEL_CTX header; 0 = none known */
    uint64_t published_ns; /* of what was read last */
    struct list waiting;
};

struct analyst {
    struct analyst_settings settings;
    struct watch watch; /* the service's socket */
    struct timer work;  /* scan and polls */
    struct list out;    /* datagrams that the socket did not take yet */
    size_t out_bytes;
    struct binaries binaries;
    struct map subjects;
    struct list waiting[ANALYST_DISTANCES]; /* subjects by due_ns */
    /* scan */
    bool scanning;
    bool scan_again; /* asked for while one was running */
    uint64_t scan_start_ns;
    uint32_t *scan_pids;
    size_t n_scan_pids;
    size_t scan_at;
    /* kernel */
    struct kallsyms *kallsyms; /* NULL = not loaded */
    uint64_t kallsyms_used_ns;
    uint64_t text_start;
    /* reused */
    struct buf maps;
    struct buf mounts;
    struct buf text;
    uint8_t datagram[ANALYST_MESSAGE_MAX];
    uint8_t payload[OTEL_PROCESS_PAYLOAD_MAX];
    struct otel_context context;
};

/* analyst.c */
void analyst_say(struct analyst *analyst, const struct analyst_message *message);
bool analyst_congested(const struct analyst *analyst);
bool analyst_is_banned(const struct analyst *analyst, uint32_t pid);

/* analyst_subject.c */
struct subject *subject_get(struct analyst *analyst, uint32_t pid); /* NULL at a limit */
void subject_forget(struct analyst *analyst, uint32_t pid);
void subject_asked(struct analyst *analyst, uint32_t pid, bool details);
void subject_details(struct analyst *analyst, struct subject *subject);
uint64_t subjects_due(const struct analyst *analyst); /* when the next look is; UINT64_MAX: none */
void subjects_poll(struct analyst *analyst, uint64_t until_ns);
void subjects_close(struct analyst *analyst);

/* analyst_context.c: maps in analyst->maps are the subject's, fresh. */
void subject_look(struct analyst *analyst, struct subject *subject);
/* True: the context is as it was told. */
bool subject_unchanged(struct analyst *analyst, struct subject *subject);
void subject_withdraw(struct analyst *analyst, struct subject *subject);

/* analyst_scan.c */
void analyst_scan_start(struct analyst *analyst);
void analyst_scan_step(struct analyst *analyst, uint64_t until_ns);
/* A file's mapping as /proc/PID/maps has it, completed by what the kernel's stream would have told.
 */
void analyst_complete_mapping(struct analyst *analyst, uint32_t pid, const struct proc_map *map,
                              char path[ANALYST_PATH_MAX], struct process_mapping *mapping,
                              struct binary **binary);

/* analyst_names.c */
void analyst_answer_executable(struct analyst *analyst, const struct analyst_executable_ref *ref);
void analyst_answer_names(struct analyst *analyst, const struct analyst_names_wanted *wanted);
void analyst_answer_kernel_names(struct analyst *analyst,
                                 const struct analyst_names_wanted *wanted);
void analyst_tell_kernel(struct analyst *analyst);
void analyst_rest_kernel(struct analyst *analyst, uint64_t now_ns); /* unloads unused names */
