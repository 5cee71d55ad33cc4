/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is scraped is what was exported: both are taken apart into a text for each sample, with
 * everything that is said of it, and held against each other.
 */
#include "profiles_service.pb-c.h"
#include "test/support/fixtures/outbox_next.h"
#include "test/support/fixtures/otlp_profiles_check.h"
#include "store/history/history_block.h"
#include "store/query/history_reader.h"
#include "test/support/fixtures/named_code.h"
#include "test/support/fixtures/store_fixture.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest
    Request;
typedef Opentelemetry__Proto__Profiles__V1development__ProfilesDictionary Dictionary;
typedef Opentelemetry__Proto__Profiles__V1development__ResourceProfiles ResourceProfiles;
typedef Opentelemetry__Proto__Profiles__V1development__Profile Profile;
typedef Opentelemetry__Proto__Profiles__V1development__Sample Sample;
typedef Opentelemetry__Proto__Profiles__V1development__Location Location;
typedef Opentelemetry__Proto__Profiles__V1development__Mapping Mapping;
typedef Opentelemetry__Proto__Profiles__V1development__Function Function;

#define T0        FIXTURE_T0
#define TICK      FIXTURE_TICK
#define SECOND    FIXTURE_SECOND
#define LINES_MAX 4096

struct lines { /* a text for each sample */
    size_t n;
    char *all[LINES_MAX];
};

/* Taking apart */

static void add_packed(struct buf *out, const ProtobufCMessage *message)
{
    uint8_t packed[4096];
    char hex[2 * sizeof(packed) + 1];
    assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(packed));
    bytes_to_hex(BYTES(packed, protobuf_c_message_pack(message, packed)), hex);
    buf_printf(out, "%s", hex);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, and without the CPU's number, which the history does not keep. */
static void add_attributes(struct buf *out, const Dictionary *dictionary, const int32_t *indices,
                           size_t n)
{
    char *texts[64];
    size_t n_texts = 0;
    for (size_t i = 0; i < n; i++) {
        const char *key =
            dictionary->string_table[dictionary->attribute_table[indices[i]]->key_strindex];
        struct buf text = {0};
        if (!strcmp(key, "cpu.logical_number"))
            continue;
        buf_printf(&text, "%s=", key);
        add_packed(&text, &dictionary->attribute_table[indices[i]]->value->base);
        buf_append(&text, "", 1);
        assert_true(n_texts < 64);
        texts[n_texts++] = (char *)text.data;
    }
    qsort(texts, n_texts, sizeof(*texts), compare_texts);
    for (size_t i = 0; i < n_texts; i++) {
        buf_printf(out, " %s", texts[i]);
        free(texts[i]);
    }
}

static void add_location(struct buf *out, const Dictionary *dictionary, const Location *location)
{
    const Mapping *mapping = dictionary->mapping_table[location->mapping_index];
    buf_printf(out, " [%llx %s+%llx-%llx@%llx", (unsigned long long)location->address,
               dictionary->string_table[mapping->filename_strindex],
               (unsigned long long)mapping->memory_start, (unsigned long long)mapping->memory_limit,
               (unsigned long long)mapping->file_offset);
    add_attributes(out, dictionary, mapping->attribute_indices, mapping->n_attribute_indices);
    add_attributes(out, dictionary, location->attribute_indices, location->n_attribute_indices);
    for (size_t i = 0; i < location->n_lines; i++) {
        const Function *function = dictionary->function_table[location->lines[i]->function_index];
        buf_printf(out, " %s/%s/%s:%lld", dictionary->string_table[function->name_strindex],
                   dictionary->string_table[function->system_name_strindex],
                   dictionary->string_table[function->filename_strindex],
                   (long long)location->lines[i]->line);
    }
    buf_printf(out, "]");
}

static void add_lines(struct lines *lines, const Request *request, const ResourceProfiles *profiles,
                      const Profile *profile, const Sample *sample)
{
    const Dictionary *dictionary = request->dictionary;
    for (size_t t = 0; t < sample->n_timestamps_unix_nano; t++) {
        struct buf line = {0};
        uint64_t time = sample->timestamps_unix_nano[t];
        buf_printf(&line, "%llu period %lld ", (unsigned long long)(time / HISTORY_TICK_NS),
                   (long long)profile->period);
        add_packed(&line, &profiles->resource->base);
        add_attributes(&line, dictionary, sample->attribute_indices, sample->n_attribute_indices);
        add_packed(&line, &dictionary->link_table[sample->link_index]->base);
        const Opentelemetry__Proto__Profiles__V1development__Stack *stack =
            dictionary->stack_table[sample->stack_index];
        for (size_t i = 0; i < stack->n_location_indices; i++)
            add_location(&line, dictionary, dictionary->location_table[stack->location_indices[i]]);
        buf_append(&line, "", 1);
        assert_true(lines->n < LINES_MAX);
        lines->all[lines->n++] = (char *)line.data;
    }
}

static void take_apart(struct lines *lines, struct bytes body)
{
    char why[256];
    if (otlp_profiles_check(body, 64 << 20, why, sizeof(why)) != PROFILES_CONFORM)
        fail_msg("%s", why);
    Request *request = (Request *)protobuf_c_message_unpack(
        &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
        NULL, body.len, body.data);
    assert_non_null(request);
    for (size_t r = 0; r < request->n_resource_profiles; r++) {
        const ResourceProfiles *profiles = request->resource_profiles[r];
        for (size_t s = 0; s < profiles->n_scope_profiles; s++)
            for (size_t p = 0; p < profiles->scope_profiles[s]->n_profiles; p++) {
                const Profile *profile = profiles->scope_profiles[s]->profiles[p];
                for (size_t i = 0; i < profile->n_samples; i++)
                    add_lines(lines, request, profiles, profile, profile->samples[i]);
            }
    }
    protobuf_c_message_free_unpacked(&request->base, NULL);
}

static void free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        free(lines->all[i]);
    lines->n = 0;
}

static void assert_same(struct lines *expected, struct lines *found)
{
    assert_int_equal(found->n, expected->n);
    qsort(expected->all, expected->n, sizeof(char *), compare_texts);
    qsort(found->all, found->n, sizeof(char *), compare_texts);
    for (size_t i = 0; i < expected->n; i++)
        assert_string_equal(found->all[i], expected->all[i]);
}

/* A store */

static int64_t rich_stack(struct fixture *fixture, unsigned n)
{
    char path[32];
    const uint8_t identity[16] = {5, (uint8_t)n};
    snprintf(path, sizeof(path), "/usr/bin/shop%u", n);
    const struct executable_facts facts = {
        .path = BYTES_STR(path),
        .build_id = BYTES_LIT("\xde\xad"),
        .htlhash = {1, 2, (uint8_t)n},
        .htlhash_known = true,
        .n_segments = 1,
        .segments = {{0x1000, 0x1000, 0x401000}},
    };
    const struct frame_name names[] = {
        {.address = 0x1010, .function = BYTES_LIT("inlined"), .line = 7},
        {.address = 0x1010,
         .function = BYTES_LIT("hot"),
         .file = BYTES_LIT("shop.c"),
         .line = 42,
         .system_name = BYTES_LIT("_Z3hotv")},
    };
    int64_t executable, stack, code;
    bool is_new;
    struct stacks *stacks = store_stacks(fixture->store);
    fixture_begin(fixture);
    assert_int_equal(stacks_executable(stacks, identity, &executable), 0);
    assert_int_equal(stacks_executable_facts(stacks, executable, &facts), 0);
    assert_int_equal(stacks_set_names(stacks, executable, names, 2), 0);
    assert_int_equal(fixture_named(stacks, BYTES_LIT("jitted"), &code), 0);
    const struct frame frames[] = {{STACK_FRAME_KERNEL, 0, 0xffffffff81000010 + n},
                                   {STACK_FRAME_NATIVE, executable, 0x1010},
                                   {STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)code},
                                   {STACK_FRAME_NATIVE, executable, 0x5000 + n},
                                   {STACK_FRAME_SPECIAL, FRAME_TRUNCATION, 1 + n % 6}};
    assert_int_equal(stacks_intern(stacks, frames, 4 + n % 2, &stack, &is_new), 0);
    fixture_commit(fixture);
    return stack;
}

/* Joined with spans of this window or of one before, with half a context, and with none. */
static void add_samples(struct fixture *fixture, unsigned window, const int64_t stacks[4],
                        int64_t process)
{
    static const struct fixture_ids ids[] = {{0, 0, 0}, {1, 2, 3}, {4, 5, 4}, {9, 0, 0}, {7, 8, 0}};
    for (unsigned i = 0; i < 40; i++) {
        uint64_t time = T0 + window * 5 * SECOND + i * (7 * TICK + 3 * HISTORY_TICK_NS);
        struct sample sample = fixture_sample(time, ids[i % 5], stacks[i % 4], process);
        struct buf attributes = {0};
        if (i % 3 == 0)
            otlp_attribute_string(&attributes, 9, "tenant", BYTES_LIT("blue"));
        sample.attributes = buf_bytes(&attributes);
        fixture_add(fixture, &sample);
        buf_close(&attributes);
    }
}

static void add_span(struct fixture *fixture, unsigned trace, unsigned id, unsigned seconds)
{
    struct fixture_span span;
    struct join_result result = {0};
    fixture_span(&span, trace, id, 0, seconds, 1000010);
    span.span.resource = buf_bytes(&span.resource);
    span.span.raw = buf_bytes(&span.raw);
    fixture_begin(fixture);
    assert_true(join_span(store_join(fixture->store), &span.span, &fixture_forwarder, &result) >=
                0);
    assert_int_equal(history_span(store_history(fixture->store), 0, &span.span, &result), 0);
    fixture_commit(fixture);
    fixture_span_close(&span);
}

#define WINDOWS 4

static void close_window(struct fixture *fixture, unsigned window)
{
    const struct window_settings settings = {
        .max_request_bytes = 1 << 20, .destinations = 1, .scope_version = "1.2.3"};
    size_t n;
    fixture_begin(fixture);
    /* the last one gives up waiting */
    uint64_t now = T0 + (window + 1) * 5 * SECOND + (window == WINDOWS ? 100 * SECOND : 0);
    assert_int_equal(store_window(fixture->store, &settings, now, &n), 0);
    fixture_commit(fixture);
}

static void fill(struct fixture *fixture)
{
    int64_t stacks[4], process = fixture_process(fixture, 10, BYTES(NULL, 0));
    for (unsigned i = 0; i < 3; i++)
        stacks[i] = rich_stack(fixture, i);
    stacks[3] = fixture_stack(fixture, 1);
    for (unsigned i = 0; i < WINDOWS; i++) {
        add_samples(fixture, i, stacks, process);
        if (i == 0)
            add_span(fixture, 1, 2, 20);
        if (i == 2)
            add_span(fixture, 4, 5, 20);
        if (i == 2) /* without samples */
            add_span(fixture, 1, 99, 60);
        close_window(fixture, i);
    }
    close_window(fixture, WINDOWS);
}

static void read_exported(struct fixture *fixture, struct lines *lines)
{
    struct db *db;
    struct outbox_reader *reader;
    struct outbox_item item = {0};
    assert_int_equal(db_open_reader(&fixture->settings.db, &db), 0);
    assert_int_equal(outbox_reader_open(db, &reader), 0);
    while (!outbox_next_signal(reader, "first", SIGNAL_PROFILES, item.seq, &item)) {
        take_apart(lines, buf_bytes(&item.body));
        buf_close(&item.body);
    }
    outbox_reader_close(reader);
    db_close(db);
}

/* Scraping */

struct rig {
    struct fixture fixture;
    struct db *db;
    struct history_reader *reader;
    struct lines exported;
};

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    fixture_make(&rig->fixture);
    fixture_open(&rig->fixture);
    fill(&rig->fixture);
    read_exported(&rig->fixture, &rig->exported);
    assert_int_equal(rig->exported.n, 40 * WINDOWS);
    assert_int_equal(db_open_reader(&rig->fixture.settings.db, &rig->db), 0);
    assert_int_equal(history_reader_open(rig->db, &rig->reader), 0);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    history_reader_close(rig->reader);
    db_close(rig->db);
    fixture_remove(&rig->fixture);
    free_lines(&rig->exported);
    free(rig);
    return 0;
}

/* From a cursor on, until there is no more; the last cursor. */
static uint64_t scrape_all(struct rig *rig, const struct history_filter *filter, uint64_t since,
                           size_t max_bytes, struct lines *lines, unsigned *calls)
{
    struct history_scrape scrape = {
        .since = since, .max_bytes = max_bytes, .scope_version = "1.2.3", .more = true};
    for (*calls = 0; scrape.more; ++*calls) {
        struct buf body _cleanup_buf_ = {0};
        size_t before = lines->n;
        assert_true(*calls < 1000);
        assert_int_equal(history_scrape(rig->reader, filter, &scrape, &body), 0);
        if (scrape.samples)
            take_apart(lines, buf_bytes(&body));
        assert_int_equal(lines->n - before, scrape.samples);
        assert_true(body.len <= max_bytes && scrape.missed == 0);
        assert_true(scrape.next > scrape.since || !scrape.more);
        scrape.since = scrape.next;
    }
    return scrape.next;
}

static void what_is_scraped_is_what_was_exported(void **state)
{
    struct rig *rig = *state;
    const struct history_filter all = {0};
    struct lines lines = {0};
    unsigned calls;
    uint64_t next = scrape_all(rig, &all, 0, 1 << 20, &lines, &calls);
    assert_int_equal(calls, 1);
    assert_same(&rig->exported, &lines);
    free_lines(&lines);
    assert_true(scrape_all(rig, &all, next, 1 << 20, &lines, &calls) == next);
    assert_int_equal(lines.n, 0);
}

static void small_requests_say_the_same(void **state)
{
    struct rig *rig = *state;
    const struct history_filter all = {0};
    for (size_t max_bytes = 2600; max_bytes < 6000; max_bytes += 400) {
        struct lines lines = {0};
        unsigned calls;
        scrape_all(rig, &all, 0, max_bytes, &lines, &calls);
        assert_true(calls > 1 || max_bytes > 4600);
        assert_same(&rig->exported, &lines);
        free_lines(&lines);
    }
}

static void the_same_cursor_gives_the_same(void **state)
{
    struct rig *rig = *state;
    const struct history_filter all = {0};
    struct history_scrape scrape = {.max_bytes = 3500, .scope_version = "1.2.3", .more = true};
    while (scrape.more) {
        struct lines first_lines = {0}, lines = {0};
        struct buf first _cleanup_buf_ = {0}, again _cleanup_buf_ = {0};
        assert_int_equal(history_scrape(rig->reader, &all, &scrape, &first), 0);
        uint64_t next = scrape.next;
        assert_int_equal(history_scrape(rig->reader, &all, &scrape, &again), 0);
        assert_true(next == scrape.next);
        take_apart(&first_lines, buf_bytes(&first));
        take_apart(&lines, buf_bytes(&again));
        assert_same(&first_lines, &lines);
        free_lines(&first_lines);
        free_lines(&lines);
        scrape.since = next;
    }
}

static void a_filter_lets_some_through(void **state)
{
    struct rig *rig = *state;
    struct history_filter filter = {.by_trace = true};
    struct lines lines = {0};
    unsigned calls;
    fixture_trace_id(1, filter.trace_id);
    scrape_all(rig, &filter, 0, 1 << 20, &lines, &calls);
    assert_int_equal(lines.n, 8 * WINDOWS);
    free_lines(&lines);
    filter =
        (struct history_filter){.from_unix_ns = T0 + 5 * SECOND, .to_unix_ns = T0 + 10 * SECOND};
    scrape_all(rig, &filter, 0, 3000, &lines, &calls);
    assert_int_equal(lines.n, 40);
    free_lines(&lines);
}

/* Whenever it is asked: that a trace is long counts from when it was known. */
static void a_duration_is_that_of_when_a_sample_left(void **state)
{
    struct rig *rig = *state;
    const struct history_filter filter = {.min_duration_ns = 30 * SECOND};
    struct lines lines = {0};
    unsigned calls;
    scrape_all(rig, &filter, 0, 1 << 20, &lines, &calls);
    assert_int_equal(lines.n, 8 * 2);
    free_lines(&lines);
    scrape_all(rig, &filter, 0, 2000, &lines, &calls);
    assert_int_equal(lines.n, 8 * 2);
    assert_true(calls > 1);
    free_lines(&lines);
}

static void what_has_expired_is_said(void **state)
{
    struct rig *rig = *state;
    const struct history_filter all = {0};
    struct history_scrape scrape = {.max_bytes = 1 << 20, .scope_version = "1.2.3"};
    struct buf body _cleanup_buf_ = {0};
    assert_int_equal(
        db_exec(store_db(rig->fixture.store), "DELETE FROM history_block WHERE seq <= 2"), 0);
    scrape.since = 1 << 17; /* block 1 */
    assert_int_equal(history_scrape(rig->reader, &all, &scrape, &body), 0);
    assert_int_equal(scrape.missed, 2);
    scrape.since = 0;
    assert_int_equal(history_scrape(rig->reader, &all, &scrape, &body), 0);
    assert_int_equal(scrape.missed, 0);
    scrape.since = UINT64_C(1000) << 17; /* of another file */
    uint64_t next = scrape.next, samples = scrape.samples;
    assert_int_equal(history_scrape(rig->reader, &all, &scrape, &body), 0);
    assert_true(scrape.next == next && scrape.samples == samples && samples > 0);
}

static void an_empty_history_is_scraped(void **state)
{
    struct rig *rig = *state;
    const struct history_filter all = {0};
    struct history_scrape scrape = {.since = 5, .max_bytes = 1 << 20, .scope_version = "1.2.3"};
    struct buf body _cleanup_buf_ = {0};
    assert_int_equal(db_renew(store_db(rig->fixture.store)), 0);
    assert_int_equal(history_scrape(rig->reader, &all, &scrape, &body), 0);
    assert_int_equal(scrape.samples + body.len, 0);
    assert_true(scrape.next == 5 && !scrape.more);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_scraped_is_what_was_exported),
        TEST(small_requests_say_the_same),
        TEST(the_same_cursor_gives_the_same),
        TEST(a_filter_lets_some_through),
        TEST(a_duration_is_that_of_when_a_sample_left),
        TEST(what_has_expired_is_said),
        TEST(an_empty_history_is_scraped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
