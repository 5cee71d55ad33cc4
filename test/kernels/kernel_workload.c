/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_workload PORT TRACE_ID SPAN_ID SECONDS: one span, given by the caller, in which the main
 * thread burns SECONDS of CPU time under main() and DESCENTS calls of descend(), by turns in
 * burn_alpha() and in the kernel's random numbers. The span goes to http://127.0.0.1:PORT. Built
 * twice, with and without frame pointers.
 */
#include "test/kernels/kernel_workload.h"

#include "base/bytes.h"
#include "context/spanprof_context.h"
#include "test/support/workloads/span_export.h"
#include "test/support/workloads/workload_burn.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MS    UINT64_C(1000000)
#define LEAD  (1000 * MS) /* from publishing to the first work: readers take notice */
#define PHASE (60 * MS)
#ifdef __clang__
#define FRAME __attribute__((noinline))
#else
#define FRAME __attribute__((noinline, noclone))
#endif

FRAME void descend(unsigned more, uint64_t cpu_end_ns);
FRAME void take_random(uint64_t cpu_end_ns);

FRAME void take_random(uint64_t cpu_end_ns)
{
    static uint8_t random[64 << 10];
    while (burn_thread_cpu_ns() < cpu_end_ns)
        if (getrandom(random, sizeof(random), 0) < 0)
            abort();
}

/* What follows the calls keeps them from becoming jumps. */
FRAME void descend(unsigned more, uint64_t cpu_end_ns)
{
    if (more)
        descend(more - 1, cpu_end_ns);
    while (burn_thread_cpu_ns() < cpu_end_ns) {
        burn(0, PHASE, UINT64_MAX);
        take_random(burn_thread_cpu_ns() + PHASE);
    }
    __asm__ volatile("" ::: "memory");
}

static int send_span(uint16_t port, const struct span_export_span *span)
{
    const struct span_export_settings settings = {.host = "127.0.0.1",
                                                  .port = port,
                                                  .service_name = KERNEL_WORKLOAD_SERVICE,
                                                  .instance_id = "kernels",
                                                  .pid = getpid()};
    struct span_exporter *exporter;
    int error = span_export_open(&settings, &exporter);
    if (error)
        return error;
    span_export_add(exporter, span);
    for (int tries = 0; (error = span_export_flush(exporter)) && tries < 100; tries++)
        usleep(100 * 1000);
    span_export_close(exporter);
    return error;
}

static void set_context(const struct span_export_span *span)
{
    int error =
        span ? spanprof_context_set(span->trace_id, span->span_id, 1) : spanprof_context_clear();
    assert(!error);
    (void)error;
}

int main(int argc, char **argv)
{
    static const struct spanprof_attribute resource[] = {{"service.name", KERNEL_WORKLOAD_SERVICE}};
    struct span_export_span span = {.name = KERNEL_WORKLOAD_SPAN, .kind = SPAN_KIND_SERVER};
    if (argc != 5 || !bytes_from_hex(BYTES_STR(argv[2]), span.trace_id, 16) ||
        !bytes_from_hex(BYTES_STR(argv[3]), span.span_id, 8))
        return fprintf(stderr, "usage: kernel_workload PORT TRACE_ID SPAN_ID SECONDS\n"), 2;
    int error = spanprof_context_publish(resource, 1);
    if (error)
        return fprintf(stderr, "process context: %s\n", strerror(-error)), 1;
    burn_sleep_until(burn_wall_ns() + LEAD);
    span.start_unix_ns = burn_unix_ns();
    set_context(&span);
    descend(KERNEL_WORKLOAD_DESCENTS - 1, burn_thread_cpu_ns() + (uint64_t)(atof(argv[4]) * 1e9));
    set_context(NULL);
    span.end_unix_ns = burn_unix_ns();
    error = send_span((uint16_t)atoi(argv[1]), &span);
    if (error)
        fprintf(stderr, "the span was not taken: %d\n", error);
    return error ? 1 : 0;
}
