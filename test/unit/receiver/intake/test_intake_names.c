/* SPDX-License-Identifier: Apache-2.0 */
/* Samples wait for the names of their frames: until the symbolizer has answered, and not for ever.
 */
#include "receiver/intake/questions.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/unfinished_stack.h"

#define LATE_NS (RECORD_T0 + QUESTIONS_NAMES_NS)

/* ---- asked and answered ---- */

static void add_at(struct samples_rig *rig, uint64_t address)
{
    struct record_parts parts = samples_rig_user(1, &address);
    samples_rig_add(rig, &parts, 1);
}

/* The last request for names since this was asked last. */
static struct symbolizer_names_wanted wanted(struct samples_rig *rig, size_t n_requests)
{
    struct symbolizer_message asked = {.kind = SYMBOLIZER_NAMES_WANTED};
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, &asked), n_requests);
    return asked.names_wanted;
}

static struct symbolizer_name name_of(uint64_t address)
{
    return (struct symbolizer_name){.address = address, .function = BYTES_LIT("f")};
}

/* Of n addresses of the request, from this one on. */
static void answer_names(struct samples_rig *rig, const struct symbolizer_names_wanted *asked,
                         uint32_t first, uint32_t n)
{
    struct symbolizer_name names[SYMBOLIZER_NAMES_MAX];
    struct symbolizer_message message = {.kind = SYMBOLIZER_NAMES,
                                         .names = {.n = n, .names = names}};
    memcpy(message.names.identity, asked->executable.identity, sizeof(message.names.identity));
    assert_true(first + n <= asked->n);
    for (uint32_t i = 0; i < n; i++)
        names[i] = name_of(asked->addresses[first + i]);
    samples_rig_answer(rig, &message);
}

/* All of the one request that there is. */
static void answer_all(struct samples_rig *rig)
{
    struct symbolizer_names_wanted asked = wanted(rig, 1);
    answer_names(rig, &asked, 0, asked.n);
}

static int64_t unnamed(const char *reason)
{
    char labels[64];
    snprintf(labels, sizeof(labels), "what=\"names\",result=\"%s\"", reason);
    return counted("spanprof_stacks_unfinished_total", labels);
}

static int64_t waiting(void)
{
    return counted("spanprof_stacks_unfinished", "what=\"names\"");
}

static size_t leave_in_time(struct samples_rig *rig)
{
    return samples_rig_leave_named(rig, LATE_NS - 1);
}

/* ---- waiting ---- */

static void test_until_answered(void **state)
{
    struct samples_rig *rig = *state;
    struct record_parts parts = samples_rig_user(2, (uint64_t[]){APP + 0x100, APP + 0x201});
    int64_t late = unnamed("late");
    samples_rig_add(rig, &parts, 1);
    struct symbolizer_names_wanted asked = wanted(rig, 1);
    assert_int_equal(asked.n, 2);
    assert_int_equal(leave_in_time(rig), 0);
    assert_int_equal(waiting(), 1);
    answer_names(rig, &asked, 0, 1);
    assert_int_equal(leave_in_time(rig), 0); /* half of it is none */
    answer_names(rig, &asked, 1, 1);
    assert_int_equal(leave_in_time(rig), 1);
    assert_int_equal(waiting(), 0);
    assert_int_equal(unnamed("late"), late);
}

/* That there is no name is an answer, too. */
static void test_no_name(void **state)
{
    struct samples_rig *rig = *state;
    add_at(rig, APP + 0x100);
    struct symbolizer_names_wanted asked = wanted(rig, 1);
    struct symbolizer_name none = {.address = asked.addresses[0]};
    struct symbolizer_message message = {.kind = SYMBOLIZER_NAMES,
                                         .names = {.n = 1, .names = &none}};
    memcpy(message.names.identity, asked.executable.identity, sizeof(message.names.identity));
    samples_rig_answer(rig, &message);
    assert_int_equal(leave_in_time(rig), 1);
}

/* Who has all names leaves; who shares one that is open waits, though it was not asked for again.
 */
static void test_others(void **state)
{
    struct samples_rig *rig = *state;
    add_at(rig, APP + 0x100);
    answer_all(rig);
    add_at(rig, APP + 0x200);
    struct record_parts shares = samples_rig_user(2, (uint64_t[]){APP + 0x100, APP + 0x201});
    samples_rig_add(rig, &shares, 1);
    add_at(rig, APP + 0x100);
    assert_int_equal(leave_in_time(rig), 2); /* of the first stack */
    assert_int_equal(waiting(), 2);
    answer_all(rig);
    assert_int_equal(leave_in_time(rig), 2);
}

/* A kernel's frame waits as well, and code that lies in no file does not. */
static void test_kernel(void **state)
{
    struct samples_rig *rig = *state;
    const uint64_t text = UINT64_C(0xffffffff81000000);
    samples_rig_answer(
        rig, &(struct symbolizer_message){
                 .kind = SYMBOLIZER_KERNEL,
                 .kernel = {.text_start = text, .text_end = text + 4096, .build_id = {NULL, 0}}});
    struct record_parts parts = samples_rig_record(RIG_PID);
    parts.n_kernel = 1;
    parts.kernel[0] = text + 0x10;
    samples_rig_add(rig, &parts, 1);
    struct symbolizer_message asked;
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_KERNEL_NAMES_WANTED, &asked), 1);
    assert_int_equal(leave_in_time(rig), 0);
    struct symbolizer_name name = name_of(0x10);
    samples_rig_answer(rig, &(struct symbolizer_message){.kind = SYMBOLIZER_KERNEL_NAMES,
                                                         .names = {.n = 1, .names = &name}});
    assert_int_equal(leave_in_time(rig), 1);
    parts = samples_rig_record(0); /* nobody can be asked about it */
    parts.n_user = 1;
    parts.user[0] = JIT;
    samples_rig_add(rig, &parts, 1);
    assert_int_equal(leave_in_time(rig), 1);
}

/* ---- not for ever ---- */

static void test_late(void **state)
{
    struct samples_rig *rig = *state;
    int64_t late = unnamed("late");
    add_at(rig, APP + 0x100);
    struct symbolizer_names_wanted asked = wanted(rig, 1);
    assert_int_equal(leave_in_time(rig), 0);
    assert_int_equal(samples_rig_leave_named(rig, LATE_NS), 1);
    assert_int_equal(unnamed("late") - late, 1);
    add_at(rig, APP + 0x100); /* is not waited for a second time */
    wanted(rig, 0);
    assert_int_equal(leave_in_time(rig), 1);

    struct record_parts other = samples_rig_user(2, (uint64_t[]){APP + 0x300, APP + 0x101});
    samples_rig_add(rig, &other, 1); /* may have been lost: asked again */
    asked = wanted(rig, 1);
    assert_int_equal(asked.n, 2);
    assert_int_equal(leave_in_time(rig), 0);
    answer_names(rig, &asked, 0, 2);
    assert_int_equal(leave_in_time(rig), 1);
    assert_int_equal(unnamed("late") - late, 1);
}

/* Names that came after all are there the next time. */
static void test_too_late(void **state)
{
    struct samples_rig *rig = *state;
    add_at(rig, APP + 0x100);
    struct symbolizer_names_wanted asked = wanted(rig, 1);
    assert_int_equal(samples_rig_leave_named(rig, LATE_NS), 1);
    answer_names(rig, &asked, 0, 1);
    struct record_parts other = samples_rig_user(2, (uint64_t[]){APP + 0x100, APP + 0x101});
    samples_rig_add(rig, &other, 1);
    wanted(rig, 0);
    assert_int_equal(leave_in_time(rig), 1);
}

static void test_stopping(void **state)
{
    struct samples_rig *rig = *state;
    int64_t before = unnamed("stopping");
    add_at(rig, APP + 0x100);
    assert_int_equal(leave_in_time(rig), 0);
    stacks_stop_waiting_for_names(store_stacks(rig->fixture.store));
    assert_int_equal(leave_in_time(rig), 1);
    assert_int_equal(unnamed("stopping") - before, 1);
}

static void restart(struct samples_rig *rig)
{
    const struct label_names names = {0};
    intake_samples_close(rig->samples);
    fixture_reopen(&rig->fixture);
    assert_int_equal(intake_samples_open(rig->fixture.store, rig->table, &names, &rig->samples), 0);
}

/* Each one that is sampled twice counts once. */
static void test_room_is_needed(void **state)
{
    struct samples_rig *rig = *state;
    int64_t before = unnamed("room");
    size_t n = 0;
    rig->fixture.settings.join.max_pending_bytes = 2000;
    restart(rig);
    while (n < 6)
        add_at(rig, APP + 0x100 * (n++ % 3));
    assert_int_equal(leave_in_time(rig), 0);
    while (counted("spanprof_join_pending_bytes", "") <= 2000 && n < 100)
        add_at(rig, APP + 0x100 * (n++ % 3));
    assert_in_range(n, 7, 99);
    assert_int_equal(leave_in_time(rig), n);
    assert_int_equal(unnamed("room") - before, 3);
    assert_int_equal(waiting(), 0);
}

/* As many different addresses as a table holds, and a stack more. */
static void test_full(void **state)
{
    struct samples_rig *rig = *state;
    static struct record_parts parts;
    int64_t before = unnamed("full");
    size_t n = 0;
    for (uint64_t at = 0; at <= STACKS_OPEN_NAMES_MAX; n++) {
        parts = samples_rig_record(RIG_PID);
        for (parts.n_user = 0; parts.n_user < RECORD_MAX_USER_FRAMES; parts.n_user++)
            parts.user[parts.n_user] = LIB + 1 + at++;
        samples_rig_add(rig, &parts, 1);
        samples_rig_requests(rig, SYMBOLIZER_NAMES_WANTED, NULL);
    }
    assert_int_equal(unnamed("full") - before, 1);
    assert_int_equal(leave_in_time(rig), 1);
    assert_int_equal(waiting(), n - 1);
    assert_int_equal(samples_rig_leave_named(rig, LATE_NS), n - 1);
    add_at(rig, APP + 0x100);
    assert_int_equal(leave_in_time(rig), 0); /* room again */
}

/* ---- when the store forgets ---- */

static void test_rolled_back(void **state)
{
    struct samples_rig *rig = *state;
    add_at(rig, APP + 0x100);
    wanted(rig, 1);
    samples_rig_roll_back(rig);
    assert_int_equal(waiting(), 0);
    assert_int_equal(leave_in_time(rig), 1); /* nobody knows any more what it waited for */
    add_at(rig, APP + 0x100);
    assert_int_equal(leave_in_time(rig), 0);
    answer_all(rig);
    assert_int_equal(leave_in_time(rig), 1);
}

/* What was asked for is asked for again by whoever is sampled with it, and with what the killed one
 * had stored that waits, too. */
static void test_killed(void **state)
{
    struct samples_rig *rig = *state;
    add_at(rig, APP + 0x100);
    answer_all(rig);
    add_at(rig, APP + 0x200);
    wanted(rig, 1);
    assert_int_equal(leave_in_time(rig), 1);
    restart(rig);
    add_at(rig, APP + 0x100);
    wanted(rig, 0);
    add_at(rig, APP + 0x200);
    struct symbolizer_names_wanted asked = wanted(rig, 1);
    assert_int_equal(asked.n, 1);
    assert_int_equal(leave_in_time(rig), 1);
    answer_names(rig, &asked, 0, 1);
    assert_int_equal(leave_in_time(rig), 2);
}

static void test_killed_and_not_seen_again(void **state)
{
    struct samples_rig *rig = *state;
    add_at(rig, APP + 0x100);
    restart(rig);
    assert_int_equal(leave_in_time(rig), 1);
}

/* ---- promises ---- */

/* First the rest of the stack, then its names; of the stack that it turned out to be. */
static void test_promised(void **state)
{
    struct samples_rig *rig = *state;
    struct symbolizer_message asked;
    add_at(rig, LIB + 0x100);
    answer_all(rig);
    add_at(rig, LIB + 0x200);
    answer_all(rig);
    assert_int_equal(leave_in_time(rig), 2);
    struct copied *copied;
    struct record_parts parts = unfinished(&copied);
    samples_rig_add(rig, &parts, 1);
    free(copied);
    assert_int_equal(samples_rig_requests(rig, SYMBOLIZER_UNWIND_WANTED, &asked), 1);
    answer_usual(rig, asked.unwind_wanted.ticket);
    struct symbolizer_names_wanted rest =
        wanted(rig, 1); /* the frame that is its caller's caller */
    assert_int_equal(rest.n, 1);
    assert_int_equal(rest.addresses[0], APP_OFFSET + 0x400);
    assert_int_equal(leave_in_time(rig), 0);
    answer_names(rig, &rest, 0, 1);
    assert_int_equal(leave_in_time(rig), 0); /* that of its caller is open since the tick */
    assert_int_equal(samples_rig_leave_named(rig, LATE_NS), 1);
}

/* What lies in files is asked for also if names of other code are waited for in between. */
static void test_promised_with_code(void **state)
{
    struct samples_rig *rig = *state;
    struct symbolizer_message asked;
    uint64_t ticket = add_unfinished(rig);
    answer(rig, ticket, UNWIND_END_OF_STACK, 3,
           (struct record_frame[]){record_frame_native(APP + 0x301, 1),
                                   record_frame_native(JIT + 0x101, 1),
                                   record_frame_native(APP + 0x901, 1)});
    struct list requests, *link, *tmp;
    list_init(&requests);
    process_table_request_changed(rig->table);
    symbolizer_queue_take(&rig->requests, &requests);
    size_t n_names = 0, n_code = 0;
    list_each(link, tmp, &requests)
    {
        struct symbolizer_request *request = container_of(link, struct symbolizer_request, link);
        n_names += request->kind == SYMBOLIZER_NAMES_WANTED;
        if (request->kind != SYMBOLIZER_CODE_WANTED)
            continue;
        n_code++;
        arena_reset(&rig->arena);
        assert_int_equal(
            symbolizer_message_decode(BYTES(request->datagram, request->size), &rig->arena, &asked),
            0);
    }
    ticket = asked.code_wanted.ticket;
    symbolizer_requests_free(&requests);
    assert_int_equal(n_code, 1);
    assert_int_equal(n_names, 1); /* of APP + 0x901 */
    samples_rig_answer(rig,
                       &(struct symbolizer_message){.kind = SYMBOLIZER_CODE,
                                                    .code = {.ticket = ticket, .pid = RIG_PID}});
    assert_int_equal(leave_in_time(rig), 0);
    assert_int_equal(samples_rig_leave_named(rig, LATE_NS), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, samples_rig_setup, samples_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_until_answered), TEST(test_no_name),
        TEST(test_others),         TEST(test_kernel),
        TEST(test_late),           TEST(test_too_late),
        TEST(test_stopping),       TEST(test_room_is_needed),
        TEST(test_full),           TEST(test_rolled_back),
        TEST(test_killed),         TEST(test_killed_and_not_seen_again),
        TEST(test_promised),       TEST(test_promised_with_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
