/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/history_load.h"
#include "base/clock.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SERVICES = 12,
    ROUTES = 12,
    PROCESSES = 4, /* of a service */
    THREADS = 8,
    STACKS = 150, /* of a route */
    IDLE_STACKS = 50,
    EXECUTABLES = 30,
    FUNCTIONS = 8000,
    DEPTH_MAX = 60,
};

#define CPU_A_REQUEST_NS 20000000

struct load_route {
    char name[32], attributes_text[32];
    struct buf attributes;
    int64_t stacks[STACKS];
};

struct load_service {
    struct buf resource;
    int64_t processes[PROCESSES];
    int64_t idle_stacks[IDLE_STACKS];
    struct load_route routes[ROUTES];
};

struct request {
    uint8_t trace_id[16];
    uint8_t ids[3][8]; /* root, two children */
    uint64_t start_ns, length_ns;
    unsigned service, route, process, thread;
    uint32_t samples[3];
};

static uint64_t any(struct history_load *load, uint64_t below)
{
    load->random ^= load->random << 13;
    load->random ^= load->random >> 7;
    load->random ^= load->random << 17;
    return load->random % below;
}

/* Small numbers most often, as few functions take most of the time. */
static unsigned mostly_low(struct history_load *load, unsigned below)
{
    uint64_t a = any(load, below), b = any(load, below), c = any(load, below);
    return (unsigned)(a * b / below * c / below);
}

static void make_id(struct history_load *load, uint8_t *id, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t number = any(load, UINT64_MAX);
        memcpy(id + i, &number, 8);
    }
}

/* Stacks */

static int name_functions(struct store *store, const int64_t executables[EXECUTABLES])
{
    char name[64], file[64];
    int error = 0;
    for (unsigned i = 0; i < FUNCTIONS && !error; i++) {
        snprintf(name, sizeof(name), "module%u::handle_part_%u", i % EXECUTABLES, i);
        snprintf(file, sizeof(file), "/src/module%u/part%u.cc", i % EXECUTABLES, i / 40);
        struct frame_name of = {.address = 0x1000 + (uint64_t)(i / EXECUTABLES) * 256,
                                .function = BYTES_STR(name),
                                .file = BYTES_STR(file),
                                .line = i % 900 + 1};
        error = stacks_set_names(store_stacks(store), executables[i % EXECUTABLES], &of, 1);
    }
    return error;
}

/* The outer half is the route's own, and the same for all of its stacks. */
static int make_stack(struct history_load *load, const int64_t executables[EXECUTABLES],
                      unsigned route, int64_t *stack)
{
    struct frame frames[DEPTH_MAX];
    unsigned depth = 12 + (unsigned)any(load, DEPTH_MAX - 12), shared = depth < 20 ? depth / 2 : 10;
    bool is_new;
    for (unsigned i = 0; i < depth; i++) {
        unsigned function = i >= depth - shared ? (route * 31 + (depth - i) * 7) % FUNCTIONS
                                                : mostly_low(load, FUNCTIONS);
        frames[i] = (struct frame){STACK_FRAME_NATIVE, executables[function % EXECUTABLES],
                                   0x1000 + (uint64_t)(function / EXECUTABLES) * 256};
    }
    return stacks_intern(store_stacks(load->store), frames, depth, stack, &is_new);
}

static int make_executables(struct store *store, int64_t executables[EXECUTABLES])
{
    char path[32];
    int error = 0;
    for (unsigned i = 0; i < EXECUTABLES && !error; i++) {
        uint8_t identity[16] = {1, (uint8_t)i};
        snprintf(path, sizeof(path), "/usr/lib/libpart%u.so", i);
        const struct executable_facts facts = {.path = BYTES_STR(path)};
        error = stacks_executable(store_stacks(store), identity, &executables[i]);
        if (!error)
            error = stacks_executable_facts(store_stacks(store), executables[i], &facts);
    }
    return error ? error : name_functions(store, executables);
}

/* Services */

static int make_resource(struct buf *out, unsigned service)
{
    static const char *const more[] = {"service.version",        "deployment.environment.name",
                                       "telemetry.sdk.language", "telemetry.sdk.name",
                                       "telemetry.sdk.version",  "host.name"};
    char text[32];
    snprintf(text, sizeof(text), "service-%u", service);
    int error = otlp_attribute_string(out, 1, "service.name", BYTES_STR(text));
    for (size_t i = 0; i < sizeof(more) / sizeof(*more) && !error; i++)
        error = otlp_attribute_string(out, 1, more[i], BYTES_LIT("something-1.2.3"));
    return error;
}

static int make_processes(struct history_load *load, unsigned service)
{
    struct load_service *of = &load->services[service];
    char name[32], path[48], container[65];
    int error = 0;
    for (unsigned i = 0; i < PROCESSES && !error; i++) {
        snprintf(name, sizeof(name), "service-%u", service);
        snprintf(path, sizeof(path), "/usr/bin/service-%u", service);
        snprintf(container, sizeof(container), "%064x", service * 2 + i % 2 + 1);
        struct process_facts facts = {.start_ns = service * 10 + i,
                                      .pid = 1000 + service * 10 + i,
                                      .own_pid = 1,
                                      .executable_name = BYTES_STR(name),
                                      .executable_path = BYTES_STR(path),
                                      .container_id = BYTES_STR(container)};
        error = processes_put(store_processes(load->store), &facts, &of->processes[i]);
    }
    return error;
}

static int make_route(struct history_load *load, const int64_t executables[EXECUTABLES],
                      unsigned service, unsigned number)
{
    struct load_route *route = &load->services[service].routes[number];
    snprintf(route->name, sizeof(route->name), "GET /part-%u/{id}", number);
    snprintf(route->attributes_text, sizeof(route->attributes_text), "/part-%u/{id}", number);
    int error = otlp_attribute_string(&route->attributes, 9, "http.route",
                                      BYTES_STR(route->attributes_text));
    for (unsigned i = 0; i < STACKS && !error; i++)
        error = make_stack(load, executables, service * ROUTES + number, &route->stacks[i]);
    return error;
}

static int make_services(struct history_load *load)
{
    int64_t executables[EXECUTABLES];
    int error = make_executables(load->store, executables);
    for (unsigned i = 0; i < SERVICES && !error; i++) {
        error = make_resource(&load->services[i].resource, i);
        if (!error)
            error = make_processes(load, i);
        for (unsigned k = 0; k < ROUTES && !error; k++)
            error = make_route(load, executables, i, k);
        for (unsigned k = 0; k < IDLE_STACKS && !error; k++)
            error = make_stack(load, executables, 1000 + i, &load->services[i].idle_stacks[k]);
    }
    return error;
}

int history_load_open(struct store *store, const struct history_load_settings *settings,
                      struct history_load *load)
{
    *load = (struct history_load){
        .settings = *settings, .store = store, .random = settings->seed * 2 + 88172645463325252U};
    load->services = calloc(SERVICES, sizeof(*load->services));
    int error = load->services ? store_begin(store) : -ENOMEM;
    if (error)
        return error;
    error = make_services(load);
    if (error)
        store_fail(store, error);
    int ended = store_end(store);
    return error ? error : ended;
}

void history_load_close(struct history_load *load)
{
    for (unsigned i = 0; load->services && i < SERVICES; i++) {
        buf_close(&load->services[i].resource);
        for (unsigned k = 0; k < ROUTES; k++)
            buf_close(&load->services[i].routes[k].attributes);
    }
    free(load->services);
}

/* Spans and samples */

static struct request make_request(struct history_load *load, uint64_t window_ns)
{
    struct request request = {.service = mostly_low(load, SERVICES),
                              .route = mostly_low(load, ROUTES),
                              .process = (unsigned)any(load, PROCESSES),
                              .thread = (unsigned)any(load, THREADS)};
    make_id(load, request.trace_id, 16);
    for (unsigned i = 0; i < 3; i++)
        make_id(load, request.ids[i], 8);
    request.length_ns =
        1000000 + any(load, 60000000) + (any(load, 100) ? 0 : any(load, 2000000000));
    request.start_ns = window_ns + any(load, HISTORY_LOAD_WINDOW_NS - 2100000000);
    return request;
}

static struct otlp_span span_of(struct history_load *load, const struct request *request,
                                unsigned i)
{
    const struct load_service *service = &load->services[request->service];
    const struct load_route *route = &service->routes[(request->route + i) % ROUTES];
    uint64_t part = request->length_ns / 3;
    return (struct otlp_span){.trace_id = BYTES(request->trace_id, 16),
                              .span_id = BYTES(request->ids[i], 8),
                              .parent_span_id = i ? BYTES(request->ids[0], 8) : BYTES(NULL, 0),
                              .name = BYTES_STR(route->name),
                              .kind = i ? SPAN_INTERNAL : SPAN_SERVER,
                              .start_unix_ns = request->start_ns + (i ? (i - 1) * part : 0),
                              .end_unix_ns = i ? request->start_ns + i * part
                                               : request->start_ns + request->length_ns,
                              .raw = buf_bytes(&route->attributes),
                              .resource = buf_bytes(&service->resource)};
}

static struct join_span_facts facts_of(const struct request *request, const struct otlp_span *span)
{
    struct join_span_facts facts = {.kind = span->kind,
                                    .local_root = !span->parent_span_id.len,
                                    .start_unix_ns = span->start_unix_ns,
                                    .end_unix_ns = span->end_unix_ns,
                                    .name = span->name,
                                    .attributes = span->raw,
                                    .resource = span->resource};
    memcpy(facts.trace_id, span->trace_id.data, 16);
    memcpy(facts.span_id, span->span_id.data, 8);
    if (!facts.local_root)
        memcpy(facts.parent_id, request->ids[0], 8);
    return facts;
}

static int put_span(struct history_load *load, const struct otlp_span *span, uint32_t samples)
{
    struct join_result result = {.samples = samples,
                                 .cpu_ns = samples * (UINT64_C(1000000000) / load->settings.hertz)};
    load->n_spans++;
    return load->dry ? 0 : history_span(store_history(load->store), span, &result);
}

static int put_sample(struct history_load *load, const struct sample *sample,
                      const struct join_span_facts *facts)
{
    load->n_samples++;
    return load->dry ? 0 : history_sample(store_history(load->store), sample, facts);
}

static struct sample sample_of(struct history_load *load, unsigned service, unsigned process,
                               unsigned thread)
{
    uint64_t period_ns = UINT64_C(1000000000) / load->settings.hertz;
    struct sample sample = {.value_ns = period_ns,
                            .period_ns = period_ns,
                            .process = load->services[service].processes[process],
                            .tid = 100 + thread,
                            .kind = SAMPLE_CPU};
    snprintf(sample.comm, sizeof(sample.comm), "worker-%u", thread);
    return sample;
}

static int put_samples_of(struct history_load *load, const struct request *request, unsigned i,
                          const struct otlp_span *span)
{
    const struct load_service *service = &load->services[request->service];
    const struct load_route *route = &service->routes[(request->route + i) % ROUTES];
    struct join_span_facts facts = facts_of(request, span);
    uint64_t length_ns = span->end_unix_ns - span->start_unix_ns;
    int error = 0;
    for (unsigned k = 0; k < request->samples[i] && !error; k++) {
        struct sample sample = sample_of(load, request->service, request->process, request->thread);
        sample.time_unix_ns = span->start_unix_ns + any(load, length_ns + 1);
        sample.stack = route->stacks[mostly_low(load, STACKS)];
        sample.context_source = 1;
        memcpy(sample.trace_id, facts.trace_id, 16);
        memcpy(sample.span_id, facts.span_id, 8);
        memcpy(sample.local_root_id, request->ids[0], 8);
        error = put_sample(load, &sample, &facts);
    }
    return error;
}

static int put_request(struct history_load *load, uint64_t window_ns, unsigned n_samples)
{
    struct request request = make_request(load, window_ns);
    int error = 0;
    for (unsigned i = 0; i < n_samples; i++)
        request.samples[any(load, 10) ? 1 + any(load, 2) : 0]++;
    for (unsigned i = 3; i-- > 0 && !error;) { /* children end first */
        struct otlp_span span = span_of(load, &request, i);
        error = put_span(load, &span, request.samples[i]);
        if (!error)
            error = put_samples_of(load, &request, i, &span);
    }
    return error;
}

static int put_idle(struct history_load *load, uint64_t window_ns)
{
    unsigned service = mostly_low(load, SERVICES);
    struct sample sample =
        sample_of(load, service, (unsigned)any(load, PROCESSES), (unsigned)any(load, THREADS));
    sample.time_unix_ns = window_ns + any(load, HISTORY_LOAD_WINDOW_NS);
    sample.stack = load->services[service].idle_stacks[mostly_low(load, IDLE_STACKS)];
    return put_sample(load, &sample, NULL);
}

/* A stack that no sample has had would be forgotten, and could have none later. */
static int put_each_stack(struct history_load *load, uint64_t window_ns)
{
    int error = 0;
    for (unsigned i = 0; i < SERVICES * ROUTES * STACKS && !error; i++) {
        struct sample sample = sample_of(load, i / (ROUTES * STACKS), 0, i % THREADS);
        sample.time_unix_ns = window_ns;
        sample.stack =
            load->services[i / (ROUTES * STACKS)].routes[i / STACKS % ROUTES].stacks[i % STACKS];
        error = put_sample(load, &sample, NULL);
    }
    for (unsigned i = 0; i < SERVICES * IDLE_STACKS && !error; i++) {
        struct sample sample = sample_of(load, i / IDLE_STACKS, 0, i % THREADS);
        sample.time_unix_ns = window_ns;
        sample.stack = load->services[i / IDLE_STACKS].idle_stacks[i % IDLE_STACKS];
        error = put_sample(load, &sample, NULL);
    }
    return error;
}

static int put_all(struct history_load *load, uint64_t window_ns)
{
    unsigned n = load->settings.cpus * load->settings.hertz * 5, in_spans = n * 6 / 10, put = 0;
    unsigned usual = CPU_A_REQUEST_NS / (1000000000 / load->settings.hertz) * 2;
    int error = load->n_samples ? 0 : put_each_stack(load, window_ns);
    while (put < in_spans && !error) {
        unsigned samples = (unsigned)any(load, usual + 1);
        if (samples > in_spans - put)
            samples = in_spans - put;
        error = put_request(load, window_ns, samples);
        put += samples;
        if (!error)
            error = put_request(load, window_ns, 0);
    }
    for (; put < n && !error; put++)
        error = put_idle(load, window_ns);
    return error;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

int history_load_window(struct history_load *load, uint64_t now_unix_ns)
{
    int error = store_begin(load->store);
    if (error)
        return error;
    uint64_t came_from_ns = cpu_ns();
    error = put_all(load, now_unix_ns - HISTORY_LOAD_WINDOW_NS);
    uint64_t flush_from_ns = cpu_ns(), began_ns = clock_monotonic_ns();
    if (!error)
        error = history_flush(store_history(load->store), now_unix_ns);
    if (error)
        store_fail(load->store, error);
    int ended = store_end(load->store);
    uint64_t took_ns = clock_monotonic_ns() - began_ns;
    load->came_ns += flush_from_ns - came_from_ns;
    load->flush_ns += cpu_ns() - flush_from_ns;
    if (took_ns > load->longest_flush_ns)
        load->longest_flush_ns = took_ns;
    return error ? error : ended;
}
