/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/rigs/samples_rig.h"
#include "store/db/id_set.h"
#include "store/stacks/stacks_unfinished.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

int samples_rig_setup(void **state)
{
    static const char *const spans[] = {RIG_SPAN_LABEL, NULL};
    static const struct label_names names = {.span_id = spans};
    static struct samples_rig rig;
    arena_init(&rig.arena, 1 << 20);
    fixture_make(&rig.fixture);
    fixture_open(&rig.fixture);
    symbolizer_queue_init(&rig.requests);
    assert_int_equal(process_table_open(&rig.requests, &rig.table), 0);
    assert_int_equal(intake_samples_open(rig.fixture.store, rig.table, &names, &rig.samples), 0);
    samples_rig_map(&rig, RIG_PID, APP, APP_OFFSET, APP_PATH);
    samples_rig_map(&rig, RIG_PID, LIB, 0, LIB_PATH);
    samples_rig_requests(&rig, SYMBOLIZER_SCAN_WANTED, NULL); /* none is of interest */
    *state = &rig;
    return 0;
}

int samples_rig_teardown(void **state)
{
    struct samples_rig *rig = *state;
    arena_close(&rig->arena);
    intake_samples_close(rig->samples);
    process_table_close(rig->table);
    symbolizer_queue_deinit(&rig->requests);
    fixture_remove(&rig->fixture);
    return 0;
}

struct process_event samples_rig_mapping(uint32_t pid, uint64_t start, uint64_t offset,
                                         const char *path)
{
    return (struct process_event){.kind = PROCESS_MAPPED,
                                  .time_ns = RECORD_T0 - 1000000,
                                  .pid = pid,
                                  .mapping = {.start = start,
                                              .length = 0x10000,
                                              .file_offset = offset,
                                              .inode = strlen(path),
                                              .path = path}};
}

void samples_rig_map(struct samples_rig *rig, uint32_t pid, uint64_t start, uint64_t offset,
                     const char *path)
{
    struct process_event event = samples_rig_mapping(pid, start, offset, path);
    assert_int_equal(process_table_apply(rig->table, &event), 0);
}

void samples_rig_add(struct samples_rig *rig, const struct record_parts *parts, size_t n)
{
    struct join *join = store_join(rig->fixture.store);
    fixture_begin(&rig->fixture);
    assert_int_equal(join_batch_begin(join), 0);
    for (size_t i = 0; i < n; i++) {
        struct record_made made;
        assert_int_equal(intake_samples_add(rig->samples, record_make(&made, &parts[i]),
                                            (int64_t)(FIXTURE_T0 - RECORD_T0)),
                         0);
    }
    assert_int_equal(join_batch_commit(join), 0);
    intake_samples_want_names(rig->samples);
    fixture_commit(&rig->fixture);
}

void samples_rig_answer(struct samples_rig *rig, const struct symbolizer_message *message)
{
    fixture_begin(&rig->fixture);
    assert_int_equal(intake_samples_answer(rig->samples, message), 0);
    fixture_commit(&rig->fixture);
}

size_t samples_rig_requests(struct samples_rig *rig, enum symbolizer_kind kind,
                            struct symbolizer_message *last)
{
    struct list requests, *link, *tmp;
    size_t n = 0;
    list_init(&requests);
    process_table_request_changed(rig->table);
    symbolizer_queue_take(&rig->requests, &requests);
    list_each(link, tmp, &requests)
    {
        const struct symbolizer_request *request =
            container_of(link, struct symbolizer_request, link);
        if (request->kind != kind)
            continue;
        n++;
        rig->datagram_size = request->size;
        memcpy(rig->datagram, request->datagram, request->size);
    }
    symbolizer_requests_free(&requests);
    if (n && last) {
        arena_reset(&rig->arena);
        assert_int_equal(
            symbolizer_message_decode(BYTES(rig->datagram, rig->datagram_size), &rig->arena, last),
            0);
    }
    return n;
}

struct record_parts samples_rig_record(uint32_t pid)
{
    return (struct record_parts){.head = {.pid = pid,
                                          .tid = pid + 1,
                                          .own_pid = 7,
                                          .own_tid = 8,
                                          .root_pid = pid + 5000,
                                          .process_start_ns = 90000000000 + pid,
                                          .value_ns = 10000000,
                                          .period_ns = 10000000,
                                          .cpu = 3,
                                          .flags = RECORD_FLAG_USER_MODE,
                                          .comm = "worker"}};
}

struct record_parts samples_rig_user(size_t n, const uint64_t *user)
{
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.n_user = n;
    memcpy(parts.user, user, n * sizeof(*user));
    return parts;
}

void samples_rig_forget_executables(struct samples_rig *rig)
{
    struct stacks *stacks = store_stacks(rig->fixture.store);
    for (int generation = 0; generation < 4; generation++) {
        struct id_set none = {0};
        fixture_begin(&rig->fixture);
        assert_int_equal(stacks_collect_begin(stacks, FIXTURE_T0, &none), 0);
        for (int step = 0; step < 10; step++)
            assert_int_equal(stacks_collect(stacks), 0);
        fixture_commit(&rig->fixture);
    }
}

void samples_rig_roll_back(struct samples_rig *rig)
{
    fixture_begin(&rig->fixture);
    store_fail(rig->fixture.store, -EIO);
    assert_int_equal(store_end(rig->fixture.store), -EIO);
    intake_samples_forget(rig->samples);
}

void samples_rig_details(struct samples_rig *rig, const char *exe)
{
    samples_rig_answer(rig, &(struct symbolizer_message){.kind = SYMBOLIZER_DETAILS,
                                                         .details = {.pid = RIG_PID,
                                                                     .time_ns = RECORD_T0 - 1,
                                                                     .own_pid = 7,
                                                                     .start_ns = 90000000000,
                                                                     .exe = BYTES_STR(exe)}});
}

struct leaving {
    struct samples_rig *rig;
    struct samples_rig_left *last;
};

static struct bytes copied(struct bytes text, void *out, size_t size)
{
    assert_true(text.len < size);
    if (text.len)
        memcpy(out, text.data, text.len);
    ((uint8_t *)out)[text.len] = 0;
    return BYTES(out, text.len);
}

static int keep(void *context, const struct sample *sample, const struct join_span_facts *span)
{
    struct leaving *leaving = context;
    struct samples_rig_left *left = leaving->last;
    if (!left)
        return 0;
    struct store *store = leaving->rig->fixture.store;
    const struct process_facts *facts;
    const struct frame *frames;
    left->matched = span != NULL;
    if (span)
        memcpy(left->joined_span, span->span_id, sizeof(left->joined_span));
    left->sample = *sample;
    left->sample.attributes =
        copied(sample->attributes, left->attributes, sizeof(left->attributes));
    assert_int_equal(processes_get(store_processes(store), sample->process, &facts), 0);
    left->facts = *facts;
    left->facts.executable_name =
        copied(facts->executable_name, left->executable_name, sizeof(left->executable_name));
    left->facts.executable_path =
        copied(facts->executable_path, left->executable_path, sizeof(left->executable_path));
    left->facts.resource = copied(facts->resource, left->resource, sizeof(left->resource));
    assert_int_equal(stacks_frames(store_stacks(store), sample->stack, &frames, &left->n_frames),
                     0);
    memcpy(left->frames, frames, left->n_frames * sizeof(*frames));
    return 0;
}

static size_t leave(struct samples_rig *rig, uint64_t now_unix_ns, struct samples_rig_left *last)
{
    struct leaving leaving = {rig, last};
    size_t n;
    fixture_begin(&rig->fixture);
    assert_int_equal(
        join_leave(store_join(rig->fixture.store), now_unix_ns, SIZE_MAX, keep, &leaving, &n), 0);
    fixture_commit(&rig->fixture);
    return n;
}

size_t samples_rig_leave(struct samples_rig *rig, struct samples_rig_left *last)
{
    assert_int_equal(intake_samples_expire(rig->samples, UINT64_MAX), 0);
    stacks_stop_waiting_for_names(store_stacks(rig->fixture.store));
    return leave(rig, FIXTURE_T0 + FIXTURE_WAIT, last);
}

size_t samples_rig_leave_settled(struct samples_rig *rig, struct samples_rig_left *last)
{
    stacks_stop_waiting_for_names(store_stacks(rig->fixture.store));
    return leave(rig, FIXTURE_T0, last);
}

size_t samples_rig_leave_named(struct samples_rig *rig, uint64_t now_ns)
{
    assert_int_equal(intake_samples_expire(rig->samples, now_ns), 0);
    return leave(rig, FIXTURE_T0, NULL);
}

const struct executable_facts *samples_rig_executable(struct samples_rig *rig, int64_t id,
                                                      const char *path)
{
    const struct executable_facts *facts;
    assert_int_equal(stacks_executable_get(store_stacks(rig->fixture.store), id, &facts), 0);
    assert_true(bytes_is(facts->path, path));
    return facts;
}
