/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long questions to the history take, first (nothing is remembered, the file is in the kernel's
 * cache) and again, by the clock and in CPU time: an hour of 64 busy CPUs at 97 Hz (seconds: the
 * first argument), made up by test/support/fixtures/history_load.h; the second: only questions with
 * this in their name. A line a figure: `name value unit`.
 */
#include "base/clock.h"
#include "store/query/history_reader.h"
#include "test/support/rigs/bench_rig.h"
#include "test/support/fixtures/history_load.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define T0           UINT64_C(1795284000000000000)
#define ANSWER_BYTES ((size_t)256 << 20)

static const char *directory;
static uint64_t end_unix_ns;

static void print(const char *name, const char *more, double value, const char *unit)
{
    printf("history_reader_%s%s %.2f %s\n", name, more, value, unit);
    fflush(stdout);
}

static void fill(unsigned seconds)
{
    const struct store_settings settings = bench_history_settings(2 * 3600 * NS_PER_SEC);
    struct store *store = bench_store_open(&settings);
    struct history_load load;
    must(history_load_open(store, &(struct history_load_settings){64, 97, 1}, &load), "load");
    end_unix_ns = T0;
    for (unsigned i = 0; i < seconds; i += 5) {
        end_unix_ns += HISTORY_LOAD_WINDOW_NS;
        must(history_load_window(&load, end_unix_ns), "window");
        must(store_maintain(store), "maintain");
    }
    print("samples", "", (double)load.n_samples, "samples");
    print("spans", "", (double)load.n_spans, "spans");
    history_load_close(&load);
    store_close(store);
}

/* Questions */

struct asking {
    struct history_reader *reader;
    struct arena arena;
    struct history_filter filter;
    uint8_t trace_id[16], span_id[8]; /* of the slowest */
    char function_text[256];          /* that takes most */
    bool complete;
    size_t n; /* of the answer */
};

static int ask_traces(struct asking *asking, enum history_order order)
{
    struct history_traces traces;
    int error = history_traces(asking->reader, &asking->filter, order, 50, &asking->arena, &traces);
    asking->complete = !error && traces.complete;
    asking->n = traces.n;
    if (!error && traces.n && order == HISTORY_SLOWEST) {
        memcpy(asking->trace_id, traces.traces[0].trace_id, 16);
        memcpy(asking->span_id, traces.traces[0].span_id, 8);
    }
    return error;
}

static int slowest(struct asking *asking)
{
    return ask_traces(asking, HISTORY_SLOWEST);
}

static int latest(struct asking *asking)
{
    return ask_traces(asking, HISTORY_LATEST);
}

static int most_cpu(struct asking *asking)
{
    return ask_traces(asking, HISTORY_MOST_CPU);
}

static int slowest_of_service(struct asking *asking)
{
    asking->filter.service = BYTES_LIT("service-3");
    return ask_traces(asking, HISTORY_SLOWEST);
}

/* All is looked at. */
static int slowest_of_nobody(struct asking *asking)
{
    asking->filter.service = BYTES_LIT("nobody");
    return ask_traces(asking, HISTORY_SLOWEST);
}

static int trace(struct asking *asking)
{
    struct history_trace trace;
    memcpy(asking->filter.trace_id, asking->trace_id, 16);
    int error = history_trace(asking->reader, &asking->filter, &asking->arena, &trace);
    asking->complete = !error && trace.complete;
    asking->n = trace.n_spans;
    return error;
}

static int profile(struct asking *asking)
{
    struct history_profile profile;
    int error = history_profile(asking->reader, &asking->filter, &asking->arena, &profile);
    asking->complete = !error && profile.complete;
    asking->n = profile.n;
    return error;
}

static int profile_frames(struct asking *asking)
{
    struct history_profile profile;
    const struct history_frame *const *frames;
    size_t n;
    int error = history_profile(asking->reader, &asking->filter, &asking->arena, &profile);
    asking->complete = !error && profile.complete;
    asking->n = profile.n;
    for (size_t i = profile.n; !error && i--;) {
        error = history_frames(asking->reader, profile.stacks[i].id, &frames, &n);
        if (!error && n && i == 0)
            snprintf(asking->function_text, sizeof(asking->function_text), "%.*s",
                     (int)frames[0]->function.len, (const char *)frames[0]->function.data);
    }
    return error;
}

static int profile_of_service(struct asking *asking)
{
    asking->filter.service = BYTES_LIT("service-3");
    return profile(asking);
}

static int profile_of_function(struct asking *asking)
{
    asking->filter.function = BYTES_STR(asking->function_text);
    return profile(asking);
}

static int profile_of_trace(struct asking *asking)
{
    asking->filter.by_trace = true;
    memcpy(asking->filter.trace_id, asking->trace_id, 16);
    return profile(asking);
}

static int profile_of_span(struct asking *asking)
{
    asking->filter.by_span = true;
    memcpy(asking->filter.span_id, asking->span_id, 8);
    return profile_of_trace(asking);
}

static int profile_of_slow(struct asking *asking)
{
    asking->filter.min_duration_ns = NS_PER_SEC;
    return profile(asking);
}

static int profile_of_attribute(struct asking *asking)
{
    asking->filter.n_attributes = 1;
    asking->filter.attributes[0] =
        (struct history_pair){BYTES_LIT("http.route"), BYTES_LIT("/part-3/{id}")};
    return profile(asking);
}

static int ask_groups(struct asking *asking, enum history_group by, size_t n_buckets)
{
    struct history_groups groups;
    int error =
        history_groups(asking->reader, &asking->filter, by, n_buckets, &asking->arena, &groups);
    asking->complete = !error && groups.complete;
    asking->n = groups.n;
    return error;
}

static int timeline(struct asking *asking)
{
    return ask_groups(asking, HISTORY_BY_SERVICE, 60);
}

static int payers(struct asking *asking)
{
    return ask_groups(asking, HISTORY_BY_SPAN, 0);
}

static int payers_of_function(struct asking *asking)
{
    asking->filter.function = BYTES_STR(asking->function_text);
    return ask_groups(asking, HISTORY_BY_SPAN, 0);
}

static int services(struct asking *asking)
{
    struct bytes *texts;
    asking->complete = true;
    return history_texts(asking->reader, &asking->filter, HISTORY_SERVICES, &asking->arena, &texts,
                         &asking->n);
}

static int scrape(struct asking *asking)
{
    struct buf out _cleanup_buf_ = {0};
    struct history_scrape scrape = {.max_bytes = 8 << 20, .scope_version = "0"};
    int error = history_scrape(asking->reader, &asking->filter, &scrape, &out);
    asking->complete = !error && scrape.more;
    asking->n = scrape.samples;
    return error;
}

static const struct question {
    const char *name;
    int (*ask)(struct asking *asking);
} questions[] = {
    {"traces_slowest", slowest},
    {"traces_latest", latest},
    {"traces_cpu", most_cpu},
    {"traces_of_service", slowest_of_service},
    {"traces_of_nobody", slowest_of_nobody},
    {"trace", trace},
    {"profile", profile},
    {"profile_with_frames", profile_frames},
    {"profile_of_service", profile_of_service},
    {"profile_of_function", profile_of_function},
    {"profile_of_trace", profile_of_trace},
    {"profile_of_span", profile_of_span},
    {"profile_of_slow_traces", profile_of_slow},
    {"profile_of_attribute", profile_of_attribute},
    {"timeline", timeline},
    {"payers", payers},
    {"payers_of_function", payers_of_function},
    {"services", services},
    {"scrape_8_mib", scrape},
};

static uint64_t cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

static void ask(struct asking *asking, const struct question *question, uint64_t range_ns,
                const char *more)
{
    char name[64];
    asking->filter = (struct history_filter){.from_unix_ns = end_unix_ns - range_ns};
    arena_reset(&asking->arena);
    uint64_t began_ns = clock_monotonic_ns(), began_cpu_ns = cpu_ns();
    must(question->ask(asking), question->name);
    snprintf(name, sizeof(name), "%s_cpu", more);
    print(question->name, more, (double)(clock_monotonic_ns() - began_ns) / 1e6, "ms");
    print(question->name, name, (double)(cpu_ns() - began_cpu_ns) / 1e6, "ms");
}

static void bench(const struct question *question, struct asking *asking, uint64_t range_ns,
                  const char *range)
{
    struct db *db;
    char more[64];
    const struct db_settings settings = {.directory = directory};
    must(db_open_reader(&settings, &db), "reader");
    must(history_reader_open(db, &asking->reader), "history_reader_open");
    snprintf(more, sizeof(more), "_%s_first", range);
    ask(asking, question, range_ns, more);
    snprintf(more, sizeof(more), "_%s_again", range);
    ask(asking, question, range_ns, more);
    fprintf(stderr, "  %zu in the answer%s\n", asking->n, asking->complete ? "" : ", not complete");
    history_reader_close(asking->reader);
    db_close(db);
}

/* The slowest trace and the heaviest function, which some questions ask for. */
static void look_around(struct asking *asking)
{
    struct db *db;
    const struct db_settings settings = {.directory = directory};
    must(db_open_reader(&settings, &db), "reader");
    must(history_reader_open(db, &asking->reader), "history_reader_open");
    asking->filter = (struct history_filter){.from_unix_ns = end_unix_ns - 900 * NS_PER_SEC};
    must(slowest(asking), "slowest");
    must(profile_frames(asking), "profile_frames");
    history_reader_close(asking->reader);
    db_close(db);
}

static double rss_mib(const char *what)
{
    char line[128];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, what, strlen(what)))
            kib = strtoul(line + strlen(what) + 1, NULL, 10);
    if (file)
        fclose(file);
    return (double)kib / 1024;
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 3600;
    static struct asking asking;
    directory = bench_directory();
    atexit(bench_directory_remove);
    fill(seconds);
    malloc_trim(0);
    FILE *peak = fopen("/proc/self/clear_refs", "w"); /* begins VmHWM anew */
    if (peak) {
        fputs("5", peak);
        fclose(peak);
    }
    double before = rss_mib("VmRSS:");
    arena_init(&asking.arena, ANSWER_BYTES);
    look_around(&asking);
    for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
        if (argc > 2 && !strstr(questions[i].name, argv[2]))
            continue;
        bench(&questions[i], &asking, 900 * NS_PER_SEC, "15min");
        bench(&questions[i], &asking, 3600 * NS_PER_SEC, "1h");
    }
    arena_close(&asking.arena);
    print("rss", "", rss_mib("VmHWM:") - before, "MiB");
    return 0;
}
