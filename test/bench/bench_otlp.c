/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans on the wire and profiles built, per item: lines `name value unit`. The requests are those
 * of test/bench/make_spans.py. Each figure is the best of several rounds, so that what else runs on
 * the machine counts least.
 */
#include "base/clock.h"
#include "proto/otlp/otlp_profiles.h"
#include "proto/otlp/otlp_spans.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPANS = 100, ROUNDS = 15, REPEATS = 300, SAMPLES = 20000, STACKS = 1000, DEPTH = 32 };

struct run {
    struct bytes request;
    unsigned percent; /* of spans that get attributes */
    unsigned span;
    size_t bytes;
};

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, error);
    exit(1);
}

static void read_request(const char *name, struct buf *out)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/test/bench/%s", SPANPROF_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    uint8_t chunk[4096];
    size_t n;
    must(file ? 0 : -1, path);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        must(buf_append(out, chunk, n), "memory");
    fclose(file);
    must(otlp_spans_count(buf_bytes(out)) == SPANS ? 0 : -1, "100 spans in the file");
}

static int visit(void *context, const struct otlp_span *span, struct buf *added)
{
    static const struct bytes stacks[] = {BYTES_LIT("lbNyWxTfNkk5Jtt2JGvnGA"),
                                          BYTES_LIT("Xc3wq9jnTDtMk8mOgFuRtA"),
                                          BYTES_LIT("4mZ2m8iV0RVeHrqVWJ2pWw")};
    struct run *run = context;
    if (span->trace_id.len != 16 || run->span++ % 100 >= run->percent)
        return 0;
    int error = otlp_attribute_int(added, 9, "spanprof.cpu.time_ns", 123456789);
    if (!error)
        error = otlp_attribute_int(added, 9, "spanprof.samples", 12);
    return error ? error : otlp_attribute_strings(added, 9, "spanprof.stack_ids", stacks, 3);
}

static int emit(void *context, struct bytes body, uint64_t n_spans)
{
    struct run *run = context;
    run->bytes += body.len + n_spans;
    return 0;
}

static void check(struct run *run)
{
    must(otlp_spans_check(run->request), "check");
}

static void rewrite(struct run *run)
{
    struct otlp_rewrite settings = {visit, emit, run, 4 << 20, NULL};
    run->span = 0;
    must(otlp_spans_rewrite(run->request, &settings), "rewrite");
}

static double best_ns(void (*call)(struct run *run), struct run *run, uint64_t items)
{
    uint64_t best = UINT64_MAX;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t start = clock_monotonic_ns();
        for (unsigned i = 0; i < REPEATS; i++)
            call(run);
        uint64_t spent = clock_monotonic_ns() - start;
        best = spent < best ? spent : best;
    }
    return (double)best / (double)(REPEATS * items);
}

static void bench_spans(unsigned size)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    char name[32];
    snprintf(name, sizeof(name), "spans_%u.bin", size);
    read_request(name, &request);
    struct run run = {.request = buf_bytes(&request)};
    printf("otlp_spans_check_ns_%u %.1f ns/span\n", size, best_ns(check, &run, SPANS));
    static const unsigned percents[] = {0, 1, 100};
    for (size_t i = 0; i < 3; i++) {
        run.percent = percents[i];
        printf("otlp_spans_rewrite_ns_%u_%upct %.1f ns/span\n", size, run.percent,
               best_ns(rewrite, &run, SPANS));
    }
}

/* Stacks of 32 frames over 1,000 stacks, each sample interned anew as the window does. */
static int32_t intern_stack(struct otlp_profiles *profiles, unsigned stack)
{
    int32_t locations[DEPTH];
    for (unsigned i = 0; i < DEPTH; i++) {
        char function[32];
        struct otlp_line line = {0};
        struct otlp_location location = {.frame_type = BYTES_LIT("native"),
                                         .address = stack * 7 + i,
                                         .lines = &line,
                                         .n_lines = 1};
        snprintf(function, sizeof(function), "function_%u", (stack + i) % 4000);
        line.function = BYTES_STR(function);
        locations[i] = otlp_profiles_location(profiles, &location);
        must(locations[i] > 0 ? 0 : -1, "location");
    }
    return otlp_profiles_stack(profiles, locations, DEPTH);
}

static void bench_profiles(void)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct otlp_profiles *profiles;
    int32_t stacks[STACKS];
    must(otlp_profiles_open(64 << 20, &profiles), "open");
    uint64_t start = clock_monotonic_ns();
    for (unsigned i = 0; i < STACKS; i++)
        stacks[i] = intern_stack(profiles, i);
    uint64_t interned = clock_monotonic_ns();
    int32_t resource = otlp_profiles_resource(profiles, BYTES(NULL, 0));
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint8_t trace_id[16] = {(uint8_t)i, (uint8_t)(i >> 8), 1}, span_id[8] = {(uint8_t)i, 1};
        int32_t attribute = otlp_profiles_attribute_int(profiles, "thread.id", i % 64);
        struct otlp_sample sample = {.resource = resource,
                                     .stack = stacks[i % STACKS],
                                     .link = otlp_profiles_link(profiles, trace_id, span_id),
                                     .attributes = &attribute,
                                     .n_attributes = 1,
                                     .time_unix_ns = 1000 + i,
                                     .period_ns = 10309278};
        must(otlp_profiles_add(profiles, &sample), "add");
    }
    uint64_t added = clock_monotonic_ns();
    must(otlp_profiles_finish(profiles, 0, 100000, "1", &out), "finish");
    uint64_t finished = clock_monotonic_ns();
    printf("otlp_profiles_stack_ns %.1f ns/frame\n", (double)(interned - start) / (STACKS * DEPTH));
    printf("otlp_profiles_add_ns %.1f ns/sample\n", (double)(added - interned) / SAMPLES);
    printf("otlp_profiles_finish_ns %.1f ns/sample\n", (double)(finished - added) / SAMPLES);
    printf("otlp_profiles_bytes %.1f bytes/sample\n", (double)out.len / SAMPLES);
    otlp_profiles_close(profiles);
}

int main(void)
{
    bench_spans(330);
    bench_spans(800);
    bench_profiles();
    return 0;
}
