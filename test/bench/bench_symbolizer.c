/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs the symbolizer to attach to a process: with executables it has never seen, with
 * those it knows, to a process without any publisher, and to look whether something changed; on a
 * quiet machine, and with every CPU busy.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "context/spanprof_context.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/rigs/reader_rig.h"
#include <bpf/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROCESSES  100
#define COLD_TIMES 100
#define POLLS      2000

static struct loop *loop;
static int contexts_fd;
static int peer = -1;
static pid_t reader;

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "%s failed\n", what);
    exit(1);
}

static struct symbolizer *open_symbolizer(void)
{
    int sockets[2];
    struct symbolizer *symbolizer;
    must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets),
         "socketpair");
    struct symbolizer_settings settings = {.loop = loop,
                                           .socket = sockets[1],
                                           .contexts_map_fd = contexts_fd,
                                           .runtimes_map_fd = -1,
                                           .sources = ~0u};
    must(!symbolizer_open(&settings, &symbolizer), "symbolizer_open");
    symbolizer_reader(symbolizer, reader_rig_start(&reader), 0);
    if (peer >= 0)
        close(peer);
    peer = sockets[0];
    return symbolizer;
}

static void publish(void *context)
{
    static const struct spanprof_attribute attributes[] = {{"service.name", "shop"}};
    (void)context;
    if (spanprof_context_publish(attributes, 1))
        _exit(1);
}

static void nothing(void *context)
{
    (void)context;
}

/* Keeps one CPU busy until fixture_kill(). */
static pid_t burner_start(void)
{
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            __asm__ volatile("");
    }
    return pid;
}

/* ns of the first look at a process; what is said is not part of it. */
static uint64_t attach_ns(struct symbolizer *symbolizer, pid_t pid)
{
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    uint64_t start_ns = clock_monotonic_ns();
    tracked_process_request(symbolizer, (uint32_t)pid, true, true);
    uint64_t ns = clock_monotonic_ns() - start_ns;
    while (recv(peer, datagram, sizeof(datagram), MSG_DONTWAIT) > 0)
        ;
    return ns;
}

static int compare_ns(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return (*one > *other) - (*one < *other);
}

static void print_ns(const char *name, const char *load, uint64_t *ns, unsigned n)
{
    qsort(ns, n, sizeof(*ns), compare_ns);
    printf("%s%s_p50 %.1f us\n", name, load, (double)ns[n / 2] / 1000);
    printf("%s%s_p99 %.1f us\n", name, load, (double)ns[n * 99 / 100] / 1000);
}

static void bench_cold(const char *load, pid_t pid)
{
    uint64_t ns[COLD_TIMES];
    for (int i = 0; i < COLD_TIMES; i++) {
        struct symbolizer *symbolizer = open_symbolizer();
        ns[i] = attach_ns(symbolizer, pid);
        symbolizer_close(symbolizer);
    }
    print_ns("attach_cold", load, ns, COLD_TIMES);
}

/* To all processes, after one by which all their files are known. */
static void bench_warm(const char *name, const char *load, const pid_t *pids)
{
    uint64_t ns[PROCESSES];
    struct symbolizer *symbolizer = open_symbolizer();
    for (int i = 0; i < PROCESSES; i++)
        ns[i] = attach_ns(symbolizer, pids[i]);
    print_ns(name, load, ns + 1, PROCESSES - 1);
    symbolizer_close(symbolizer);
}

static double poll_ns(struct symbolizer *symbolizer, pid_t pid)
{
    struct tracked_process *process = tracked_process_get(symbolizer, (uint32_t)pid);
    must(process && process->sources, "attaching");
    uint64_t start_ns = clock_monotonic_ns();
    for (int i = 0; i < POLLS; i++)
        must(inspection_still_holds(symbolizer, process), "polling");
    return (double)(clock_monotonic_ns() - start_ns) / POLLS;
}

static void bench_all(const char *load, const pid_t *publishers, const pid_t *silent)
{
    bench_cold(load, publishers[0]);
    bench_warm("attach_warm", load, publishers);
    bench_warm("attach_no_publisher", load, silent);
    struct symbolizer *symbolizer = open_symbolizer();
    attach_ns(symbolizer, publishers[1]);
    printf("attach_poll%s %.2f us\n", load, poll_ns(symbolizer, publishers[1]) / 1000);
    symbolizer_close(symbolizer);
}

int main(void)
{
    pid_t publishers[PROCESSES], silent[PROCESSES];
    if (geteuid() != 0) {
        printf("bench_symbolizer: skipped, root is needed\n");
        return 0;
    }
    contexts_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "contexts", sizeof(__u32),
                                 sizeof(struct context_process), 2 * PROCESSES, NULL);
    must(contexts_fd >= 0 && !loop_open(&loop), "setting up");
    for (int i = 0; i < PROCESSES; i++) {
        publishers[i] = fixture_child(publish, NULL);
        silent[i] = fixture_child(nothing, NULL);
    }
    bench_all("", publishers, silent);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    pid_t burners[64];
    for (long i = 0; i < cpus && i < 64; i++)
        burners[i] = burner_start();
    bench_all("_busy", publishers, silent);
    for (long i = 0; i < cpus && i < 64; i++)
        fixture_kill(burners[i]);
    for (int i = 0; i < PROCESSES; i++) {
        fixture_kill(publishers[i]);
        fixture_kill(silent[i]);
    }
    close(peer);
    close(contexts_fd);
    loop_close(loop);
    return 0;
}
