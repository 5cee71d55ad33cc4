/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/executable_identity.h"
#include "agent-bpf/record.h"
#include "test/support/fixtures/process_fixture.h"

#define SEC UINT64_C(1000000000)

static void resolves(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0x4000, "/bin/a");
    map(10, 102, 0x8000, 0x2000, 0, "/lib/b.so");
    expect_at(10, 200, 0x1000, "/bin/a", 0x4000);
    expect_at(10, 200, 0x1fff, "/bin/a", 0x4fff);
    expect_at(10, 200, 0x9fff, "/lib/b.so", 0x1fff);
    expect_none(10, 200, 0x2000);
    expect_none(10, 200, 0xfff);
    expect_none(10, 200, 0xa000);
    expect_none(11, 200, 0x1000);
}

static void overlaps(void **state)
{
    (void)state;
    map(10, 1, 0x1000, 0x5000, 0x10000, "/bin/a");
    map(10, 2, 0x2000, 0x1000, 0, "/lib/middle.so");
    expect_at(10, 9, 0x1fff, "/bin/a", 0x10fff);
    expect_at(10, 9, 0x2000, "/lib/middle.so", 0);
    expect_at(10, 9, 0x3000, "/bin/a", 0x12000);
    expect_at(10, 9, 0x5fff, "/bin/a", 0x14fff);
    map(10, 3, 0x5000, 0x2000, 0, "/lib/end.so");
    expect_at(10, 9, 0x4fff, "/bin/a", 0x13fff);
    expect_at(10, 9, 0x5000, "/lib/end.so", 0);
    map(10, 4, 0x1000, 0x10000, 0, "/lib/all.so");
    expect_at(10, 9, 0x2000, "/lib/all.so", 0x1000);
    map(10, 5, 0x2000, 0x1000, 0, "//anon"); /* code made at run time: no file any more */
    expect_none(10, 9, 0x2000);
    expect_at(10, 9, 0x3000, "/lib/all.so", 0x2000);
}

/* Random mappings against one cell per page. */
static void overlaps_as_a_model(void **state)
{
    (void)state;
    enum { PAGES = 64, PATHS = 5 };
    static const char *paths[PATHS] = {"/0", "/1", "/2", "/3", "//anon"};
    int model[PAGES];
    uint64_t offsets[PAGES] = {0};
    memset(model, -1, sizeof(model));
    srand(1);
    for (uint64_t round = 1; round < 20000; round++) {
        unsigned start = (unsigned)rand() % PAGES;
        unsigned length = 1 + (unsigned)rand() % (PAGES - start);
        unsigned path = (unsigned)rand() % PATHS;
        uint64_t offset = ((uint64_t)rand() % 100) << 12;
        map(5, round, (start + 1) * UINT64_C(4096), length * UINT64_C(4096), offset, paths[path]);
        for (unsigned i = start; i < start + length; i++) {
            model[i] = path == 4 ? -1 : (int)path;
            offsets[i] = offset + (i - start) * UINT64_C(4096);
        }
        unsigned look = (unsigned)rand() % PAGES;
        if (model[look] < 0)
            expect_none(5, round, (look + 1) * UINT64_C(4096) + 5);
        else
            expect_at(5, round, (look + 1) * UINT64_C(4096) + 5, paths[model[look]],
                      offsets[look] + 5);
    }
}

/* A sample is resolved by what lay there when it was taken. */
static void mapped_over(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x4000, 0, "/bin/a");
    map(10, 200, 0x2000, 0x1000, 0x7000, "/lib/b.so");
    map(10, 300, 0x2000, 0x1000, 0, "//anon");
    map(10, 400, 0x2000, 0x3000, 0, "/lib/c.so");
    expect_at(10, 150, 0x2010, "/bin/a", 0x1010);
    expect_at(10, 199, 0x4010, "/bin/a", 0x3010);
    expect_at(10, 200, 0x2010, "/lib/b.so", 0x7010);
    expect_at(10, 299, 0x2010, "/lib/b.so", 0x7010);
    expect_at(10, 399, 0x3010, "/bin/a", 0x2010);
    expect_at(10, 400, 0x3010, "/lib/c.so", 0x1010);
    expect_at(10, 150, 0x1010, "/bin/a", 0x10);
    map(10, 500, 0x2000, 0x3000, 0, "/lib/c.so"); /* the same again, as a scan finds it */
    expect_at(10, 399, 0x3010, "/bin/a", 0x2010);
    expect_at(10, 450, 0x3010, "/lib/c.so", 0x1010);
    apply(PROCESS_EXITED, 10, 0, 600);
    process_table_expire(table, 600 + PROCESS_GRACE_NS);
    assert_int_equal(table_processes(), 0);
}

/* Of what is too long ago, nothing is said rather than something wrong. */
static void mapped_over_many_times(void **state)
{
    (void)state;
    char path[32];
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x9000, 0x1000, 0, "/bin/a");
    for (unsigned i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), "/lib/%u.so", i);
        map(10, 1000 + i * 10, 0x1000, 0x1000, 0, path);
    }
    expect_at(10, 1999, 0x1000, "/lib/99.so", 0);
    expect_at(10, 1989, 0x1000, "/lib/98.so", 0);
    expect_at(10, 1850, 0x1000, "/lib/85.so", 0);
    expect_none(10, 1005, 0x1000);
    expect_at(10, 1005, 0x9000, "/bin/a", 0);
}

static void exec_keeps_what_was_before(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0, "/bin/a");
    apply(PROCESS_EXECED, 10, 0, 200);
    map(10, 201, 0x1000, 0x1000, 0, "/bin/b");
    expect_at(10, 150, 0x1000, "/bin/a", 0);
    expect_at(10, 250, 0x1000, "/bin/b", 0);
    struct process_details details;
    assert_int_equal(process_table_details(table, 10, 150, &details), 0);
    assert_true(bytes_is(details.executable_name, "a"));
    assert_int_equal(process_table_details(table, 10, 250, &details), 0);
    assert_true(bytes_is(details.executable_name, "b"));
    process_table_expire(table, 200 + PROCESS_GRACE_NS);
    assert_int_equal(table_processes(), 1);
    expect_at(10, 150, 0x1000, "/bin/b", 0);
}

static void fork_copies(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0, "/bin/a");
    apply(PROCESS_FORKED, 11, 10, 110);
    expect_at(11, 120, 0x1000, "/bin/a", 0);
    map(11, 121, 0x1000, 0x1000, 0, "/lib/child.so");
    map(10, 122, 0x9000, 0x1000, 0, "/lib/parent.so");
    expect_at(10, 130, 0x1000, "/bin/a", 0);
    expect_at(11, 130, 0x1000, "/lib/child.so", 0);
    expect_none(11, 130, 0x9000);
    struct process_details details;
    assert_int_equal(process_table_details(table, 11, 130, &details), 0);
    assert_true(bytes_is(details.executable_path, "/bin/a"));
}

static void exit_and_reuse(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0, "/bin/a");
    apply(PROCESS_EXITED, 10, 0, 200);
    expect_at(10, 150, 0x1000, "/bin/a", 0);
    apply(PROCESS_FORKED, 10, 1, 300); /* the pid again */
    expect_none(10, 310, 0x1000);
    expect_at(10, 150, 0x1000, "/bin/a", 0);
    apply(PROCESS_EXITED, 10, 0, 400);
    process_table_expire(table, 400 + PROCESS_GRACE_NS - 1);
    assert_int_equal(table_processes(), 1);
    process_table_expire(table, 400 + PROCESS_GRACE_NS);
    assert_int_equal(table_processes(), 0);
    expect_none(10, 150, 0x1000);
}

static void scan_is_older_than_events(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0, "/bin/new");
    apply(PROCESS_EXITED, 11, 0, 100); /* before the scan is heard */
    struct symbolizer_message message = {.kind = SYMBOLIZER_EVENT,
                                         .event = mapped(10, 90, 0x5000, 0x1000, 0, "/bin/old")};
    assert_int_equal(process_table_answer(table, &message), 0);
    expect_none(10, 200, 0x5000); /* from before the exec */
    message.event = mapped(10, 150, 0x1000, 0x1000, 0, "/bin/new");
    assert_int_equal(process_table_answer(table, &message), 0);
    message.event = mapped(11, 90, 0x5000, 0x1000, 0, "/bin/old");
    assert_int_equal(process_table_answer(table, &message), 0);
    process_table_expire(table, 100 + PROCESS_GRACE_NS);
    expect_none(11, 200, 0x5000);
    assert_int_equal(table_processes(), 1);
    message.event = mapped(10, 99, 0x1000, 0x1000, 0, "/bin/stale");
    assert_int_equal(process_table_answer(table, &message), 0);
    expect_at(10, 200, 0x1000, "/bin/new", 0);
}

static void scan_sweeps(void **state)
{
    (void)state;
    apply(PROCESS_FORKED, 10, 1, 100); /* its exit is lost */
    apply(PROCESS_FORKED, 11, 1, 100);
    struct symbolizer_message seen = {.kind = SYMBOLIZER_EVENT,
                                      .event = {.kind = PROCESS_FORKED, .pid = 11, .time_ns = 210}};
    process_table_answer(table, &seen);
    apply(PROCESS_FORKED, 12, 1, 205); /* after the scan began */
    struct symbolizer_message done = {.kind = SYMBOLIZER_SCAN_DONE,
                                      .scan_done = {.start_ns = 200, .end_ns = 300}};
    process_table_answer(table, &done);
    process_table_expire(table, 300 + PROCESS_GRACE_NS);
    assert_int_equal(table_processes(), 2);
    struct process_details details;
    assert_int_equal(process_table_details(table, 10, 100, &details), PROCESS_UNKNOWN);
    assert_int_equal(process_table_details(table, 11, 100, &details), 0);
    assert_int_equal(process_table_details(table, 12, 300, &details), 0);
}

/* Times of a hostile symbolizer: neither kept for ever nor taken for "alive". */
static void times_to_come(void **state)
{
    (void)state;
    apply(PROCESS_FORKED, 10, 1, 100);
    struct symbolizer_message done = {.kind = SYMBOLIZER_SCAN_DONE,
                                      .scan_done = {.start_ns = UINT64_MAX, .end_ns = UINT64_MAX}};
    process_table_answer(table, &done);
    process_table_answer(table, &done);
    apply(PROCESS_FORKED, 11, 1, 100);
    struct symbolizer_message gone = {.kind = SYMBOLIZER_GONE,
                                      .process = {.pid = 11, .time_ns = UINT64_MAX}};
    process_table_answer(table, &gone);
    process_table_answer(table, &gone);
    process_table_expire(table, clock_monotonic_ns() + PROCESS_GRACE_NS);
    assert_int_equal(table_processes(), 0);
}

static void asks(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0, "/bin/a");
    map(10, 102, 0x3000, 0x1000, 0, "/lib/b.so");
    take();
    assert_int_equal(taken[SYMBOLIZER_PROCESS_WANTED], 1);
    assert_int_equal(taken[SYMBOLIZER_EXECUTABLE_WANTED], 2);
    map(10, 103, 0x5000, 0x1000, 0, "/lib/b.so");
    take();
    assert_int_equal(taken[SYMBOLIZER_EXECUTABLE_WANTED], 0); /* told before */
    assert_int_equal(taken[SYMBOLIZER_CONTEXT_WANTED], 1);    /* another library: look again */
    apply(PROCESS_EXITED, 10, 0, 200);
    take();
    assert_int_equal(taken[SYMBOLIZER_PROCESS_LEFT], 1);
    apply(PROCESS_LOST, 0, 0, 300);
    apply(PROCESS_LOST, 0, 0, 400);
    take();
    assert_int_equal(taken[SYMBOLIZER_SCAN_WANTED], 1);
    process_table_expire(table, 300 + 299 * SEC);
    take();
    assert_int_equal(taken[SYMBOLIZER_SCAN_WANTED], 0);
    process_table_expire(table, 300 + 300 * SEC); /* the second loss is not forgotten */
    take();
    assert_int_equal(taken[SYMBOLIZER_SCAN_WANTED], 1);
    process_table_expire(table, 300 + 900 * SEC);
    take();
    assert_int_equal(taken[SYMBOLIZER_SCAN_WANTED], 0);
}

static void samples_ask_for_context(void **state)
{
    (void)state;
    apply(PROCESS_FORKED, 10, 1, 100);
    take();
    assert_int_equal(taken[SYMBOLIZER_PROCESS_WANTED], 0);
    process_table_sampled(table, 10, 1, 150);
    take();
    assert_int_equal(taken[SYMBOLIZER_PROCESS_WANTED], 1);
    process_table_sampled(table, 10, 1, 151);
    take();
    assert_int_equal(taken[SYMBOLIZER_CONTEXT_WANTED], 0); /* not again so soon */
    process_table_sampled(table, 10, 1, UINT64_MAX / 2);
    take();
    assert_int_equal(taken[SYMBOLIZER_CONTEXT_WANTED], 1);
}

static void tell_sources(uint32_t pid, unsigned sources)
{
    struct symbolizer_message context = {
        .kind = SYMBOLIZER_CONTEXT,
        .context = {.pid = pid, .time_ns = clock_monotonic_ns(), .sources = (uint8_t)sources}};
    assert_int_equal(process_table_answer(table, &context), 0);
}

static unsigned context_requests(void)
{
    taken[SYMBOLIZER_CONTEXT_WANTED] = 0;
    take();
    return taken[SYMBOLIZER_CONTEXT_WANTED];
}

/* A process that has a context is asked for when something may have changed. */
static void contexts_are_asked_for_again(void **state)
{
    (void)state;
    uint64_t now_ns = clock_monotonic_ns();
    apply(PROCESS_EXECED, 10, 0, now_ns);
    take();
    tell_sources(10, CONTEXT_BIT(CONTEXT_OTEL_THREAD));
    process_table_sampled(table, 10, 1, now_ns + 1);
    assert_int_equal(context_requests(), 1); /* now it is known to be sampled */
    process_table_sampled(table, 10, 1, now_ns + 100 * SEC);
    assert_int_equal(context_requests(), 0);
    map(10, now_ns + 2, 0x1000, 0x1000, 0, "/lib/publisher.so");
    assert_int_equal(context_requests(), 0);
    process_table_sampled(table, 10, 1, now_ns + SEC / 2);
    assert_int_equal(context_requests(), 0); /* more may follow */
    process_table_sampled(table, 10, 1, now_ns + 2 * SEC);
    assert_int_equal(context_requests(), 1);
    process_table_sampled(table, 10, 1, now_ns + 4 * SEC);
    assert_int_equal(context_requests(), 0);
    process_table_context_changed(table, 10, now_ns + 1);
    assert_int_equal(context_requests(), 0); /* asked just now */
    process_table_context_changed(table, 10, now_ns + SEC);
    assert_int_equal(context_requests(), 1);
    process_table_context_changed(table, 11, now_ns + SEC); /* nobody */
    assert_int_equal(context_requests(), 0);
    tell_sources(10, CONTEXT_BIT(CONTEXT_GO_LABELS)); /* a better one may come */
    process_table_sampled(table, 10, 1, now_ns + 10 * SEC);
    assert_int_equal(context_requests(), 0);
    process_table_sampled(table, 10, 1, now_ns + 60 * SEC);
    assert_int_equal(context_requests(), 1);
}

static void names(void **state)
{
    (void)state;
    map(10, 1, 0x1000, 0x1000, 0, "/bin/a");
    struct process_place place;
    assert_int_equal(process_table_resolve(table, 10, 2, 0x1000, &place), 0);
    take();
    uint64_t addresses[300] = {0x123};
    uint8_t identity[16];
    memcpy(identity, place.identity, 16);
    assert_int_equal(process_table_want_names(table, 0, identity, addresses, 300), 0);
    take();
    assert_int_equal(taken[SYMBOLIZER_NAMES_WANTED],
                     (300 + SYMBOLIZER_NAMES_MAX - 1) / SYMBOLIZER_NAMES_MAX);
    struct arena arena;
    arena_init(&arena, 65536);
    struct symbolizer_message message;
    const struct symbolizer_request *request =
        container_of(list_first(&last_requests), struct symbolizer_request, link);
    assert_int_equal(
        symbolizer_message_decode(BYTES(request->datagram, request->size), &arena, &message), 0);
    assert_int_equal(message.names_wanted.executable.pid, 10);
    assert_string_equal(message.names_wanted.executable.mapping.path, "/bin/a");
    assert_int_equal(message.names_wanted.addresses[0], 0x123);
    arena_close(&arena);
    identity[0] ^= 1;
    assert_int_equal(process_table_want_names(table, 0, identity, addresses, 1), PROCESS_UNKNOWN);
}

static void kernel(void **state)
{
    (void)state;
    struct process_kernel told;
    assert_int_equal(process_table_kernel(table, &told), PROCESS_UNKNOWN);
    struct symbolizer_message message = {.kind = SYMBOLIZER_KERNEL,
                                         .kernel = {.text_start = 0xffffffff81000000,
                                                    .build_id = BYTES_LIT("12345678901234567890")}};
    process_table_answer(table, &message);
    assert_int_equal(process_table_kernel(table, &told), 0);
    assert_int_equal(told.text_start, 0xffffffff81000000);
    *told.tag = 5;
    uint64_t address = 0x1234;
    assert_int_equal(process_table_want_names(table, 0, told.identity, &address, 1), 0);
    take();
    assert_int_equal(taken[SYMBOLIZER_KERNEL_NAMES_WANTED], 1);
    process_table_forget_tags(table);
    assert_int_equal(process_table_kernel(table, &told), 0);
    assert_int_equal(*told.tag, 0);
}

static struct bytes told_keys[2] = {{(const uint8_t *)"http.route", 10},
                                    {(const uint8_t *)"user.id", 7}};

static struct symbolizer_message context_told(uint64_t time_ns)
{
    return (struct symbolizer_message){.kind = SYMBOLIZER_CONTEXT,
                                       .context = {.pid = 10,
                                                   .time_ns = time_ns,
                                                   .sources = CONTEXT_BIT(CONTEXT_GO_LABELS),
                                                   .publishes = CONTEXT_BIT(CONTEXT_ELASTIC),
                                                   .publisher = PUBLISHER_UNREADABLE,
                                                   .unreadable = CONTEXT_UNREADABLE_STORAGE,
                                                   .resource = BYTES(resource, sizeof(resource)),
                                                   .n_keys = 2,
                                                   .keys = told_keys}};
}

static void answers(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 100);
    map(10, 101, 0x1000, 0x1000, 0, "/bin/a");
    struct process_details details;
    assert_int_equal(process_table_details(table, 10, 200, &details), 0);
    details.tag->row = 77;
    struct symbolizer_message context = context_told(150);
    assert_int_equal(process_table_answer(table, &context), 0);
    struct symbolizer_message told = {.kind = SYMBOLIZER_DETAILS,
                                      .details = {.pid = 10,
                                                  .own_pid = 3,
                                                  .time_ns = 150,
                                                  .start_ns = 42,
                                                  .exe = BYTES_LIT("/usr/bin/a (deleted)"),
                                                  .container_id = BYTES_LIT("c0ffee"),
                                                  .pod_uid = BYTES_LIT("0b9c1f2e")}};
    assert_int_equal(process_table_answer(table, &told), 0);
    assert_int_equal(process_table_details(table, 10, 200, &details), 0);
    assert_int_equal(details.tag->row, 0); /* changed */
    assert_int_equal(details.sources, CONTEXT_BIT(CONTEXT_GO_LABELS));
    assert_int_equal(details.publishes, CONTEXT_BIT(CONTEXT_ELASTIC));
    assert_int_equal(details.publisher, PUBLISHER_UNREADABLE);
    assert_int_equal(details.unreadable, CONTEXT_UNREADABLE_STORAGE);
    assert_int_equal(details.own_pid, 3);
    assert_int_equal(details.start_ns, 42);
    assert_true(bytes_is(details.executable_path, "/usr/bin/a"));
    assert_true(bytes_is(details.container_id, "c0ffee"));
    assert_true(bytes_is(details.pod_uid, "0b9c1f2e"));
    assert_true(bytes_equal(details.resource, BYTES(resource, sizeof(resource))));
    assert_int_equal(details.n_keys, 2);
    assert_true(bytes_is(details.keys[1], "user.id"));
    details.tag->row = 78;
    assert_int_equal(process_table_answer(table, &told), 0);
    assert_int_equal(process_table_details(table, 10, 200, &details), 0);
    assert_int_equal(details.tag->row, 78); /* nothing new */

    apply(PROCESS_FORKED, 11, 10, 160); /* the container goes to the child, the context does not */
    assert_int_equal(process_table_details(table, 11, 200, &details), 0);
    assert_true(bytes_is(details.container_id, "c0ffee"));
    assert_true(bytes_is(details.pod_uid, "0b9c1f2e"));
    assert_int_equal(details.publishes | details.publisher, 0);
    assert_int_equal(details.resource.len, 0);
}

static void answers_change(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 200);
    struct process_details details;
    struct symbolizer_message context = context_told(150);
    assert_int_equal(process_table_answer(table, &context), 0); /* read before the exec */
    assert_int_equal(process_table_details(table, 10, 300, &details), 0);
    assert_int_equal(details.publishes, 0);
    context.context.time_ns = 250;
    context.context.resource = BYTES(resource, sizeof(resource) - 1);
    assert_int_equal(process_table_answer(table, &context), -EBADMSG);
    context.context.resource = (struct bytes){0};
    assert_int_equal(process_table_answer(table, &context), 0);
    assert_int_equal(process_table_details(table, 10, 300, &details), 0);
    assert_int_equal(details.n_keys, 2);
    context.context = (struct symbolizer_context){
        .pid = 10, .time_ns = 250, .resource = BYTES(resource, sizeof(resource))};
    assert_int_equal(process_table_answer(table, &context), 0); /* its name alone */
    assert_int_equal(process_table_details(table, 10, 300, &details), 0);
    assert_int_equal(details.publishes, 0);
    assert_int_equal(details.resource.len, sizeof(resource));
    context.context.resource = (struct bytes){0}; /* withdrawn */
    assert_int_equal(process_table_answer(table, &context), 0);
    assert_int_equal(process_table_details(table, 10, 300, &details), 0);
    assert_int_equal(details.resource.len, 0);
    assert_int_equal(details.n_keys, 0);
    details.tag->row = 77;
    context.context.runtime = RUNTIME_PYTHON; /* is no other row */
    assert_int_equal(process_table_answer(table, &context), 0);
    apply(PROCESS_EXECED, 10, 0, 400); /* another program */
    assert_int_equal(process_table_details(table, 10, 300, &details), 0);
    assert_int_equal(details.runtime, RUNTIME_PYTHON);
    assert_int_equal(details.tag->row, 77);
    assert_int_equal(process_table_details(table, 10, 500, &details), 0);
    assert_int_equal(details.runtime, RUNTIME_UNKNOWN);
}

static void gone_by_the_symbolizer(void **state)
{
    (void)state;
    apply(PROCESS_EXECED, 10, 0, 200);
    struct process_details details;
    struct symbolizer_message gone = {.kind = SYMBOLIZER_GONE,
                                      .process = {.pid = 10, .time_ns = 150}};
    assert_int_equal(process_table_answer(table, &gone),
                     0); /* from before the exec: not this one */
    process_table_expire(table, 400 + PROCESS_GRACE_NS);
    assert_int_equal(process_table_details(table, 10, 300, &details), 0);
    gone.process.time_ns = 350;
    assert_int_equal(process_table_answer(table, &gone), 0);
    process_table_expire(table, 400 + PROCESS_GRACE_NS);
    assert_int_equal(process_table_details(table, 10, 300, &details), PROCESS_UNKNOWN);
}

static void identity(void **state)
{
    (void)state;
    uint8_t a[16], b[16];
    struct process_mapping mapping = {.inode = 5, .device_major = 8, .path = "/lib/a.so"};
    assert_true(executable_identity(&mapping, a));
    mapping.path = "/lib/a.so (deleted)";
    assert_true(executable_identity(&mapping, b));
    assert_memory_equal(a, b, 16);
    mapping.inode = 6;
    assert_true(executable_identity(&mapping, b));
    assert_memory_not_equal(a, b, 16);
    mapping.inode_generation = 1; /* the number of a file that was removed is used again */
    assert_true(executable_identity(&mapping, a));
    assert_memory_not_equal(a, b, 16);
    mapping.inode = 0;
    assert_false(executable_identity(&mapping, a));
    mapping = (struct process_mapping){.path = "[vdso]"}; /* the same in all processes */
    assert_true(executable_identity(&mapping, a));
    mapping.inode = 5;
    const char *none[] = {"[vsyscall]",    "//anon", "/dev/zero",
                          "/SYSV00000000", "",       "/anon_hugepage"};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        mapping.path = none[i];
        assert_false(executable_identity(&mapping, a));
    }
}

/* Of the request for the file at path. */
static void expect_ancestors(const char *path, const uint32_t expected[SYMBOLIZER_ANCESTORS_MAX])
{
    struct list *link, *tmp;
    bool found = false;
    take();
    list_each(link, tmp, &last_requests)
    {
        const struct symbolizer_request *request =
            container_of(link, struct symbolizer_request, link);
        struct arena arena;
        struct symbolizer_message message;
        arena_init(&arena, 1 << 20);
        assert_int_equal(
            symbolizer_message_decode(BYTES(request->datagram, request->size), &arena, &message),
            0);
        if (message.kind == SYMBOLIZER_EXECUTABLE_WANTED &&
            !strcmp(message.executable_ref.mapping.path, path)) {
            assert_memory_equal(message.executable_ref.ancestors, expected,
                                SYMBOLIZER_ANCESTORS_MAX * sizeof(*expected));
            found = true;
        }
        arena_close(&arena);
    }
    assert_true(found);
}

/* Those that live, however many have ended between them; through exec. */
static void file_is_sought_through_ancestors(void **state)
{
    (void)state;
    apply(PROCESS_FORKED, 11, 10, 100); /* of 10 nothing is known */
    apply(PROCESS_FORKED, 12, 11, 110);
    apply(PROCESS_FORKED, 13, 12, 120);
    apply(PROCESS_EXITED, 12, 0, 130);
    apply(PROCESS_EXECED, 13, 0, 140);
    map(13, 150, 0x1000, 0x1000, 0, "/bin/a");
    apply(PROCESS_EXITED, 13, 0, 160);
    expect_ancestors("/bin/a", (const uint32_t[SYMBOLIZER_ANCESTORS_MAX]){11, 10});
    for (uint32_t pid = 20; pid < 40; pid++)
        apply(PROCESS_FORKED, pid, pid - 1, 200);
    map(39, 300, 0x1000, 0x1000, 0, "/bin/b");
    expect_ancestors("/bin/b", (const uint32_t[SYMBOLIZER_ANCESTORS_MAX]){38, 37, 36, 35});
    apply(PROCESS_FORKED, 50, 51, 400); /* each the other's, as numbers go round */
    apply(PROCESS_FORKED, 51, 50, 400);
    map(50, 410, 0x1000, 0x1000, 0, "/bin/c");
    expect_ancestors("/bin/c", (const uint32_t[SYMBOLIZER_ANCESTORS_MAX]){51, 50, 51, 50});
    map(60, 500, 0x1000, 0x1000, 0, "/bin/d"); /* its fork was lost */
    expect_ancestors("/bin/d", (const uint32_t[SYMBOLIZER_ANCESTORS_MAX]){0});
}

int main(void)
{
    list_init(&last_requests);
#define T(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)
    const struct CMUnitTest tests[] = {
        T(resolves),
        T(overlaps),
        T(overlaps_as_a_model),
        T(mapped_over),
        T(mapped_over_many_times),
        T(exec_keeps_what_was_before),
        T(fork_copies),
        T(exit_and_reuse),
        T(scan_is_older_than_events),
        T(scan_sweeps),
        T(times_to_come),
        T(asks),
        T(file_is_sought_through_ancestors),
        T(samples_ask_for_context),
        T(contexts_are_asked_for_again),
        T(names),
        T(kernel),
        T(answers),
        T(answers_change),
        T(gone_by_the_symbolizer),
        T(identity),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    symbolizer_requests_free(&last_requests);
    return failed;
}
