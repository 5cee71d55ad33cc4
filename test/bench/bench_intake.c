/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace request on the writer, from its bytes to the outbox: check, join, annotate, put and
 * (shared by the requests of a batch) commit; with none, 1 % and all of the spans having samples;
 * and what of it is the history's (CPU time; each the best of several). The requests are the files
 * beside this one, each round with ids of its own. Prints `name value unit`.
 */
#include "base/clock.h"
#include "receiver/intake/intake_spans.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SPANS_MAX  256
#define SENDER_PID 4711 /* of the files' Resource */
#define ROUNDS     400
#define BATCH      8 /* requests a transaction */
#define REPEATS    5

struct request_file {
    uint8_t *data;
    size_t size;
    size_t n;
    size_t trace_at[SPANS_MAX], span_at[SPANS_MAX]; /* offsets of the ids */
};

static int note_ids(void *context, const struct otlp_span *span, struct buf *added)
{
    struct request_file *file = context;
    (void)added;
    if (file->n == SPANS_MAX || span->trace_id.len != 16 || span->span_id.len != 8)
        return -EINVAL;
    file->trace_at[file->n] = (size_t)(span->trace_id.data - file->data);
    file->span_at[file->n++] = (size_t)(span->span_id.data - file->data);
    return 0;
}

static int emit_nothing(void *context, struct bytes body, uint64_t n_spans)
{
    (void)context, (void)body, (void)n_spans;
    return 0;
}

static void read_file(unsigned size, struct request_file *file)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/test/bench/spans_%u.bin", SPANPROF_SOURCE_DIR, size);
    FILE *stream = fopen(path, "rb");
    *file = (struct request_file){.data = malloc(1 << 20)};
    if (!stream || !file->data)
        exit(1);
    file->size = fread(file->data, 1, 1 << 20, stream);
    fclose(stream);
    struct otlp_rewrite rewrite = {note_ids, emit_nothing, file, 4 << 20, NULL};
    if (otlp_spans_rewrite(BYTES(file->data, file->size), &rewrite) || !file->n)
        exit(1);
}

static void renumber(struct request_file *file, unsigned round)
{
    for (size_t i = 0; i < file->n; i++) {
        unsigned number = (unsigned)(round * file->n + i + 1);
        fixture_trace_id(number, file->data + file->trace_at[i]);
        fixture_span_id(number, file->data + file->span_at[i]);
    }
}

/* One batch of the samples that the round's spans will find. */
static void add_samples(struct fixture *fixture, const struct request_file *file, unsigned round,
                        unsigned every)
{
    if (!every)
        return;
    int64_t stack = fixture_stack(fixture, 1),
            process = fixture_process(fixture, SENDER_PID, BYTES_LIT(""));
    fixture_begin(fixture);
    join_batch_begin(store_join(fixture->store));
    for (size_t i = 0; i < file->n; i += every) {
        unsigned number = (unsigned)(round * file->n + i + 1);
        struct sample sample = fixture_sample(
            clock_unix_ns(), (struct fixture_ids){.trace = number, .span = number}, stack, process);
        join_add_sample(store_join(fixture->store), &sample);
    }
    join_batch_commit(store_join(fixture->store));
    fixture_commit(fixture);
}

static void run_request(struct fixture *fixture, const struct request_file *file)
{
    static const struct intake_signal_settings settings = {
        .join = true, .destinations = 1, .max_body_bytes = 4 << 20};
    struct intake_request request = {.signal = SIGNAL_TRACES, .max_inflated_bytes = 4 << 20};
    buf_append(&request.body, file->data, file->size);
    int error = intake_spans_run(&request, fixture->store, &settings);
    if (error || request.outcome != INTAKE_ACCEPTED)
        exit(1);
    buf_close(&request.body);
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

struct spent { /* a span */
    double wall_ns, cpu_ns;
};

static struct spent run(unsigned size, unsigned every, bool history)
{
    struct fixture made = {0}, *fixture = &made;
    struct request_file file;
    struct spent spent = {0, 0};
    read_file(size, &file);
    fixture_make(fixture);
    fixture->settings.history.enabled = history;
    fixture->settings.history.max_spans_per_second = 500;
    fixture_open(fixture);
    for (unsigned round = 0; round < ROUNDS; round += BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            add_samples(fixture, &file, round + i, every);
        uint64_t began_ns = clock_monotonic_ns();
        double cpu_began_ns = cpu_ns();
        fixture_begin(fixture);
        for (unsigned i = 0; i < BATCH; i++) {
            renumber(&file, round + i);
            run_request(fixture, &file);
        }
        fixture_commit(fixture);
        spent.wall_ns += (double)(clock_monotonic_ns() - began_ns);
        spent.cpu_ns += cpu_ns() - cpu_began_ns;
    }
    spent.wall_ns /= (double)ROUNDS * (double)file.n;
    spent.cpu_ns /= (double)ROUNDS * (double)file.n;
    free(file.data);
    fixture_remove(fixture);
    return spent;
}

static void keep_best(struct spent *best, struct spent spent)
{
    if (best->wall_ns == 0 || spent.wall_ns < best->wall_ns)
        best->wall_ns = spent.wall_ns;
    if (best->cpu_ns == 0 || spent.cpu_ns < best->cpu_ns)
        best->cpu_ns = spent.cpu_ns;
}

static void measure(unsigned size, unsigned every, const char *share)
{
    struct spent with = {0, 0}, without = {0, 0};
    for (int i = 0; i < REPEATS; i++) {
        keep_best(&without, run(size, every, false));
        keep_best(&with, run(size, every, true));
    }
    printf("intake_span_%u_%s_ns %.1f ns/span\n", size, share, with.wall_ns);
    printf("intake_span_%u_%s_history_ns %.1f ns/span\n", size, share,
           with.cpu_ns - without.cpu_ns);
    printf("intake_span_%u_%s_history_percent %.1f %%\n", size, share,
           (with.cpu_ns / without.cpu_ns - 1) * 100);
}

int main(void)
{
    for (unsigned size = 330; size <= 800; size += 470) {
        measure(size, 0, "0pct");
        measure(size, 100, "1pct");
        measure(size, 1, "100pct");
    }
    return 0;
}
