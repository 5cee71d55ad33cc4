/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The processes that were sampled in the last 15 minutes, for the status: what each is, how far it
 * publishes its spans, why samples of it have none, and the one switch that would change that
 * (context/runtime.h); and the same of its frames (context/runtime_frames.h). Processes of one
 * service that are the same program in the same state are one row. Limits: PAGES_PROGRAMS_MAX rows,
 * those first that want something, then those with most CPU time; the rest is a number. Private to
 * exporter/pages/. Thread: the pages'.
 */
#include "base/json_write.h"
#include "context/publisher_state.h"
#include "exporter/pages/pages_route.h"
#include "store/window/coverage.h"

#define PAGES_PROGRAMS_MAX 100
#define PAGES_PIDS_MAX     10 /* of a row, that are named */

enum pages_need {
    PAGES_NEEDS_NOTHING,
    PAGES_NEEDS_LOOK,   /* spans of it arrive, and its publisher does not publish them */
    PAGES_NEEDS_SWITCH, /* spans of it arrive, and it has no publisher */
};

struct pages_program {
    const struct history_series *first;      /* the process with most CPU time */
    const struct coverage_process *coverage; /* of that; zero: not known */
    bool sends_spans;                        /* one of them, as its spans tell */
    struct bytes service;                    /* empty: not known */
    enum publisher_state state;
    enum pages_need need;
    const char *why; /* static; "": nearly all samples have a span */
    uint64_t n, samples, in_span, cpu_ns;
    uint32_t pids[PAGES_PIDS_MAX]; /* that of `first` is the first */
};

struct pages_programs {
    struct pages_program *programs; /* in the request's arena */
    size_t n;
    uint64_t n_more; /* processes that are in no row */
};

/* 0, -ENOMEM, negative errno of the history. */
int pages_programs_find(struct pages_facts *facts, struct pages_request *request,
                        struct pages_programs *programs);
/* The same from what is known already: groups by process, and n coverages. 0, -ENOMEM. */
int pages_programs_make(const struct history_groups *groups, const struct coverage_process *list,
                        size_t n, struct arena *arena, struct pages_programs *programs);
/* Writes the members "processes" and "more_processes". */
void pages_programs_put(const struct pages_programs *programs, struct json_writer *json);
/* A row before that one that needs something is of the same service. */
bool pages_program_repeats(const struct pages_programs *programs, size_t i);

/* pages_why.c */
enum publisher_state pages_why_state(const struct history_series *process,
                                     const struct coverage_process *coverage);
/* Why some samples of a process have no span. process: from the history; coverage: the same
 * process's, zero if it has none. */
const char *pages_why(const struct history_series *process,
                      const struct coverage_process *coverage);
/* Of a process whose service's spans others of the service send. */
const char *pages_why_helper(void);

/* pages_frames.c */
enum runtime_frames_state pages_frames_state(const struct coverage_process *process);
/* Why functions of its runtime are not shown; "": they are, or it has none of its own. */
const char *pages_frames_why(const struct coverage_process *process);
/* A perf map is missing, and there is a switch for it. */
bool pages_frames_need_map(const struct coverage_process *process);
/* Nothing that pages_frames_put() writes differs. */
bool pages_frames_alike(const struct coverage_process *a, const struct coverage_process *b);
/* Writes the member "frames". */
void pages_frames_put(const struct coverage_process *process, struct json_writer *json);
