/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/stacks_fixture.h"
#include "proto/otlp/otlp_profiles_check.h"
#include "store/db/id_set.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define COLLECT_STEPS 50

struct stacks *fixture_stacks(struct fixture *fixture)
{
    return store_stacks(fixture->store);
}

int64_t fixture_intern(struct fixture *fixture, const struct frame *frames, size_t n)
{
    int64_t id;
    bool names_wanted;
    assert_int_equal(stacks_intern(fixture_stacks(fixture), frames, n, &id, &names_wanted), 0);
    return id;
}

void fixture_generation(struct fixture *fixture, int64_t referred)
{
    struct stacks *stacks = fixture_stacks(fixture);
    struct id_set set = {0};
    assert_int_equal(id_set_add(&set, referred), 0);
    id_set_seal(&set);
    assert_int_equal(stacks_collect_begin(stacks, FIXTURE_T0, &set), 0);
    assert_false(stacks_collect_due(stacks, FIXTURE_T0 + 9000 * FIXTURE_SECOND));
    for (int i = 0; i < COLLECT_STEPS; i++)
        assert_int_equal(stacks_collect(stacks), 0);
    assert_true(stacks_collect_due(stacks, FIXTURE_T0 + 9000 * FIXTURE_SECOND));
}

static void read_request(struct fixture *fixture, struct outbox_item *item)
{
    struct db *db;
    struct outbox_reader *reader;
    assert_int_equal(db_open_reader(&fixture->settings.db, &db), 0);
    assert_int_equal(outbox_reader_open(db, &reader), 0);
    assert_int_equal(outbox_next_signal(reader, "first", SIGNAL_PROFILES, 0, item), 0);
    outbox_reader_close(reader);
    db_close(db);
}

ProfilesRequest *fixture_window(struct fixture *fixture, uint64_t now_unix_ns, bool everything)
{
    const struct window_settings settings = {
        .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "1"};
    struct outbox_item item = {0};
    char why[256];
    size_t n;
    fixture_begin(fixture);
    assert_int_equal(store_window(fixture->store, &settings, now_unix_ns, everything, &n), 0);
    fixture_commit(fixture);
    read_request(fixture, &item);
    assert_int_equal(otlp_profiles_check(buf_bytes(&item.body), 64 << 20, why, sizeof(why)),
                     PROFILES_CONFORM);
    ProfilesRequest *request = (ProfilesRequest *)protobuf_c_message_unpack(
        &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
        NULL, item.body.len, item.body.data);
    assert_non_null(request);
    buf_close(&item.body);
    return request;
}

void fixture_window_close(ProfilesRequest *request)
{
    protobuf_c_message_free_unpacked(&request->base, NULL);
}
