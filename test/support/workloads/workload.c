/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Burns known shares of CPU in known functions under known spans and tells the truth about it
 * (workload_span.h). With --await the process is published, {"type":"ready", "pid"} told, and
 * SIGUSR1 starts the rest: its readers have taken notice by then. Modes:
 *   duty    a thread for each number of --duty: spans of --span-ms back to back (0: one over all
 * the time), --gap-ms of busy time without span between them nested  like duty, each span with a
 * child and a grandchild that burn in functions of their own pool    one parent span in the main
 * thread, its children in the threads none    busy without ever publishing anything claim   like
 * duty, but under the ids of --claim TRACE:SPAN, which belong to somebody else storm   --count
 * processes one after the other, each publishing, working 1 ms in a span, exiting; with --exec each
 * is a program of its own
 */
#include "test/support/workloads/span_export.h"
#include "test/support/workloads/workload_burn.h"
#include "test/support/workloads/workload_span.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 16
#define MS          1000000u

struct options {
    const char *mode;
    const char *endpoint;
    const char *service;
    double seconds;
    unsigned duty[THREADS_MAX];
    unsigned n_threads;
    unsigned span_ms;
    unsigned gap_ms;
    unsigned count;
    bool exec;
    bool await; /* SIGUSR1, between publishing the process and the first span */
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct task {
    pthread_t thread;
    unsigned number;
    unsigned duty;
    const struct options *options;
    struct workload_process *process;
    const struct workload_span *parent;
    uint64_t deadline_ns;
};

static _Atomic bool is_over; /* all threads have ended: the flusher flushes a last time */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct workload_span span_of(const char *name, unsigned function)
{
    return (struct workload_span){.name = name, .function = burn_names[function % BURN_FUNCTIONS]};
}

static void one_span(const struct task *task, uint64_t end_ns)
{
    struct workload_span span = span_of("work", task->number);
    workload_span_begin(task->process, &span, task->parent);
    burn_duty(task->number, task->duty, end_ns);
    workload_span_end(task->process, &span);
}

/* A third of the time each: outer alone, child, grandchild; the outer one is current in between. */
static void nested_spans(const struct task *task, uint64_t end_ns)
{
    uint64_t third = (end_ns - earlier(burn_wall_ns(), end_ns)) / 3;
    struct workload_span outer = span_of("outer", task->number);
    struct workload_span child = span_of("child", task->number + 1);
    struct workload_span grandchild = span_of("grandchild", task->number + 2);
    workload_span_begin(task->process, &outer, task->parent);
    burn_duty(task->number, task->duty, burn_wall_ns() + third / 2);
    workload_span_begin(task->process, &child, NULL);
    burn_duty(task->number + 1, task->duty, burn_wall_ns() + third);
    workload_span_begin(task->process, &grandchild, NULL);
    burn_duty(task->number + 2, task->duty, burn_wall_ns() + third);
    workload_span_end(task->process, &grandchild);
    workload_span_end(task->process, &child);
    burn_duty(task->number, task->duty, end_ns);
    workload_span_end(task->process, &outer);
}

static void gap(const struct task *task)
{
    if (task->options->gap_ms == 0)
        return;
    uint64_t from = burn_unix_ns();
    burn_duty(task->number, task->duty,
              earlier(burn_wall_ns() + (uint64_t)task->options->gap_ms * MS, task->deadline_ns));
    workload_off(task->process, from);
}

static void *run_spans(void *argument)
{
    const struct task *task = argument;
    bool nested = !strcmp(task->options->mode, "nested");
    uint64_t length = (uint64_t)task->options->span_ms * MS;
    for (uint64_t now; (now = burn_wall_ns()) < task->deadline_ns; gap(task)) {
        uint64_t end = length ? earlier(now + length, task->deadline_ns) : task->deadline_ns;
        if (nested)
            nested_spans(task, end);
        else
            one_span(task, end);
    }
    return NULL;
}

static void *run_without_span(void *argument)
{
    const struct task *task = argument;
    uint64_t from = burn_unix_ns();
    if (!strcmp(task->options->mode, "claim"))
        workload_claim(task->options->trace_id, task->options->span_id);
    burn_duty(task->number, task->duty, task->deadline_ns);
    if (!strcmp(task->options->mode, "none"))
        workload_off(task->process, from);
    return NULL;
}

static void run_threads(const struct options *options, struct workload_process *process,
                        const struct workload_span *parent, void *(*run)(void *))
{
    struct task tasks[THREADS_MAX];
    uint64_t deadline = burn_wall_ns() + (uint64_t)(options->seconds * 1e9);
    for (unsigned i = 0; i < options->n_threads; i++) {
        tasks[i] = (struct task){.number = i,
                                 .duty = options->duty[i],
                                 .options = options,
                                 .process = process,
                                 .parent = parent,
                                 .deadline_ns = deadline};
        if (pthread_create(&tasks[i].thread, NULL, run, &tasks[i]))
            abort();
    }
    for (unsigned i = 0; i < options->n_threads; i++)
        pthread_join(tasks[i].thread, NULL);
}

static void run_pool(const struct options *options, struct workload_process *process)
{
    struct workload_span parent = {.name = "parent", .function = "", .server = true};
    workload_span_begin(process, &parent, NULL);
    run_threads(options, process, &parent, run_spans);
    workload_span_end(process, &parent);
}

/* What each process of a storm does. */
static int work_shortly(void)
{
    struct workload_process process = {.service = "storm", .quiet = true};
    struct workload_span span = {.name = "short", .function = burn_names[0]};
    if (workload_process_open(&process))
        return 1;
    workload_span_begin(&process, &span, NULL);
    burn(0, MS, burn_wall_ns() + 20 * MS);
    workload_span_end(&process, &span);
    return 0;
}

static int run_storm(const struct options *options)
{
    for (unsigned i = 0; i < options->count; i++) {
        pid_t child = fork();
        if (child < 0)
            return perror("fork"), 1;
        if (child == 0 && options->exec)
            _exit(execl("/proc/self/exe", "workload", "--mode", "short-lived", (char *)NULL));
        if (child == 0)
            _exit(work_shortly());
        int status;
        if (waitpid(child, &status, 0) != child || status)
            return fprintf(stderr, "a child ended with %d\n", status), 1;
    }
    printf("{\"type\":\"storm\",\"count\":%u}\n", options->count);
    return 0;
}

static int run_mode(const struct options *options, struct workload_process *process)
{
    if (!strcmp(options->mode, "duty") || !strcmp(options->mode, "nested"))
        run_threads(options, process, NULL, run_spans);
    else if (!strcmp(options->mode, "none") || !strcmp(options->mode, "claim"))
        run_threads(options, process, NULL, run_without_span);
    else if (!strcmp(options->mode, "pool"))
        run_pool(options, process);
    else
        return fprintf(stderr, "no mode '%s'\n", options->mode), 2;
    return 0;
}

static void *run_flusher(void *argument)
{
    while (!is_over) {
        span_export_flush(argument);
        usleep(300 * 1000);
    }
    return NULL;
}

/* As an SDK at shutdown: some tries, then what was not taken is lost. */
static int flush_at_end(struct span_exporter *exporter)
{
    int error = 0;
    for (int i = 0; i < 100 && (error = span_export_flush(exporter)); i++)
        usleep(100 * 1000);
    if (error)
        fprintf(stderr, "spans not taken: %d\n", error);
    struct span_export_counts counts = span_export_counts(exporter);
    printf("{\"type\":\"exported\",\"added\":%lu,\"acknowledged\":%lu,\"dropped\":%lu}\n",
           counts.added, counts.acknowledged, counts.dropped);
    return error || counts.dropped ? 1 : 0;
}

static int run_exporting(const struct options *options, struct workload_process *process)
{
    pthread_t flusher = 0;
    if (process->exporter && pthread_create(&flusher, NULL, run_flusher, process->exporter))
        abort();
    int error = run_mode(options, process);
    is_over = true;
    if (process->exporter) {
        pthread_join(flusher, NULL);
        error |= flush_at_end(process->exporter);
    }
    return error;
}

static int open_exporter(const struct options *options, struct workload_process *process)
{
    char host[128];
    unsigned port;
    if (sscanf(options->endpoint, "%127[^:]:%u", host, &port) != 2 || port > UINT16_MAX)
        return fprintf(stderr, "endpoint '%s' is not host:port\n", options->endpoint), 2;
    const struct span_export_settings settings = {.host = host,
                                                  .port = (uint16_t)port,
                                                  .service_name = options->service,
                                                  .instance_id = process->instance,
                                                  .pid = getpid()};
    return span_export_open(&settings, &process->exporter) ? 1 : 0;
}

static void wait_for_go(void)
{
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("{\"type\":\"ready\",\"pid\":%d}\n", getpid());
    sigwait(&set, &number);
}

static int run(const struct options *options)
{
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (!strcmp(options->mode, "short-lived"))
        return work_shortly();
    if (!strcmp(options->mode, "storm"))
        return run_storm(options);
    struct workload_process process = {.service = options->service,
                                       .unpublished = !strcmp(options->mode, "none")};
    int error = workload_process_open(&process);
    if (error)
        return fprintf(stderr, "process context: %s\n", strerror(-error)), 1;
    if (options->endpoint && (error = open_exporter(options, &process)))
        return error;
    if (options->await)
        wait_for_go();
    error = run_exporting(options, &process);
    span_export_close(process.exporter);
    return error;
}

static void parse_duty(struct options *options, char *text)
{
    options->n_threads = 0;
    for (char *part, *rest = text; (part = strsep(&rest, ",")) && options->n_threads < THREADS_MAX;)
        options->duty[options->n_threads++] = (unsigned)atoi(part);
}

static void parse_hex(const char *text, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (sscanf(text + 2 * i, "%2hhx", &bytes[i]) != 1)
            exit(2);
}

static void parse_claim(struct options *options, const char *text)
{
    if (strlen(text) != 32 + 1 + 16)
        exit(2);
    parse_hex(text, options->trace_id, 16);
    parse_hex(text + 33, options->span_id, 8);
}

static void parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"mode", 1, NULL, 'm'},    {"endpoint", 1, NULL, 'e'}, {"service", 1, NULL, 'n'},
        {"seconds", 1, NULL, 's'}, {"duty", 1, NULL, 'd'},     {"span-ms", 1, NULL, 'l'},
        {"gap-ms", 1, NULL, 'g'},  {"count", 1, NULL, 'c'},    {"exec", 0, NULL, 'x'},
        {"claim", 1, NULL, 'i'},   {"await", 0, NULL, 'a'},    {NULL, 0, NULL, 0}};
    for (int letter; (letter = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (letter) {
        case 'm':
            options->mode = optarg;
            break;
        case 'e':
            options->endpoint = optarg;
            break;
        case 'n':
            options->service = optarg;
            break;
        case 's':
            options->seconds = atof(optarg);
            break;
        case 'd':
            parse_duty(options, optarg);
            break;
        case 'l':
            options->span_ms = (unsigned)atoi(optarg);
            break;
        case 'g':
            options->gap_ms = (unsigned)atoi(optarg);
            break;
        case 'c':
            options->count = (unsigned)atoi(optarg);
            break;
        case 'x':
            options->exec = true;
            break;
        case 'a':
            options->await = true;
            break;
        case 'i':
            parse_claim(options, optarg);
            break;
        default:
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = {.mode = "duty",
                              .service = "workload",
                              .seconds = 5,
                              .duty = {100},
                              .n_threads = 1,
                              .count = 100};
    parse(argc, argv, &options);
    return run(&options);
}
