/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long each route's answer takes, first (nothing is remembered, the file is in the kernel's
 * cache) and again, and its size: 15 minutes and all of an hour of 64 busy CPUs at 97 Hz (seconds:
 * the first argument), made up by test/support/fixtures/history_load.h. The whole of it: question,
 * flame graph, writing. A line a figure: `name value unit`.
 */
#include "base/clock.h"
#include "exporter/pages/flame_write.h"
#include "exporter/pages/pages_route.h"
#include "test/support/rigs/bench_rig.h"
#include "test/support/fixtures/history_load.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define T0 UINT64_C(1795284000000000000)

static const char *directory;
static uint64_t end_unix_ns;

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static void fill(unsigned seconds)
{
    struct history_load load;
    const struct store_settings settings = bench_history_settings(2 * 3600 * NS_PER_SEC);
    struct store *store = bench_store_open(&settings);
    must(history_load_open(store, &(struct history_load_settings){64, 97, 1}, &load), "load");
    end_unix_ns = T0;
    for (unsigned i = 0; i < seconds; i += 5) {
        end_unix_ns += HISTORY_LOAD_WINDOW_NS;
        must(history_load_window(&load, end_unix_ns), "window");
    }
    history_load_close(&load);
    store_close(store);
}

struct question {
    const char *name, *path;
    const char *parameter, *value; /* NULL: none */
    bool of_trace;                 /* of the slowest */
};

static const struct question questions[] = {
    {.name = "traces", .path = "/api/traces"},
    {.name = "traces_of_service", .path = "/api/traces", .parameter = "service", .value = "*"},
    {.name = "trace", .path = "/api/trace", .of_trace = true},
    {.name = "flame_of_trace", .path = "/api/flame", .of_trace = true},
    {.name = "flame", .path = "/api/flame"},
    {.name = "flame_callers", .path = "/api/flame", .parameter = "view", .value = "callers"},
    {.name = "flame_of_service", .path = "/api/flame", .parameter = "service", .value = "*"},
    {.name = "functions", .path = "/api/functions"},
    {.name = "diff", .path = "/api/diff", .parameter = "base_service", .value = "*"},
    {.name = "timeline", .path = "/api/timeline"},
    {.name = "spans", .path = "/api/spans"},
    {.name = "values", .path = "/api/values"},
    {.name = "status", .path = "/api/status"},
    {.name = "flame_svg", .path = "/flame.svg"},
    {.name = "flame_folded", .path = "/flame.folded"},
    {.name = "flame_speedscope", .path = "/flame.speedscope.json"},
    {.name = "flame_pprof", .path = "/flame.pb.gz"},
    {.name = "flame_pprof_of_trace", .path = "/flame.pb.gz", .of_trace = true},
};

static struct bytes a_service(struct pages_facts *facts, struct arena *arena)
{
    const struct history_filter all = {.from_unix_ns = T0, .to_unix_ns = end_unix_ns};
    struct bytes *texts;
    size_t n;
    must(history_texts(facts->history, &all, HISTORY_SERVICES, arena, &texts, &n), "services");
    return n ? texts[0] : BYTES_LIT("none");
}

static const char *text_of_ms(struct arena *arena, uint64_t unix_ns)
{
    char *text = arena_zalloc(arena, 24);
    snprintf(text, 24, "%llu", (unsigned long long)(unix_ns / NS_PER_MS));
    return text;
}

static size_t put_parameters(struct pages_facts *facts, const struct question *question,
                             uint64_t range_ns, struct arena *arena,
                             struct pages_parameter parameters[4])
{
    size_t n = 0;
    struct history_traces traces;
    const struct history_filter all = {.from_unix_ns = T0, .to_unix_ns = end_unix_ns};
    if (strcmp(question->path, "/api/status") == 0)
        return 0;
    if (question->of_trace) {
        must(history_traces(facts->history, &all, HISTORY_SLOWEST, 1, arena, &traces), "traces");
        char *id = arena_zalloc(arena, 33);
        bytes_to_hex(BYTES(traces.traces[0].trace_id, 16), id);
        parameters[n++] = (struct pages_parameter){BYTES_LIT("trace_id"), BYTES_STR(id)};
        return n;
    }
    const char *from = text_of_ms(arena, end_unix_ns - range_ns);
    const char *to = text_of_ms(arena, end_unix_ns);
    parameters[n++] = (struct pages_parameter){BYTES_LIT("from"), BYTES_STR(from)};
    parameters[n++] = (struct pages_parameter){BYTES_LIT("to"), BYTES_STR(to)};
    if (question->parameter)
        parameters[n++] = (struct pages_parameter){BYTES_STR(question->parameter),
                                                   strcmp(question->value, "*") == 0
                                                       ? a_service(facts, arena)
                                                       : BYTES_STR(question->value)};
    return n;
}

/* Milliseconds; *size: of the answer; *cpu_ms: CPU time. */
static double ask(struct pages_facts *facts, const struct question *question,
                  const struct pages_parameter *parameters, size_t n, size_t *size, double *cpu_ms)
{
    struct pages_request request = {.route = pages_route_find(question->path),
                                    .body = BUF_INIT(PAGES_ANSWER_MAX)};
    arena_init(&request.arena, PAGES_REQUEST_BYTES);
    uint64_t begun = clock_monotonic_ns(), begun_cpu = cpu_ns();
    request.now_unix_ns = end_unix_ns;
    must(pages_query_read(parameters, n, request.route->takes, end_unix_ns, &request.arena,
                          &request.query, request.problem),
         request.problem);
    int error = request.route->answer(facts, &request);
    double ms = (double)(clock_monotonic_ns() - begun) / 1e6;
    *cpu_ms = (double)(cpu_ns() - begun_cpu) / 1e6;
    if (error)
        fprintf(stderr, "%s: %s\n", question->name, strerror(-error));
    *size = request.body.len;
    buf_close(&request.body);
    arena_close(&request.arena);
    return ms;
}

static void bench(const struct question *question, const char *range, uint64_t range_ns)
{
    static struct config config;
    static struct config_pages pages;
    const struct db_settings settings = {.directory = directory};
    struct pages_facts facts = {.config = &config, .pages = &pages, .version = "bench"};
    struct pages_parameter parameters[4];
    struct arena arena;
    size_t size;
    double cpu_ms;
    arena_init(&arena, PAGES_REQUEST_BYTES);
    must(db_open_reader(&settings, &facts.db), "db_open_reader");
    must(history_reader_open(facts.db, &facts.history), "history_reader_open");
    size_t n = put_parameters(&facts, question, range_ns, &arena, parameters);
    history_reader_close(facts.history); /* what it remembers now does not count */
    must(history_reader_open(facts.db, &facts.history), "history_reader_open");
    double first = ask(&facts, question, parameters, n, &size, &cpu_ms);
    double again = ask(&facts, question, parameters, n, &size, &cpu_ms);
    printf("pages_%s_%s_first %.1f ms\n", question->name, range, first);
    printf("pages_%s_%s_again %.1f ms\n", question->name, range, again);
    printf("pages_%s_%s_again_cpu %.1f cpu-ms\n", question->name, range, cpu_ms);
    printf("pages_%s_%s_size %.1f KiB\n", question->name, range, (double)size / 1024);
    fflush(stdout);
    history_reader_close(facts.history);
    db_close(facts.db);
    arena_close(&arena);
}

/* What a flame graph of everything takes, in its parts, in CPU time; asked a second time. */
static void bench_parts(void)
{
    const struct db_settings settings = {.directory = directory};
    const struct history_filter all = {.from_unix_ns = T0, .to_unix_ns = end_unix_ns};
    const struct history_frame *const *frames;
    struct pages_facts facts = {.version = "bench"};
    struct history_profile profile;
    struct flame flame;
    struct arena arena;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    struct json_writer json = {.out = &out};
    uint64_t times[6] = {0};
    size_t n;
    arena_init(&arena, PAGES_REQUEST_BYTES);
    must(db_open_reader(&settings, &facts.db), "db_open_reader");
    must(history_reader_open(facts.db, &facts.history), "history_reader_open");
    for (int round = 0; round < 2; round++) {
        times[0] = cpu_ns();
        must(history_profile(facts.history, &all, &arena, &profile), "profile");
        times[1] = cpu_ns();
        for (size_t i = 0; i < profile.n; i++)
            must(history_frames(facts.history, profile.stacks[i].id, &frames, &n), "frames");
        times[2] = cpu_ns();
    }
    must(flame_open(&flame, FLAME_CALLEES, SIZE_MAX / 4), "flame");
    for (size_t i = 0; i < profile.n; i++) {
        must(history_frames(facts.history, profile.stacks[i].id, &frames, &n), "frames");
        must(flame_add(&flame, frames, n,
                       (struct flame_weight){profile.stacks[i].cpu_ns, profile.stacks[i].samples},
                       false),
             "flame_add");
    }
    times[3] = cpu_ns();
    must(flame_finish(&flame, 20000), "flame_finish");
    times[4] = cpu_ns();
    json_begin_object(&json, NULL);
    must(flame_write_json(&flame, false, &json), "json");
    times[5] = cpu_ns();
    printf("pages_flame_stacks %zu stacks\npages_flame_nodes %zu nodes\n", profile.n,
           flame.n_nodes);
    const char *const names[] = {"question", "frames", "frames_and_adding", "finishing", "writing"};
    for (int i = 0; i < 5; i++)
        printf("pages_flame_part_%s %.1f cpu-ms\n", names[i],
               (double)(times[i + 1] - times[i]) / 1e6);
    flame_close(&flame);
    history_reader_close(facts.history);
    db_close(facts.db);
    arena_close(&arena);
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 3600;
    directory = bench_directory();
    fill(seconds);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        if (argc > 2 && !strstr(questions[i].name, argv[2]))
            continue;
        bench(&questions[i], "15m", 900 * NS_PER_SEC);
        bench(&questions[i], "1h", 3600 * NS_PER_SEC);
    }
    bench_parts();
    bench_directory_remove();
    return 0;
}
