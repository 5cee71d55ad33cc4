/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service's name alone does not prove that a process makes spans: shells and tools that the
 * service starts have its environment. Such a process is recognised by the others: it is native and
 * another one of the service is not, or another one of the service does publish.
 */
#include "exporter/pages/pages_programs.h"
#include "base/clock.h"
#include "context/context_source.h"
#include "context/runtime.h"
#include <errno.h>
#include <stdlib.h>

#define PROCESSES_NS    (900 * NS_PER_SEC)
#define SERVICE_UNKNOWN "unknown_service" /* OpenTelemetry's name where there is none */

/* ---- one process ---- */

static const struct coverage_process *coverage_of(const struct coverage_process *list, size_t n,
                                                  const struct history_series *process)
{
    static const struct coverage_process unknown;
    for (size_t i = 0; i < n && process->pid; i++)
        if (list[i].pid == process->pid)
            return &list[i];
    return &unknown;
}

/* A history that begins before the process's context was read has a name of its own making. */
static bool service_is_told(const struct history_series *process)
{
    const struct bytes unknown = BYTES_LIT(SERVICE_UNKNOWN), service = process->service;
    return service.len &&
           (service.len < unknown.len || memcmp(service.data, unknown.data, unknown.len) != 0);
}

static void program_begin(const struct history_series *process,
                          const struct coverage_process *coverage, struct pages_program *program)
{
    *program = (struct pages_program){.first = process,
                                      .coverage = coverage,
                                      .sends_spans = coverage->sends_spans,
                                      .service = process->service,
                                      .state = pages_why_state(process, coverage),
                                      .why = pages_why(process, coverage),
                                      .n = 1,
                                      .samples = process->samples,
                                      .in_span = process->in_span,
                                      .cpu_ns = process->cpu_ns,
                                      .pids = {process->pid}};
    if (*coverage->service && !service_is_told(process))
        program->service = BYTES_STR(coverage->service);
}

/* ---- rows ---- */

/* Sentences are static, so equal ones have one address. */
static bool programs_are_alike(const struct pages_program *a, const struct pages_program *b)
{
    return a->service.len && bytes_equal(a->service, b->service) &&
           bytes_equal(a->first->name, b->first->name) && a->state == b->state &&
           a->why == b->why && a->coverage->program.runtime == b->coverage->program.runtime &&
           pages_frames_alike(a->coverage, b->coverage);
}

static void program_add(struct pages_program *to, const struct pages_program *one)
{
    if (to->n < PAGES_PIDS_MAX)
        to->pids[to->n] = one->first->pid;
    to->n++;
    to->samples += one->samples;
    to->in_span += one->in_span;
    to->cpu_ns += one->cpu_ns;
    to->sends_spans |= one->sends_spans;
}

static void programs_add(struct pages_programs *programs, const struct pages_program *one)
{
    for (size_t i = 0; i < programs->n; i++)
        if (programs_are_alike(&programs->programs[i], one)) {
            program_add(&programs->programs[i], one);
            return;
        }
    programs->programs[programs->n++] = *one;
}

/* ---- what they need ---- */

static bool program_is_native(const struct pages_program *program)
{
    uint8_t runtime = program->coverage->program.runtime;
    return runtime == RUNTIME_NATIVE || runtime == RUNTIME_UNKNOWN;
}

static bool program_is_helper_of(const struct pages_program *program,
                                 const struct pages_program *mate)
{
    if (mate == program || !bytes_equal(mate->service, program->service))
        return false;
    if (program_is_native(program))
        return !program_is_native(mate);
    bool has_publisher = program->state == PUBLISHER_STARTED || program->state == PUBLISHER_LOADED;
    return has_publisher && mate->state == PUBLISHER_ACTIVE;
}

static bool program_is_helper(const struct pages_programs *programs,
                              const struct pages_program *program)
{
    for (size_t i = 0; i < programs->n && !program->sends_spans; i++)
        if (program_is_helper_of(program, &programs->programs[i]))
            return true;
    return false;
}

static bool program_has_spans(const struct pages_program *program)
{
    return program->service.len && (program->coverage->spans || program->sends_spans);
}

static void program_judge(const struct pages_programs *programs, struct pages_program *program)
{
    bool publishes = program->state == PUBLISHER_READ || program->state == PUBLISHER_ACTIVE;
    if (!*program->why || publishes || !program_has_spans(program))
        return;
    if (program_is_helper(programs, program))
        program->why = pages_why_helper();
    else
        program->need = program->state == PUBLISHER_NONE ? PAGES_NEEDS_SWITCH : PAGES_NEEDS_LOOK;
}

/* Those that need something first, then by CPU time; what is no process comes last. */
static int compare_programs(const void *left, const void *right)
{
    const struct pages_program *a = left, *b = right;
    if (a->first->others != b->first->others)
        return a->first->others ? 1 : -1;
    if (!a->need != !b->need)
        return a->need ? -1 : 1;
    if (a->cpu_ns != b->cpu_ns)
        return a->cpu_ns > b->cpu_ns ? -1 : 1;
    return a->first->pid < b->first->pid ? -1 : a->first->pid > b->first->pid;
}

/* All others stay. */
static void programs_cut(struct pages_programs *programs)
{
    struct pages_program *all = programs->programs;
    bool others = programs->n && all[programs->n - 1].first->others;
    size_t n = programs->n - others;
    for (; n > PAGES_PROGRAMS_MAX; n--)
        programs->n_more += all[n - 1].n;
    if (others)
        all[n++] = all[programs->n - 1];
    programs->n = n;
}

int pages_programs_make(const struct history_groups *groups, const struct coverage_process *list,
                        size_t n, struct arena *arena, struct pages_programs *programs)
{
    *programs = (struct pages_programs){
        .programs = arena_alloc(arena, (groups->n + 1) * sizeof(*programs->programs))};
    if (!programs->programs)
        return -ENOMEM;
    for (size_t i = 0; i < groups->n; i++) {
        const struct history_series *process = &groups->series[i];
        struct pages_program one;
        program_begin(process, coverage_of(list, n, process), &one);
        programs_add(programs, &one);
    }
    for (size_t i = 0; i < programs->n; i++)
        program_judge(programs, &programs->programs[i]);
    qsort(programs->programs, programs->n, sizeof(*programs->programs), compare_programs);
    programs_cut(programs);
    return 0;
}

int pages_programs_find(struct pages_facts *facts, struct pages_request *request,
                        struct pages_programs *programs)
{
    struct history_groups groups;
    const struct history_filter filter = {.from_unix_ns = request->now_unix_ns - PROCESSES_NS,
                                          .to_unix_ns = request->now_unix_ns};
    struct coverage_process *list =
        arena_alloc(&request->arena, COVERAGE_PROCESSES_MAX * sizeof(*list));
    if (!list)
        return -ENOMEM;
    size_t n = facts->coverage ? coverage_list(facts->coverage, list, COVERAGE_PROCESSES_MAX) : 0;
    int error =
        history_groups(facts->history, &filter, HISTORY_BY_PROCESS, 0, &request->arena, &groups);
    return error ? error : pages_programs_make(&groups, list, n, &request->arena, programs);
}

bool pages_program_repeats(const struct pages_programs *programs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (programs->programs[k].need &&
            bytes_equal(programs->programs[k].service, programs->programs[i].service))
            return true;
    return false;
}

/* ---- the answer ---- */

/* Of the last ids; before there are any, of what is read. */
static const char *program_source(const struct pages_program *program)
{
    unsigned source = program->coverage->source;
    for (unsigned i = CONTEXT_NONE + 1; !source && i < CONTEXT_SOURCES; i++)
        if (program->state == PUBLISHER_READ &&
            (program->coverage->program.publishes & CONTEXT_BIT(i)))
            source = i;
    const char *name = context_source_name(source);
    return name ? name : "";
}

static void put_switch(const struct pages_program *program, struct json_writer *json)
{
    const struct runtime_row *row = runtime_row(program->coverage->program.runtime);
    if (program->need != PAGES_NEEDS_SWITCH || !*row->line)
        return;
    json_begin_object(json, "switch");
    json_put_string(json, "line", row->line);
    json_put_string(json, "where", row->where);
    json_put_string(json, "by_hand", row->by_hand);
    json_end_object(json);
}

static void put_program(const struct pages_program *program, struct json_writer *json)
{
    json_begin_object(json, NULL);
    json_put_uint(json, "pid", program->first->pid);
    json_begin_array(json, "pids");
    for (size_t i = 0; i < program->n && i < PAGES_PIDS_MAX && program->first->pid; i++)
        json_put_uint(json, NULL, program->pids[i]);
    json_end_array(json);
    json_put_uint(json, "count", program->n);
    json_put_text(json, "executable", program->first->name);
    json_put_text(json, "service", program->service);
    json_put_string(json, "runtime", runtime_row(program->coverage->program.runtime)->id);
    json_put_uint(json, "samples", program->samples);
    json_put_uint(json, "in_span", program->in_span);
    json_put_uint(json, "cpu_ns", program->cpu_ns);
    json_put_string(json, "publisher", publisher_state_names[program->state]);
    json_put_string(json, "source", program_source(program));
    json_put_bool(json, "sends_spans", program_has_spans(program));
    json_put_string(json, "why", program->why);
    put_switch(program, json);
    pages_frames_put(program->coverage, json);
    json_end_object(json);
}

void pages_programs_put(const struct pages_programs *programs, struct json_writer *json)
{
    json_begin_array(json, "processes");
    for (size_t i = 0; i < programs->n; i++)
        put_program(&programs->programs[i], json);
    json_end_array(json);
    json_put_uint(json, "more_processes", programs->n_more);
}
