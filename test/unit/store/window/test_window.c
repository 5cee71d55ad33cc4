/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves as profiles: conforming, below the limit, and true to samples and spans. */
#include "base/stats.h"
#include "profiles_service.pb-c.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/fixtures/otlp_profiles_check.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef Opentelemetry__Proto__Profiles__V1development__ResourceProfiles ResourceProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__Profile Profile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;
typedef Opentelemetry__Proto__Profiles__V1development__Location Location;
typedef Opentelemetry__Proto__Profiles__V1development__Mapping Mapping;
typedef Opentelemetry__Proto__Common__V1__AnyValue Value;

#define T0     FIXTURE_T0
#define SECOND FIXTURE_SECOND

static const struct window_settings settings = {
    .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "1.2.3"};

static size_t close_window(struct fixture *fixture, const struct window_settings *how, uint64_t now)
{
    size_t n;
    fixture_begin(fixture);
    assert_int_equal(store_window(fixture->store, how, now, &n), 0);
    fixture_commit(fixture);
    return n;
}

enum { REQUESTS_MAX = 300 };

struct requests {
    size_t n, largest;
    uint64_t n_samples;
    Request *all[REQUESTS_MAX];
};

static void read_requests(struct fixture *fixture, struct requests *requests)
{
    struct db *db;
    struct outbox_reader *reader;
    struct outbox_item item = {0};
    char why[256];
    *requests = (struct requests){0};
    assert_int_equal(db_open_reader(&fixture->settings.db, &db), 0);
    assert_int_equal(outbox_reader_open(db, &reader), 0);
    while (!outbox_next_signal(reader, "first", SIGNAL_PROFILES, item.seq, &item)) {
        int outcome = otlp_profiles_check(buf_bytes(&item.body), 64 << 20, why, sizeof(why));
        if (outcome != PROFILES_CONFORM)
            print_message("%s\n", why);
        assert_int_equal(outcome, PROFILES_CONFORM);
        assert_true(requests->n < REQUESTS_MAX);
        requests->all[requests->n++] = (Request *)protobuf_c_message_unpack(
            &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
            NULL, item.body.len, item.body.data);
        requests->n_samples += item.items;
        if (item.body.len > requests->largest)
            requests->largest = item.body.len;
        buf_close(&item.body);
    }
    outbox_reader_close(reader);
    db_close(db);
}

static void free_requests(struct requests *requests)
{
    for (size_t i = 0; i < requests->n; i++)
        protobuf_c_message_free_unpacked(&requests->all[i]->base, NULL);
}

static const Value *resource_value(const ResourceProfiles *profiles, const char *key)
{
    for (size_t i = 0; i < profiles->resource->n_attributes; i++)
        if (!strcmp(profiles->resource->attributes[i]->key, key))
            return profiles->resource->attributes[i]->value;
    return NULL;
}

static const Value *value_of(const Request *request, const int32_t *indices, size_t n,
                             const char *key)
{
    for (size_t i = 0; i < n; i++) {
        const Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit *attribute =
            request->dictionary->attribute_table[indices[i]];
        if (!strcmp(request->dictionary->string_table[attribute->key_strindex], key))
            return attribute->value;
    }
    return NULL;
}

static const Value *sample_value(const Request *request, const Sample *sample, const char *key)
{
    return value_of(request, sample->attribute_indices, sample->n_attribute_indices, key);
}

static void assert_text(const Value *value, const char *text)
{
    assert_non_null(value);
    assert_string_equal(value->string_value, text);
}

static const ResourceProfiles *profiles_of(const Request *request, const char *service)
{
    for (size_t i = 0; i < request->n_resource_profiles; i++) {
        const Value *name = resource_value(request->resource_profiles[i], "service.name");
        if (name && !strcmp(name->string_value, service))
            return request->resource_profiles[i];
    }
    fail_msg("no profiles of %s", service);
    return NULL;
}

static const Sample *only_sample(const ResourceProfiles *profiles)
{
    assert_int_equal(profiles->n_scope_profiles, 1);
    assert_int_equal(profiles->scope_profiles[0]->n_profiles, 1);
    assert_string_equal(profiles->scope_profiles[0]->scope->version, "1.2.3");
    assert_int_equal(profiles->scope_profiles[0]->profiles[0]->n_samples, 1);
    return profiles->scope_profiles[0]->profiles[0]->samples[0];
}

static const Location *location(const Request *request, const Sample *sample, size_t i)
{
    const Opentelemetry__Proto__Profiles__V1development__Stack *stack =
        request->dictionary->stack_table[sample->stack_index];
    assert_true(i < stack->n_location_indices);
    return request->dictionary->location_table[stack->location_indices[i]];
}

static int64_t rich_stack(struct fixture *fixture)
{
    static const uint8_t identity[16] = {5};
    struct executable_facts facts = {
        .path = BYTES_LIT("/usr/bin/shop"),
        .build_id = BYTES_LIT("\xde\xad"),
        .n_segments = 1,
        .segments = {{0x1000, 0x1000, 0x401000}},
    };
    struct frame_name names[] = {
        {.address = 0x1010, .function = BYTES_LIT("inlined"), .line = 7},
        {.address = 0x1010,
         .function = BYTES_LIT("hot"),
         .file = BYTES_LIT("shop.c"),
         .line = 42,
         .system_name = BYTES_LIT("_Z3hotv")},
    };
    int64_t executable, stack;
    bool is_new;
    struct stacks *stacks = store_stacks(fixture->store);
    fixture_begin(fixture);
    assert_int_equal(stacks_executable(stacks, identity, &executable), 0);
    assert_int_equal(stacks_executable_facts(stacks, executable, &facts), 0);
    assert_int_equal(stacks_set_names(stacks, executable, names, 2), 0);
    const struct frame frames[] = {{STACK_FRAME_KERNEL, 0, 0xffffffff81000010},
                                   {STACK_FRAME_NATIVE, executable, 0x1010}};
    assert_int_equal(stacks_intern(stacks, frames, 2, &stack, &is_new), 0);
    fixture_commit(fixture);
    return stack;
}

static void check_frames(const Request *request, const Sample *sample)
{
    const Location *kernel = location(request, sample, 0), *native = location(request, sample, 1);
    assert_true(kernel->address == 0x10); /* where the kernel lies is not told */
    assert_int_equal(kernel->mapping_index, 0);
    assert_text(value_of(request, kernel->attribute_indices, kernel->n_attribute_indices,
                         "profile.frame.type"),
                "kernel");
    assert_int_equal(native->address, 0x401010);
    const Mapping *mapping = request->dictionary->mapping_table[native->mapping_index];
    assert_int_equal(mapping->memory_start, 0x401000);
    assert_int_equal(mapping->memory_limit, 0x402000);
    assert_int_equal(mapping->file_offset, 0x1000);
    assert_string_equal(request->dictionary->string_table[mapping->filename_strindex],
                        "/usr/bin/shop");
    assert_text(value_of(request, mapping->attribute_indices, mapping->n_attribute_indices,
                         "process.executable.build_id.gnu"),
                "dead");
    assert_int_equal(native->n_lines, 2);
    assert_int_equal(native->lines[0]->line, 7);
    assert_int_equal(native->lines[1]->line, 42);
    const Opentelemetry__Proto__Profiles__V1development__Function *function =
        request->dictionary->function_table[native->lines[0]->function_index];
    assert_string_equal(request->dictionary->string_table[function->name_strindex], "inlined");
    function = request->dictionary->function_table[native->lines[1]->function_index];
    assert_string_equal(request->dictionary->string_table[function->name_strindex], "hot");
    assert_string_equal(request->dictionary->string_table[function->system_name_strindex],
                        "_Z3hotv");
    assert_string_equal(request->dictionary->string_table[function->filename_strindex], "shop.c");
}

/* A joined sample has all of its span, of its process and of its context. */
static void test_joined(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct join_result result;
    struct requests requests;
    struct buf attributes = {0};
    uint8_t id[16];
    char hex[33];
    int64_t stack = rich_stack(fixture), process = fixture_process(fixture, 10, BYTES(NULL, 0));
    struct sample sample =
        fixture_sample(T0 + SECOND, (struct fixture_ids){1, 2, 3}, stack, process);
    otlp_attribute_string(&attributes, 9, "tenant", BYTES_LIT("blue"));
    otlp_attribute_string(&attributes, 9, "thread.name", BYTES_LIT("a lie"));
    sample.attributes = buf_bytes(&attributes);
    fixture_add(fixture, &sample);
    buf_close(&attributes);
    fixture_span(&span, 1, 2, 0, 5, 1000010);
    fixture_join(fixture, &span, &result);
    assert_int_equal(close_window(fixture, &settings, T0 + 6 * SECOND), 1);
    read_requests(fixture, &requests);
    assert_int_equal(requests.n, 1);
    assert_int_equal(requests.n_samples, 1);
    const Request *request = requests.all[0];
    const ResourceProfiles *profiles = profiles_of(request, "shop");
    assert_int_equal(resource_value(profiles, "process.pid")->int_value, 1000010); /* the span's */
    assert_text(resource_value(profiles, "process.executable.name"), "shop");
    assert_text(resource_value(profiles, "process.executable.path"), "/usr/bin/shop");
    assert_text(resource_value(profiles, "k8s.pod.uid"), "0b9c1f2e-3d4a-4b5c-8d6e-7f8091a2b3c4");
    const Sample *out = only_sample(profiles);
    assert_text(sample_value(request, out, "thread.name"), "worker");
    assert_int_equal(sample_value(request, out, "thread.id")->int_value, 77);
    assert_int_equal(sample_value(request, out, "cpu.logical_number")->int_value, 1);
    assert_text(sample_value(request, out, "span.name"), "GET /cart");
    assert_text(sample_value(request, out, "span.kind"), "server");
    assert_text(sample_value(request, out, "http.route"), "/cart");
    assert_null(sample_value(request, out, "other"));
    assert_text(sample_value(request, out, "tenant"), "blue");
    assert_text(sample_value(request, out, "spanprof.context.source"), "otel_thread");
    assert_text(sample_value(request, out, "spanprof.local_root.span_id"), "ab00000000000003");
    fixture_begin(fixture);
    stacks_public_id(store_stacks(fixture->store), stack, id);
    fixture_commit(fixture);
    bytes_to_hex(BYTES(id, 16), hex);
    assert_text(sample_value(request, out, "spanprof.stack.id"), hex);
    assert_memory_equal(result.stack_ids[0], id, 16); /* span and sample say the same */
    const Opentelemetry__Proto__Profiles__V1development__Link *link =
        request->dictionary->link_table[out->link_index];
    assert_memory_equal(link->trace_id.data, span.trace_id, 16);
    assert_memory_equal(link->span_id.data, span.span_id, 8);
    assert_int_equal(out->n_timestamps_unix_nano, 1);
    assert_true(out->timestamps_unix_nano[0] == T0 + SECOND);
    check_frames(request, out);
    free_requests(&requests);
    fixture_span_close(&span);
}

/* Without a span: the Resource that the process has published, or what is known of it. */
static void test_unjoined(void **state)
{
    struct fixture *fixture = *state;
    struct requests requests;
    struct buf published = {0};
    otlp_attribute_string(&published, 1, "service.name", BYTES_LIT("bank"));
    otlp_attribute_int(&published, 1, "process.pid", 1);
    int64_t stack = fixture_stack(fixture, 1);
    int64_t silent = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t spoken = fixture_process(fixture, 20, buf_bytes(&published));
    int64_t garbage = fixture_process(fixture, 30, BYTES_LIT("\xff\xff\xff garbage"));
    struct sample samples[] = {
        fixture_sample(T0 - 70 * SECOND, (struct fixture_ids){1, 2, 0}, stack, silent),
        fixture_sample(T0, (struct fixture_ids){0, 0, 0}, stack, spoken),
        fixture_sample(T0, (struct fixture_ids){0, 0, 0}, stack, 0),
        fixture_sample(T0 - 70 * SECOND, (struct fixture_ids){9, 0, 0}, 4711, garbage),
    };
    samples[3].attributes = BYTES_LIT("\x4a\x7f");
    for (int i = 0; i < 4; i++)
        fixture_add(fixture, &samples[i]);
    buf_close(&published);
    assert_int_equal(close_window(fixture, &settings, T0 + SECOND), 4);
    read_requests(fixture, &requests);
    assert_int_equal(requests.n, 1);
    const Request *request = requests.all[0];
    assert_int_equal(request->n_resource_profiles, 4);
    const ResourceProfiles *profiles = profiles_of(request, "bank");
    assert_int_equal(resource_value(profiles, "process.pid")->int_value, 1);
    assert_int_equal(only_sample(profiles)->link_index, 0);
    assert_null(sample_value(request, only_sample(profiles), "spanprof.context.source"));
    assert_null(sample_value(request, only_sample(profiles), "spanprof.stack.id"));
    const Sample *alone = only_sample(profiles_of(request, "unknown_service"));
    assert_int_equal(alone->link_index, 0);
    const ResourceProfiles *named = NULL, *damaged = NULL;
    for (size_t i = 0; i < 4; i++) { /* two of the same name, told apart by pid */
        const Value *pid = resource_value(request->resource_profiles[i], "process.pid");
        named = pid && pid->int_value == 10 ? request->resource_profiles[i] : named;
        damaged = pid && pid->int_value == 30 ? request->resource_profiles[i] : damaged;
    }
    assert_text(resource_value(named, "service.name"), "unknown_service:shop");
    assert_text(resource_value(named, "spanprof.service.name.source"), "executable");
    assert_null(resource_value(profiles, "spanprof.service.name.source")); /* it said so itself */
    assert_text(resource_value(damaged, "service.name"), "unknown_service:shop");
    assert_int_not_equal(only_sample(named)->link_index, 0); /* its Link alone */
    assert_null(sample_value(request, only_sample(named), "span.name"));
    const Sample *half = only_sample(damaged); /* a trace alone makes no Link, its stack is gone */
    assert_int_equal(half->link_index, 0);
    assert_text(sample_value(request, half, "spanprof.trace_id"),
                "ab000000000000000000000000000009");
    assert_int_equal(request->dictionary->stack_table[half->stack_index]->n_location_indices, 0);
    free_requests(&requests);
}

/* The only Resource of a sample of a process that published this, in span 2 of service "shop". */
static void merge(struct fixture *fixture, struct buf *published, struct requests *requests)
{
    struct fixture_span span;
    struct join_result result;
    int64_t process = fixture_process(fixture, 10, buf_bytes(published));
    struct sample sample = fixture_sample(T0 + SECOND, (struct fixture_ids){1, 2, 0},
                                          fixture_stack(fixture, 1), process);
    buf_close(published);
    fixture_add(fixture, &sample);
    fixture_span(&span, 1, 2, 0, 5, 1000010);
    span.sender = (struct peer){.cgroup_id = FIXTURE_CGROUP};
    otlp_attribute_string(&span.resource, 1, "host.name", BYTES_LIT("of the span"));
    assert_int_equal(fixture_join(fixture, &span, &result), JOIN_MATCHED);
    assert_int_equal(close_window(fixture, &settings, T0 + 6 * SECOND), 1);
    read_requests(fixture, requests);
    assert_int_equal(requests->n, 1);
    fixture_span_close(&span);
}

/* The span's word counts, then the process's, then what is known here; each key once. */
static void test_merged_resource(void **state)
{
    struct requests requests;
    struct buf published = {0};
    otlp_attribute_string(&published, 1, "service.name", BYTES_LIT("shop"));
    otlp_attribute_string(&published, 1, "service.version", BYTES_LIT("7"));
    otlp_attribute_string(&published, 1, "spanprof.service.name.source", BYTES_LIT("environment"));
    otlp_attribute_string(&published, 1, "host.name", BYTES_LIT("of the process"));
    otlp_attribute_int(&published, 1, "process.pid", 1);
    otlp_attribute_string(&published, 1, "process.executable.name", BYTES_LIT("till"));
    merge(*state, &published, &requests);
    const ResourceProfiles *profiles = profiles_of(requests.all[0], "shop");
    assert_text(resource_value(profiles, "service.version"), "7");
    assert_text(resource_value(profiles, "host.name"), "of the span");
    assert_int_equal(resource_value(profiles, "process.pid")->int_value, 1000010);
    assert_text(resource_value(profiles, "process.executable.name"), "till");
    assert_text(resource_value(profiles, "process.executable.path"), "/usr/bin/shop");
    assert_null(resource_value(profiles, "spanprof.service.name.source")); /* it is the span's */
    for (size_t i = 0; i < profiles->resource->n_attributes; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(profiles->resource->attributes[i]->key,
                                    profiles->resource->attributes[j]->key);
    free_requests(&requests);
}

static void test_merged_other_service(void **state)
{
    struct requests requests;
    struct buf published = {0};
    otlp_attribute_string(&published, 1, "service.name", BYTES_LIT("bank"));
    otlp_attribute_string(&published, 1, "service.version", BYTES_LIT("7"));
    otlp_attribute_string(&published, 1, "deployment.environment.name", BYTES_LIT("test"));
    merge(*state, &published, &requests);
    const ResourceProfiles *profiles = profiles_of(requests.all[0], "shop");
    assert_null(resource_value(profiles, "service.version"));
    assert_text(resource_value(profiles, "deployment.environment.name"), "test");
    free_requests(&requests);
}

static void test_merged_garbage(void **state)
{
    struct requests requests;
    struct buf published = {0};
    buf_append(&published, "\x0a\x04\x0a\x01x\xff", 6); /* the value is no message */
    merge(*state, &published, &requests);
    const ResourceProfiles *profiles = profiles_of(requests.all[0], "shop");
    assert_text(resource_value(profiles, "host.name"), "of the span");
    assert_null(resource_value(profiles, "x"));
    free_requests(&requests);
}

static const Sample *by_cpu(const Request *request, int64_t cpu)
{
    const Profile *profile = request->resource_profiles[0]->scope_profiles[0]->profiles[0];
    for (size_t i = 0; i < profile->n_samples; i++)
        if (sample_value(request, profile->samples[i], "cpu.logical_number")->int_value == cpu)
            return profile->samples[i];
    fail_msg("no sample of CPU %d", (int)cpu);
    return NULL;
}

/* A publisher may know the trace, the span, or its local root only. */
static void test_sources(void **state)
{
    static const char *const names[] = {
        NULL, "otel_thread", "elastic", "go_labels", "custom_labels", "obi", "otel_nodejs"};
    static const struct fixture_ids ids[] = {{0, 0, 0}, {1, 2, 3}, {1, 0, 3}, {0, 2, 3},
                                             {1, 0, 0}, {1, 2, 0}, {1, 2, 0}};
    struct fixture *fixture = *state;
    struct requests requests;
    uint8_t link_span[8];
    for (uint8_t i = 0; i < 7; i++) {
        struct sample sample =
            fixture_sample(T0 - 70 * SECOND, ids[i], fixture_stack(fixture, 1), 0);
        sample.context_source = i;
        sample.cpu = i;
        fixture_add(fixture, &sample);
    }
    assert_int_equal(close_window(fixture, &settings, T0), 7);
    read_requests(fixture, &requests);
    const Request *request = requests.all[0];
    for (uint8_t i = 0; i < 7; i++) {
        const Sample *sample = by_cpu(request, i);
        const Value *source = sample_value(request, sample, "spanprof.context.source");
        const Value *root = sample_value(request, sample, "spanprof.local_root.span_id");
        assert_int_equal(source != NULL, names[i] != NULL);
        if (source)
            assert_text(source, names[i]);
        assert_int_equal(root != NULL, ids[i].root != 0);
        bool linked = ids[i].trace && (ids[i].span || ids[i].root);
        assert_int_equal(sample->link_index != 0, linked);
        if (!linked)
            continue;
        fixture_span_id(ids[i].span ? ids[i].span : ids[i].root, link_span);
        assert_memory_equal(request->dictionary->link_table[sample->link_index]->span_id.data,
                            link_span, 8);
    }
    assert_text(sample_value(request, by_cpu(request, 3), "spanprof.span_id"), "ab00000000000002");
    assert_text(sample_value(request, by_cpu(request, 4), "spanprof.trace_id"),
                "ab000000000000000000000000000001");
    free_requests(&requests);
}

/* Many samples: several requests, each below the limit, nothing lost or sent twice. */
static void test_several_requests(void **state)
{
    struct fixture *fixture = *state;
    struct requests requests;
    struct window_settings small = settings;
    struct join *join = store_join(fixture->store);
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    small.max_request_bytes = 16384;
    fixture_begin(fixture);
    join_batch_begin(join);
    for (unsigned i = 0; i < 3000; i++) {
        struct sample sample = fixture_sample(T0 + i, (struct fixture_ids){0, 0, 0}, 0, process);
        sample.stack = fixture_stack(fixture, i);
        sample.tid = i;
        assert_int_equal(join_add_sample(join, &sample), 0);
    }
    assert_int_equal(join_batch_commit(join), 0);
    fixture_commit(fixture);
    assert_int_equal(close_window(fixture, &small, T0 + SECOND), 3000);
    read_requests(fixture, &requests);
    assert_true(requests.n > 5);
    assert_true(requests.largest <= small.max_request_bytes);
    assert_int_equal(requests.n_samples, 3000);
    bool seen[3000] = {0};
    for (size_t i = 0; i < requests.n; i++) {
        const Profile *profile =
            requests.all[i]->resource_profiles[0]->scope_profiles[0]->profiles[0];
        for (size_t j = 0; j < profile->n_samples; j++) {
            const Value *tid = sample_value(requests.all[i], profile->samples[j], "thread.id");
            assert_false(seen[tid->int_value]);
            seen[tid->int_value] = true;
        }
    }
    for (size_t i = 0; i < 3000; i++)
        assert_true(seen[i]);
    free_requests(&requests);
}

/* A sample that fits no request is counted, and the others go. */
static void test_too_big(void **state)
{
    struct fixture *fixture = *state;
    struct requests requests;
    struct window_settings small = settings;
    struct buf attributes = {0};
    static const char text[900];
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t before = stats_find("spanprof_window_samples_too_big_total", "");
    small.max_request_bytes = 1400;
    struct sample sample = fixture_sample(T0, (struct fixture_ids){0, 0, 0}, 4711, process);
    fixture_add(fixture, &sample);
    otlp_attribute_string(&attributes, 9, "big", BYTES(text, sizeof(text)));
    sample.attributes = buf_bytes(&attributes);
    fixture_add(fixture, &sample);
    sample.attributes = BYTES(NULL, 0);
    fixture_add(fixture, &sample);
    close_window(fixture, &small, T0 + SECOND);
    assert_int_equal(stats_find("spanprof_window_samples_too_big_total", "") - before, 1);
    read_requests(fixture, &requests);
    assert_int_equal(requests.n_samples, 2);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 0);
    free_requests(&requests);
    buf_close(&attributes);
}

static void test_empty(void **state)
{
    struct fixture *fixture = *state;
    struct requests requests;
    assert_int_equal(close_window(fixture, &settings, T0), 0);
    read_requests(fixture, &requests);
    assert_int_equal(requests.n, 0);
}

static void test_off_cpu(void **state)
{
    struct fixture *fixture = *state;
    struct requests requests;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    struct sample sample =
        fixture_sample(T0, (struct fixture_ids){0, 0, 0}, fixture_stack(fixture, 1), process);
    fixture_add(fixture, &sample);
    sample.kind = SAMPLE_OFF_CPU;
    sample.value_ns = 5 * SECOND;
    fixture_add(fixture, &sample);
    assert_int_equal(close_window(fixture, &settings, T0), 2);
    read_requests(fixture, &requests);
    assert_int_equal(requests.all[0]->resource_profiles[0]->scope_profiles[0]->n_profiles, 2);
    free_requests(&requests);
}

/* Ten batches of ten samples, at most 25 a transaction: 30, 30, 30, 10. Each slice is a request,
 * and every sample is in one. */
static void test_slices(void **state)
{
    struct fixture *fixture = *state;
    struct window_settings how = settings;
    struct requests requests;
    int64_t stack, process;
    how.max_samples = 25;
    fixture_begin(fixture);
    stack = fixture_stack(fixture, 1);
    process = fixture_process(fixture, 1, BYTES(NULL, 0));
    for (unsigned i = 0; i < 10; i++) {
        struct join *join = store_join(fixture->store);
        assert_int_equal(join_batch_begin(join), 0);
        for (unsigned k = 0; k < 10; k++) {
            struct sample sample = fixture_sample(T0 + (10 * i + k) * FIXTURE_TICK,
                                                  (struct fixture_ids){0, 0, 0}, stack, process);
            assert_int_equal(join_add_sample(join, &sample), 0);
        }
        assert_int_equal(join_batch_commit(join), 0);
    }
    fixture_commit(fixture);
    static const size_t slices[] = {30, 30, 30, 10};
    for (size_t i = 0; i < 4; i++) {
        size_t n;
        fixture_begin(fixture);
        assert_int_equal(store_window(fixture->store, &how, T0 + 5 * SECOND, &n),
                         i < 3 ? WINDOW_MORE : 0);
        fixture_commit(fixture);
        assert_int_equal(n, slices[i]);
    }
    read_requests(fixture, &requests);
    assert_int_equal(requests.n, 4);
    assert_int_equal(requests.n_samples, 100);
    free_requests(&requests);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_joined),           TEST(test_unjoined),
        TEST(test_merged_resource),  TEST(test_merged_other_service),
        TEST(test_merged_garbage),   TEST(test_sources),
        TEST(test_several_requests), TEST(test_slices),
        TEST(test_too_big),          TEST(test_empty),
        TEST(test_off_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
