/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A tracked process is one that the service asked about. It is inspected on each request, and again
 * after a delay: as long as the service keeps asking and more may be found, the delay doubles from
 * 50 ms to 12.8 s; once everything is found, it is inspected for changes every 1.6 s.
 * Limits, of each of which a tenant has its share (base/fair_share.h): TRACKED_PROCESSES_MAX,
 * beyond which a process is not tracked; CONTEXT_PROCESSES_MAX entries in the sampler's contexts
 * map; ENVIRONMENTS_MAX. Only the tenant that floods them is refused. Thread: the symbolizer's
 * loop.
 */
#include "agent-bpf/contexts/environment.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/symbolizer/process_runtimes.h"
#include "agent-bpf/symbolizer/symbolizer_state.h"

#define TRACKED_PROCESSES_MAX 16384
#define ENVIRONMENTS_MAX      (8u << 20) /* bytes */
#define TRACKED_POLL_NS       (50 * NS_PER_MS)
#define TRACKED_SETTLED_DELAY 5                 /* 1.6 s: nothing more is expected */
#define TRACKED_INTEREST_NS   (15 * NS_PER_SEC) /* inspected so long after the last request */

struct elastic_peer {    /* of a process with Elastic's library */
    uint64_t pointer_at; /* address of the pointer to the process storage */
    uint64_t storage;    /* its last value; 0 = not set yet */
    uint64_t asked_at;   /* both when it was last asked to be connected */
    uint64_t asked_storage;
    uint64_t connected_ns;
    uint8_t connected[16];          /* digest of the storage whose socket was tried; zero = none */
    struct elastic_request request; /* that it be connected */
};

struct tracked_process {
    uint32_t pid;
    uint8_t delay;       /* until the next inspection: index into symbolizer.waiting */
    uint8_t sources;     /* CONTEXT_BIT()s in its entry of the contexts map; 0 = it has none */
    uint8_t publishes;   /* as reported */
    uint8_t map_runtime; /* enum runtime: the only one in it; RUNTIME_UNKNOWN: there are several */
    bool reported;       /* the service has a context of it that is not empty */
    bool sampled;
    bool environment_read;
    bool lacks_variable; /* it publishes contexts, but the last look did not find where */
    uint32_t unreadable; /* bits of enum context_unreadable that were logged */
    uint32_t n_torn;     /* of its entry, when its variables were located last */
    uint32_t seen_torn;  /* of its entry, when they were judged last */
    uint32_t seen_found;
    uint64_t tenant; /* when it was new, or execed last: of symbolizer.shares */
    uint64_t due_ns;
    uint64_t requested_ns; /* last request; 0 = nothing will be found any more */
    uint64_t inspected_ns; /* 0: its maps are read at the next inspection in any case */
    uint64_t start_ns;
    uint64_t address;                  /* of the OTEL_CTX header; 0 = none known */
    uint64_t published_ns;             /* of what was read last */
    uint8_t reported_digest[16];       /* of the context last reported */
    struct environment *environment;   /* NULL: none of the variables is set */
    struct elastic_peer *elastic;      /* NULL: no such library */
    struct process_runtimes *runtimes; /* NULL: none whose frames are read */
    struct list waiting;
};

int tracked_processes_open(struct symbolizer *symbolizer); /* negative errno of getrandom() */
/* Tracked from now on; NULL: no memory, or its tenant has too many (counted). */
struct tracked_process *tracked_process_get(struct symbolizer *symbolizer, uint32_t pid);
void tracked_process_forget(struct symbolizer *symbolizer, uint32_t pid);
/* The service asks about it. details: it is new to the service, or has execed since. */
void tracked_process_request(struct symbolizer *symbolizer, uint32_t pid, bool details,
                             bool sampled);
bool tracked_process_is_sampled(const struct symbolizer *symbolizer, uint32_t pid);

/* Counts it, and logs it if the process has had no such reason before. */
void tracked_process_unreadable(struct symbolizer *symbolizer, struct tracked_process *process,
                                enum context_unreadable reason);

/* CLOCK_MONOTONIC of the next inspection; UINT64_MAX: none is due. */
uint64_t tracked_processes_due(const struct symbolizer *symbolizer);
void tracked_processes_poll(struct symbolizer *symbolizer, uint64_t until_ns);
void tracked_processes_close(struct symbolizer *symbolizer);
