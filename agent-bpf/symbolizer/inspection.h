/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One inspection of a tracked process: what it publishes of itself and of its threads is found,
 * reported to the service, and entered in the sampler's contexts map. The caller has read
 * symbolizer->maps and named the process in the ledger. Thread: the symbolizer's loop.
 */
#include "agent-bpf/symbolizer/tracked_process.h"
#include "agent-bpf/record.h"
#include "agent-bpf/contexts/unreadable.h"

struct inspection {
    struct symbolizer *symbolizer;
    struct tracked_process *process;
    bool has_context;  /* symbolizer->context is the process's */
    bool unanswered;   /* the reader had no answer, so nothing of this may count */
    bool has_variable; /* a file that defines the one of OpenTelemetry's context */
    bool flags_unsure; /* a writer may leave the trace flags unset */
    unsigned publishes;
    enum runtime runtime;
    bool has_library;                   /* a file with a publisher of thread contexts is mapped */
    bool failed;                        /* something could not be read: */
    enum context_unreadable unreadable; /* why; the last one counts */
    struct context_process entry;       /* for the contexts map */
    struct {
        uint64_t start;
        uint64_t inode;
    } places[CONTEXT_MAX_VARIABLES];  /* where the file of each variable of `entry` is mapped */
    struct process_runtimes runtimes; /* that were found */
    uint64_t elastic_pointer_at;      /* 0 = no such library */
    struct bytes elastic_data;        /* in symbolizer->elastic_data; empty = none (yet) */
    struct elastic_storage elastic;
};

/* inspection.c */
void inspection_run(struct symbolizer *symbolizer, struct tracked_process *process);
/* True: what was found last is still there, so the maps need not be read. */
bool inspection_still_holds(struct symbolizer *symbolizer, struct tracked_process *process);
/* Reads memory of the process, but none that is mapped from a file system that may block. 0,
 * -EFAULT (also for memory that was not read; counted), -EAGAIN (unanswered is set), negative
 * errno. */
int inspection_read_memory(struct inspection *inspection, uint64_t address, void *out, size_t size);
/* Counted, and remembered for the report. */
void inspection_unreadable(struct inspection *inspection, enum context_unreadable reason);
bool inspection_is_harmless(struct inspection *inspection, uint64_t address, uint64_t size);

/* inspection_attach.c */
void attach_init(void); /* resets gauges that an earlier symbolizer may have left */
void inspection_find_variables(struct inspection *inspection);
/* 0: samples carry ids from now on; -ENOENT: there is nothing to enter; -ESRCH: the process has
 * become another program; negative errno. */
int inspection_attach(struct inspection *inspection);
/* CONTEXT_BIT()s of the variables found; 0 also if there is no contexts map. */
unsigned inspection_sources(const struct inspection *inspection);
/* The entry is there, and the sampler's reads through it succeed as far as is known. */
bool attach_holds(struct symbolizer *symbolizer, struct tracked_process *process);
int attach_entry(const struct symbolizer *symbolizer, const struct tracked_process *process,
                 struct context_process *entry); /* 0 or negative errno */
/* Deletes the entry, also one that an earlier symbolizer wrote. */
void attach_delete(struct symbolizer *symbolizer, struct tracked_process *process);
/* The process and its entry are gone. */
void attach_forget(struct symbolizer *symbolizer, struct tracked_process *process);

/* inspection_runtime.c */
#define INSPECTION_RUNTIMES_MAX 8 /* files of a process that are a runtime; more do not count */
struct inspection_runtimes {
    bool any; /* a file was read, whatever it is */
    size_t n;
    enum runtime found[INSPECTION_RUNTIMES_MAX];
    struct bytes paths[INSPECTION_RUNTIMES_MAX]; /* in symbolizer->maps */
};
/* runtime: of a file that the process has mapped; RUNTIME_UNKNOWN: it is none. */
void inspection_add_runtime(struct inspection_runtimes *runtimes, enum runtime runtime,
                            struct bytes path);
void inspection_choose_runtime(struct inspection *inspection,
                               const struct inspection_runtimes *runtimes);

/* inspection_resource.c */
void inspection_read_environment(struct inspection *inspection); /* uses symbolizer->payload */
int inspection_make_resource(struct inspection *inspection, struct buf *out);
void resource_forget(struct symbolizer *symbolizer, struct tracked_process *process);

/* inspection_elastic.c */
void inspection_read_elastic(struct inspection *inspection);
/* Sends a socket connected to the agent to the service, if it is due. */
void inspection_connect_elastic(struct inspection *inspection);
int elastic_open(struct symbolizer *symbolizer);
void elastic_close(struct symbolizer *symbolizer); /* no answer is heard any more */
void elastic_peer_free(struct tracked_process *process);
bool elastic_holds(const struct tracked_process *process);
