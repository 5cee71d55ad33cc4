/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_check SPANPROF WORKLOADS DIRECTORY: what a kernel must be able to do, end to end: spanprof
 * runs as it does anywhere, kernel_workload_framed and kernel_workload_frameless of WORKLOADS
 * publish a span, work in it and send it, and a backend in this process judges what comes out.
 * Prints a line for each step, `ok`, `failed` or `skipped`, then its name and what was found, and
 * lines `figure NAME VALUE UNIT`. Exit: 0 if no step failed, 77 where nothing can be sampled.
 */
#include "base/clock.h"
#include "base/loop.h"
#include "proto/codec.h"
#include "test/kernels/linked_samples.h"
#include "test/support/net/backend.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIP           77
#define REQUEST_MAX    ((size_t)64 << 20)
#define WORK_S         "3" /* of CPU time */
#define LOADS_WITHIN_S 60  /* an emulated CPU takes its time to verify the program */
#define COMES_WITHIN_S 60
#define ENDS_WITHIN_S  20
#define LINKED_MIN     30 /* of some 290 that 3 s at 97 Hz have; a slow machine emulates few ticks */
#define WHOLE_PERCENT  98

enum { FRAMED, FRAMELESS, N_WORKLOADS };
static const char *const workload_names[N_WORKLOADS] = {"kernel_workload_framed",
                                                        "kernel_workload_frameless"};

struct check {
    const char *spanprof;
    const char *workloads; /* their directory */
    const char *directory; /* for configuration and store */
    struct loop *loop;
    struct backend backend;
    uint16_t http_port;
    pid_t pid; /* spanprof's supervisor */
    pid_t workload_pids[N_WORKLOADS];
    struct linked_samples samples[N_WORKLOADS];
    size_t n_profiles, n_traces; /* requests that were looked at */
    bool failed;
};

__attribute__((format(printf, 4, 5))) static bool step(struct check *check, bool ok,
                                                       const char *name, const char *format, ...)
{
    va_list arguments;
    check->failed |= !ok;
    printf("%s %s: ", ok ? "ok" : "failed", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    return ok;
}

/* ---- spanprof ---- */

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        abort();
    close(fd);
    return ntohs(address.sin_port);
}

static void write_config(const struct check *check)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/config", check->directory);
    FILE *file = fopen(path, "we");
    if (!file)
        abort();
    fprintf(file,
            "receivers:\n"
            "  otlp: {protocols: {http: {endpoint: '127.0.0.1:%u'}}}\n"
            "  sampler: {frequency: 97}\n"
            "processors: {join: {wait: 30s}}\n"
            "exporters: {otlp_grpc: {endpoint: '127.0.0.1:%u', tls: {insecure: true}}}\n"
            "extensions: {sqlite_storage: {directory: '%s/store'}}\n"
            "service:\n"
            "  extensions: [sqlite_storage]\n"
            "  telemetry: {metrics: {address: '127.0.0.1:%u'}}\n"
            "  pipelines:\n"
            "    traces: {receivers: [otlp], processors: [join], exporters: [otlp_grpc]}\n"
            "    profiles: {receivers: [sampler], processors: [join], exporters: [otlp_grpc]}\n",
            check->http_port, check->backend.port, check->directory, free_port());
    if (fclose(file))
        abort();
}

/* The child's stdout goes to stderr: stdout is for steps. */
static pid_t start(char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    if (pid < 0)
        abort();
    return pid;
}

static void start_spanprof(struct check *check)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/config", check->directory);
    write_config(check);
    check->pid = start((char *[]){(char *)(uintptr_t)check->spanprof, "--config", path, NULL});
}

/* A signal of 0 is none. Whether it ended by itself or that signal. */
static bool ends(pid_t pid, int signal_number, int *status)
{
    uint64_t end_ns = clock_monotonic_ns() + ENDS_WITHIN_S * NS_PER_SEC;
    kill(pid, signal_number);
    while (clock_monotonic_ns() < end_ns) {
        if (waitpid(pid, status, WNOHANG) == pid)
            return true;
        usleep(10 * 1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, status, 0);
    return false;
}

/* ---- what comes ---- */

static size_t look(struct check *check, const char *path, size_t n,
                   void (*add)(struct linked_samples *, struct bytes))
{
    const struct backend_request *request;
    for (; (request = backend_request(&check->backend, path, n)); n++) {
        _cleanup_buf_ struct buf plain = BUF_INIT(0);
        struct bytes body = buf_bytes(&request->reader.message);
        if (request->reader.compressed && codec_inflate_gzip(body, REQUEST_MAX, &plain))
            abort();
        for (int i = 0; i < N_WORKLOADS; i++)
            add(&check->samples[i], request->reader.compressed ? buf_bytes(&plain) : body);
    }
    return n;
}

static void look_at_requests(struct check *check)
{
    loop_once(check->loop, 10);
    check->n_profiles =
        look(check, "ProfilesService", check->n_profiles, linked_samples_add_profiles);
    check->n_traces = look(check, "TraceService", check->n_traces, linked_samples_add_traces);
}

static bool any_profile(const struct check *check)
{
    return check->n_profiles > 0;
}

/* The spans are back, and all samples that they count. */
static bool all_linked(const struct check *check)
{
    for (int i = 0; i < N_WORKLOADS; i++)
        if (!check->samples[i].annotated ||
            check->samples[i].with_span < check->samples[i].annotated)
            return false;
    return true;
}

/* Busy while it waits: otherwise there may be nothing to sample. */
static bool await(struct check *check, bool (*condition)(const struct check *), unsigned seconds)
{
    uint64_t end_ns = clock_monotonic_ns() + seconds * NS_PER_SEC;
    while (!condition(check) && clock_monotonic_ns() < end_ns) {
        uint64_t busy_until_ns = clock_monotonic_ns() + 2 * NS_PER_MS;
        while (clock_monotonic_ns() < busy_until_ns)
            ;
        look_at_requests(check);
    }
    return condition(check);
}

/* ---- figures ---- */

static uint64_t fdinfo_field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found ? strtoull(found + strlen(name), NULL, 10) : 0;
}

/* Of one file of the supervisor, if it is a perf_event program (type 7). */
static void add_runs(pid_t pid, const char *fd, uint64_t *ns, uint64_t *runs)
{
    char path[300], text[2048];
    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", pid, fd);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
    if (file >= 0)
        close(file);
    text[size > 0 ? size : 0] = '\0';
    if (fdinfo_field(text, "prog_type:") == BPF_PROG_TYPE_PERF_EVENT) {
        *ns += fdinfo_field(text, "run_time_ns:");
        *runs += fdinfo_field(text, "run_cnt:");
    }
}

static void show_tick_time(const struct check *check)
{
    char path[64];
    uint64_t ns = 0, runs = 0;
    snprintf(path, sizeof(path), "/proc/%d/fdinfo", check->pid);
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && (entry = readdir(directory));)
        add_runs(check->pid, entry->d_name, &ns, &runs);
    if (directory)
        closedir(directory);
    if (runs)
        printf("figure tick %" PRIu64 " ns\n", ns / runs);
}

/* ---- steps ---- */

static bool loads(struct check *check)
{
    uint64_t start_ns = clock_monotonic_ns();
    start_spanprof(check);
    bool ok = await(check, any_profile, LOADS_WITHIN_S);
    double seconds = (double)(clock_monotonic_ns() - start_ns) / NS_PER_SEC;
    return step(check, ok, "loads", ok ? "a profile after %.1f s" : "no profile within %.1f s",
                seconds);
}

static void start_workload(struct check *check, int i)
{
    char program[256], port[8], trace_id[33], span_id[17];
    struct linked_samples *samples = &check->samples[i];
    if (getrandom(samples->trace_id, 16, 0) != 16 || getrandom(samples->span_id, 8, 0) != 8)
        abort();
    bytes_to_hex(BYTES(samples->trace_id, 16), trace_id);
    bytes_to_hex(BYTES(samples->span_id, 8), span_id);
    snprintf(program, sizeof(program), "%s/%s", check->workloads, workload_names[i]);
    snprintf(port, sizeof(port), "%u", check->http_port);
    check->workload_pids[i] = start((char *[]){program, port, trace_id, span_id, WORK_S, NULL});
}

static bool links(struct check *check)
{
    const struct linked_samples *samples = check->samples;
    for (int i = 0; i < N_WORKLOADS; i++)
        start_workload(check, i);
    bool ok = await(check, all_linked, COMES_WITHIN_S);
    for (int i = 0, status; i < N_WORKLOADS; i++) {
        bool ended = ends(check->workload_pids[i], 0, &status);
        ok &= ended && status == 0 && samples[i].with_span >= LINKED_MIN;
    }
    return step(
        check, ok, "links",
        "%" PRIu64 " + %" PRIu64 " samples have their span, which count %" PRIu64 " + %" PRIu64,
        samples[0].with_span, samples[1].with_span, samples[0].annotated, samples[1].annotated);
}

static uint64_t percent(uint64_t part, uint64_t whole)
{
    return whole ? part * 100 / whole : 0;
}

static void names(struct check *check)
{
    uint64_t burning = check->samples[0].burning + check->samples[1].burning;
    uint64_t total = check->samples[0].total + check->samples[1].total;
    step(check, burning * 5 > total, "names",
         "burn_alpha is the leaf of %" PRIu64 " %% of %" PRIu64, percent(burning, total), total);
}

static void unwinds(struct check *check, int i, const char *name)
{
    const struct linked_samples *samples = &check->samples[i];
    uint64_t whole = percent(samples->whole, samples->total);
    uint64_t kernel_whole = percent(samples->kernel_whole, samples->kernel);
    step(check, whole >= WHOLE_PERCENT && kernel_whole >= WHOLE_PERCENT, name,
         "%" PRIu64 " %% of %" PRIu64 " stacks are whole, of %" PRIu64
         " that begin in the kernel %" PRIu64 " %%",
         whole, samples->total, samples->kernel, kernel_whole);
}

static void run(struct check *check)
{
    int stats = bpf_enable_stats(BPF_STATS_RUN_TIME), status = -1;
    if (loads(check) && links(check)) {
        names(check);
        unwinds(check, FRAMED, "unwinds with frame pointers");
        unwinds(check, FRAMELESS, "unwinds without frame pointers");
        show_tick_time(check);
    }
    bool stopped = ends(check->pid, SIGTERM, &status);
    step(check, stopped && status == 0, "stops", "wait status %d", status);
    if (stats >= 0)
        close(stats);
}

int main(int argc, char **argv)
{
    struct check check = {0};
    if (argc != 4)
        return fprintf(stderr, "usage: kernel_check SPANPROF WORKLOADS DIRECTORY\n"), 2;
    if (geteuid() != 0 || access("/sys/kernel/btf/vmlinux", R_OK) < 0)
        return printf("skipped all: needs root and a kernel with BTF\n"), SKIP;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    signal(SIGPIPE, SIG_IGN);
    check.spanprof = argv[1];
    check.workloads = argv[2];
    check.directory = argv[3];
    if (loop_open(&check.loop))
        abort();
    backend_open(&check.backend, check.loop);
    check.http_port = free_port();
    run(&check);
    backend_close(&check.backend);
    loop_close(check.loop);
    return check.failed ? 1 : 0;
}
