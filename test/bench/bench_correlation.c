/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back to Elastic agents, on the writer: a sample counted under a known and under a new
 * (trace, stack), and counts made into messages, of stacks whose public id is fixed and of new
 * ones. And what an agent's socket costs: found and connected to in its process's name. Prints
 * `name value unit`.
 */
#include "agent-bpf/contexts/elastic_socket.h"
#include "base/clock.h"
#include "receiver/intake/correlation_counts.h"
#include "test/support/fixtures/store_fixture.h"
#include "test/support/rigs/reader_rig.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/un.h>
#include <unistd.h>

#define SAMPLES 1000000
#define COUNTS  8192 /* as many stacks as the dictionary keeps at hand */
#define SOCKETS 5000

static struct fixture fixture;
static struct correlation_counts *counts;
static int64_t stacks[COUNTS];

static void add(unsigned trace, int64_t stack)
{
    struct record_header record = {
        .kind = RECORD_CPU, .context_source = CONTEXT_ELASTIC, .pid = 100, .time_ns = 1};
    fixture_trace_id(trace, record.trace_id);
    fixture_span_id(trace, record.local_root_id);
    correlation_counts_add(counts, &record, stack);
}

static void report(const char *name, uint64_t began_ns, unsigned n)
{
    printf("correlation_%s_ns %.1f ns/op\n", name, (double)(clock_monotonic_ns() - began_ns) / n);
}

static void take(const char *name)
{
    _cleanup_buf_ struct buf messages = BUF_INIT(0);
    uint64_t began_ns = clock_monotonic_ns();
    fixture_begin(&fixture);
    if (correlation_counts_take(counts, began_ns, &messages) ||
        messages.len != COUNTS * sizeof(struct correlation_message))
        exit(1);
    fixture_commit(&fixture);
    report(name, began_ns, COUNTS);
}

static void count_samples(void)
{
    uint64_t began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < COUNTS; i++)
        add(i + 1, stacks[i]);
    report("new", began_ns, COUNTS);
    began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < SAMPLES; i++)
        add(i % COUNTS + 1, stacks[i % COUNTS]);
    report("known", began_ns, SAMPLES);
    take("first_message");
    for (unsigned i = 0; i < COUNTS; i++)
        add(i + 1, stacks[i]);
    take("message");
}

static bool connects_as_broker(pid_t agent, struct bytes path)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        struct elastic_socket socket;
        int fd, error = elastic_socket_become((uint32_t)agent, path, &socket);
        _exit(error || elastic_socket_connect(&socket, &fd));
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void connect_sockets(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", fixture_path(&fixture, "agent"));
    int agent = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (agent < 0 || bind(agent, (struct sockaddr *)&address, sizeof(address)))
        exit(1);
    uint64_t began_ns = clock_monotonic_ns();
    for (unsigned i = 0; i < SOCKETS; i++)
        if (!connects_as_broker(getpid(), BYTES_STR(address.sun_path)))
            exit(1);
    report("connect", began_ns, SOCKETS);
    close(agent);
}

int main(void)
{
    reader_rig_attach();
    fixture_make(&fixture);
    fixture_open(&fixture);
    if (correlation_counts_open(fixture.store, &counts))
        return 1;
    fixture_begin(&fixture);
    for (unsigned i = 0; i < COUNTS; i++)
        stacks[i] = fixture_stack(&fixture, i + 1);
    fixture_commit(&fixture);
    count_samples();
    connect_sockets();
    correlation_counts_close(counts);
    fixture_remove(&fixture);
    return 0;
}
