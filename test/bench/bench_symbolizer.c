/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs the symbolizer to attach to a process: with executables it has never seen, with
 * those it knows, to a process without any publisher, and to look whether something changed.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "context/spanprof_context.h"
#include "test/support/fixtures/context_fixture.h"
#include "test/support/rigs/reader_rig.h"
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROCESSES  100
#define COLD_TIMES 20
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
    struct symbolizer_settings settings = {
        .loop = loop, .socket = sockets[1], .contexts_map_fd = contexts_fd, .sources = ~0u};
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

/* ns of the first look at each process; what is said is not part of it. */
static double attach(struct symbolizer *symbolizer, const pid_t *pids, unsigned n)
{
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
    uint64_t total_ns = 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t start_ns = clock_monotonic_ns();
        tracked_process_request(symbolizer, (uint32_t)pids[i], true, true);
        total_ns += clock_monotonic_ns() - start_ns;
        while (recv(peer, datagram, sizeof(datagram), MSG_DONTWAIT) > 0)
            ;
    }
    return (double)total_ns / n;
}

static double cold(pid_t pid)
{
    double total = 0;
    for (int i = 0; i < COLD_TIMES; i++) {
        struct symbolizer *symbolizer = open_symbolizer();
        total += attach(symbolizer, &pid, 1);
        symbolizer_close(symbolizer);
    }
    return total / COLD_TIMES;
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
    printf("attach_cold %.1f us\n", cold(publishers[0]) / 1000);
    struct symbolizer *symbolizer = open_symbolizer();
    attach(symbolizer, publishers, 1); /* from here on all files are known */
    printf("attach_warm %.1f us\n", attach(symbolizer, publishers + 1, PROCESSES - 1) / 1000);
    printf("attach_no_publisher %.1f us\n", attach(symbolizer, silent, PROCESSES) / 1000);
    printf("attach_poll %.2f us\n", poll_ns(symbolizer, publishers[1]) / 1000);
    symbolizer_close(symbolizer);
    for (int i = 0; i < PROCESSES; i++) {
        fixture_kill(publishers[i]);
        fixture_kill(silent[i]);
    }
    close(peer);
    close(contexts_fd);
    loop_close(loop);
    return 0;
}
