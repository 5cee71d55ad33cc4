/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/store_fixture.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const destinations[] = {"first", "second"};
static const char *const span_attributes[] = {"http.route", "rpc.method", NULL};

void fixture_make(struct fixture *fixture)
{
    *fixture = (struct fixture){.directory = "/tmp/spanprof-store-XXXXXX"};
    assert_non_null(mkdtemp(fixture->directory));
    fixture->settings = (struct store_settings){
        .db = {.directory = fixture->directory},
        .join = {.wait_ns = 60 * FIXTURE_SECOND,
                 .tally_ttl_ns = 3600 * FIXTURE_SECOND,
                 .max_pending_bytes = 16 << 20,
                 .max_tally_bytes = 4 << 20,
                 .max_recent_spans = 1000,
                 .top_stacks = 4,
                 .span_attributes = span_attributes},
        .history = {.enabled = true,
                    .retention_ns = 3600 * FIXTURE_SECOND,
                    .max_size_bytes = 64 << 20,
                    .max_spans_per_second = 1000,
                    .span_attributes = span_attributes},
        .destinations = destinations,
        .n_destinations = 2,
    };
}

void fixture_limit(struct fixture *fixture, uint64_t max_size_bytes)
{
    fixture->settings.db.max_size_bytes = max_size_bytes;
    if (max_size_bytes)
        fixture->settings.history.max_size_bytes = 0;
}

void fixture_open(struct fixture *fixture)
{
    assert_int_equal(store_open(&fixture->settings, &fixture->store), 0);
}

void fixture_close(struct fixture *fixture)
{
    store_close(fixture->store);
    fixture->store = NULL;
}

void fixture_reopen(struct fixture *fixture)
{
    fixture_close(fixture);
    fixture_open(fixture);
}

const char *fixture_path(const struct fixture *fixture, const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", fixture->directory, name);
    return path;
}

void fixture_remove(struct fixture *fixture)
{
    fixture_close(fixture);
    struct dirent **entries;
    int n = scandir(fixture->directory, &entries, NULL, NULL);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.')
            unlink(fixture_path(fixture, entries[i]->d_name));
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    rmdir(fixture->directory);
}

void fixture_begin(struct fixture *fixture)
{
    assert_int_equal(store_begin(fixture->store), 0);
}

void fixture_commit(struct fixture *fixture)
{
    assert_int_equal(store_end(fixture->store), 0);
}

int64_t fixture_process(struct fixture *fixture, uint32_t pid, struct bytes resource)
{
    int64_t id;
    struct process_facts facts = {
        .start_ns = pid * UINT64_C(1000),
        .pid = pid,
        .own_pid = pid + 1000000,
        .executable_name = BYTES_LIT("shop"),
        .executable_path = BYTES_LIT("/usr/bin/shop"),
        .pod_uid = BYTES_LIT("0b9c1f2e-3d4a-4b5c-8d6e-7f8091a2b3c4"),
        .resource = resource,
    };
    bool own = !db_in_transaction(store_db(fixture->store));
    if (own)
        fixture_begin(fixture);
    assert_int_equal(processes_put(store_processes(fixture->store), &facts, &id), 0);
    if (own)
        fixture_commit(fixture);
    return id;
}

int64_t fixture_stack(struct fixture *fixture, unsigned n)
{
    struct frame frames[3];
    uint8_t identity[16] = {1, 2, 3};
    int64_t executable, id;
    bool is_new, own = !db_in_transaction(store_db(fixture->store));
    if (own)
        fixture_begin(fixture);
    assert_int_equal(stacks_executable(store_stacks(fixture->store), identity, &executable), 0);
    for (unsigned i = 0; i < 3; i++)
        frames[i] = (struct frame){STACK_FRAME_NATIVE, executable, 0x1000 * (i + 1) + n * 16};
    assert_int_equal(stacks_intern(store_stacks(fixture->store), frames, 3, &id, &is_new), 0);
    if (own)
        fixture_commit(fixture);
    return id;
}

static void number(unsigned n, uint8_t *out, size_t size)
{
    memset(out, 0, size);
    for (size_t i = 0; i < 4; i++)
        out[size - 1 - i] = (uint8_t)(n >> 8 * i);
    if (n)
        out[0] = 0xab;
}

void fixture_trace_id(unsigned n, uint8_t out[16])
{
    number(n, out, 16);
}

void fixture_span_id(unsigned n, uint8_t out[8])
{
    number(n, out, 8);
}

struct sample fixture_sample(uint64_t time_unix_ns, struct fixture_ids ids, int64_t stack,
                             int64_t process)
{
    struct sample sample = {
        .time_unix_ns = time_unix_ns,
        .value_ns = FIXTURE_TICK,
        .period_ns = FIXTURE_TICK,
        .stack = stack,
        .process = process,
        .cpu = 1,
        .tid = 77,
        .kind = SAMPLE_CPU,
        .context_source = ids.trace || ids.span || ids.root,
        .comm = "worker",
    };
    fixture_trace_id(ids.trace, sample.trace_id);
    fixture_span_id(ids.span, sample.span_id);
    fixture_span_id(ids.root, sample.local_root_id);
    return sample;
}

void fixture_add(struct fixture *fixture, const struct sample *sample)
{
    struct join *join = store_join(fixture->store);
    fixture_begin(fixture);
    assert_int_equal(join_batch_begin(join), 0);
    assert_int_equal(join_add_sample(join, sample), 0);
    assert_int_equal(join_batch_commit(join), 0);
    fixture_commit(fixture);
}

void fixture_span(struct fixture_span *span, unsigned trace, unsigned id, unsigned start,
                  unsigned end, int64_t pid)
{
    *span = (struct fixture_span){0};
    fixture_trace_id(trace, span->trace_id);
    fixture_span_id(id, span->span_id);
    otlp_attribute_string(&span->resource, 1, "service.name", BYTES_LIT("shop"));
    if (pid)
        otlp_attribute_int(&span->resource, 1, "process.pid", pid);
    otlp_attribute_string(&span->raw, 9, "http.route", BYTES_LIT("/cart"));
    otlp_attribute_string(&span->raw, 9, "other", BYTES_LIT("not chosen"));
    span->span = (struct otlp_span){
        .trace_id = BYTES(span->trace_id, 16),
        .span_id = BYTES(span->span_id, 8),
        .name = BYTES_LIT("GET /cart"),
        .kind = SPAN_SERVER,
        .start_unix_ns = FIXTURE_T0 + start * FIXTURE_SECOND,
        .end_unix_ns = FIXTURE_T0 + end * FIXTURE_SECOND,
        .raw = buf_bytes(&span->raw),
        .resource = buf_bytes(&span->resource),
    };
}

void fixture_span_parent(struct fixture_span *span, unsigned parent)
{
    fixture_span_id(parent, span->parent_id);
    span->span.parent_span_id = BYTES(span->parent_id, 8);
    span->span.kind = SPAN_INTERNAL;
}

void fixture_span_close(struct fixture_span *span)
{
    buf_close(&span->resource);
    buf_close(&span->raw);
}

int fixture_join(struct fixture *fixture, struct fixture_span *span, struct join_result *result)
{
    *result = (struct join_result){0};
    span->span.resource = buf_bytes(&span->resource); /* a test may have added to it */
    fixture_begin(fixture);
    int outcome = join_span(store_join(fixture->store), &span->span, result);
    assert_true(outcome >= 0);
    fixture_commit(fixture);
    return outcome;
}

static int take(void *context, const struct sample *sample, const struct join_span_facts *span)
{
    struct fixture_left *left = context;
    assert_true(left->n < FIXTURE_LEFT_MAX);
    struct fixture_leaving *leaving = &left->samples[left->n++];
    *leaving = (struct fixture_leaving){.sample = *sample, .joined = span};
    leaving->sample.attributes = BYTES(NULL, 0);
    if (span) {
        memcpy(leaving->trace_id, span->trace_id, 16);
        memcpy(leaving->span_id, span->span_id, 8);
        snprintf(leaving->name, sizeof(leaving->name), "%.*s", (int)span->name.len,
                 (const char *)span->name.data);
    }
    return 0;
}

size_t fixture_leave(struct fixture *fixture, uint64_t now_unix_ns, bool everything,
                     struct fixture_left *left)
{
    size_t n;
    left->n = 0;
    fixture_begin(fixture);
    assert_int_equal(
        join_leave(store_join(fixture->store), now_unix_ns, everything, take, left, &n), 0);
    fixture_commit(fixture);
    assert_int_equal(n, left->n);
    return n;
}

size_t fixture_left_joined(const struct fixture_left *left)
{
    size_t n = 0;
    for (size_t i = 0; i < left->n; i++)
        n += left->samples[i].joined;
    return n;
}

/* ---- for cmocka ---- */

int fixture_set_up(void **state)
{
    static struct fixture fixture;
    fixture_make(&fixture);
    fixture_open(&fixture);
    *state = &fixture;
    return 0;
}

int fixture_tear_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

int fixture_set_up_in_transaction(void **state)
{
    fixture_set_up(state);
    fixture_begin(*state);
    return 0;
}

int fixture_tear_down_in_transaction(void **state)
{
    struct fixture *fixture = *state;
    if (db_in_transaction(store_db(fixture->store)))
        fixture_commit(fixture);
    return fixture_tear_down(state);
}
