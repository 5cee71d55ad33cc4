/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks whose end is found later: in the dictionary, in totals, in profile windows. */
#include "store/join/span_totals.h"
#include "store/stacks/stacks_state.h"
#include "store/stacks/stacks_unfinished.h"
#include "test/support/fixtures/named_code.h"
#include "test/support/faults/aborts.h"
#include "test/support/fixtures/join_fixture.h"
#include "test/support/fixtures/stacks_fixture.h"
#include <errno.h>

#define T0     FIXTURE_T0
#define TICK   FIXTURE_TICK
#define SECOND FIXTURE_SECOND

static int64_t executable(struct fixture *fixture, uint8_t n)
{
    uint8_t identity[16] = {n};
    int64_t id;
    assert_int_equal(stacks_executable(fixture_stacks(fixture), identity, &id), 0);
    return id;
}

static int64_t promise(struct fixture *fixture, const struct frame *frames, size_t n)
{
    int64_t id;
    assert_int_equal(stacks_open_frames(fixture_stacks(fixture), frames, n, 0, &id), 0);
    assert_true(stacks_has_open_frames(fixture_stacks(fixture), id));
    return id;
}

/* One with a frame of its own, in a transaction of its own. */
static int64_t promised(struct fixture *fixture)
{
    const struct frame frame = {STACK_FRAME_NATIVE, 0, 0x77};
    fixture_begin(fixture);
    int64_t id = promise(fixture, &frame, 1);
    fixture_commit(fixture);
    return id;
}

static void fulfil(struct fixture *fixture, int64_t stack, int64_t same_as)
{
    fixture_begin(fixture);
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), stack, same_as), 0);
    fixture_commit(fixture);
}

static void public_id(struct fixture *fixture, int64_t stack, uint8_t id[16])
{
    fixture_begin(fixture);
    assert_int_equal(stacks_public_id(fixture_stacks(fixture), stack, id), 0);
    fixture_commit(fixture);
}

static int64_t canonical(struct fixture *fixture, int64_t stack)
{
    int64_t id;
    assert_int_equal(stacks_canonical(fixture_stacks(fixture), stack, &id), 0);
    return id;
}

static void assert_frames(struct fixture *fixture, int64_t stack, size_t n, uint64_t last)
{
    const struct frame *frames;
    size_t found;
    assert_int_equal(stacks_frames(fixture_stacks(fixture), stack, &frames, &found), 0);
    assert_int_equal(found, n);
    assert_int_equal(frames[n - 1].address, last);
}

/* ---- the dictionary ---- */

static void test_fulfilled(void **state)
{
    struct fixture *fixture = *state;
    const struct frame frames[] = {
        {STACK_FRAME_NATIVE, 0, 1}, {STACK_FRAME_NATIVE, 0, 2}, {STACK_FRAME_NATIVE, 0, 3}};
    uint8_t one[16], other[16];
    bool ready;
    fixture_begin(fixture);
    int64_t first = promise(fixture, frames, 1), second = promise(fixture, frames, 1);
    int64_t whole = fixture_intern(fixture, frames, 3), alone = fixture_intern(fixture, frames, 1);
    assert_int_not_equal(first, second); /* never shared */
    assert_int_not_equal(alone, first);
    assert_frames(fixture, first, 1, 1);
    assert_int_equal(canonical(fixture, first), first);
    assert_int_equal(stacks_public_id_ready(fixture_stacks(fixture), first, &ready), 0);
    assert_false(ready); /* though all that it is made of now is known */
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), first, whole), 0);
    assert_false(stacks_has_open_frames(fixture_stacks(fixture), first));
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), first, whole), -ENOENT);
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), whole, alone), -ENOENT);
    fixture_commit(fixture);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(canonical(fixture, first), whole);
        assert_int_equal(canonical(fixture, whole), whole);
        assert_frames(fixture, first, 3, 3);
        assert_int_equal(stacks_public_id_ready(fixture_stacks(fixture), first, &ready), 0);
        assert_true(ready);
        public_id(fixture, first, one);
        public_id(fixture, whole, other);
        assert_memory_equal(one, other, 16);
        assert_frames(fixture, second, 1, 1);
        assert_int_equal(stacks_has_open_frames(fixture_stacks(fixture), second), round == 0);
        fixture_reopen(fixture); /* nobody is left to fulfil the second */
    }
    int64_t none;
    assert_int_equal(stacks_canonical(fixture_stacks(fixture), 4711, &none), -ENOENT);
}

static void test_given_up(void **state)
{
    struct fixture *fixture = *state;
    bool ready;
    int64_t stack = promised(fixture);
    stacks_close_frames(fixture_stacks(fixture), stack, STACK_LATE);
    stacks_close_frames(fixture_stacks(fixture), stack, STACK_LATE);
    assert_false(stacks_has_open_frames(fixture_stacks(fixture), stack));
    assert_frames(fixture, stack, 1, 0x77);
    assert_int_equal(stacks_public_id_ready(fixture_stacks(fixture), stack, &ready), 0);
    assert_true(ready);
    fixture_begin(fixture);
    assert_int_equal(
        stacks_finish_frames(fixture_stacks(fixture), stack, fixture_stack(fixture, 1)), -ENOENT);
    fixture_commit(fixture);
}

static void test_limits(void **state)
{
    struct fixture *fixture = *state;
    static struct frame frames[STACKS_FRAMES_MAX + 1];
    int64_t id;
    fixture_begin(fixture);
    assert_int_equal(
        stacks_open_frames(fixture_stacks(fixture), frames, STACKS_FRAMES_MAX + 1, 0, &id),
        -EINVAL);
    const struct frame lost = {STACK_FRAME_NATIVE, 4711, 1};
    assert_int_equal(stacks_open_frames(fixture_stacks(fixture), &lost, 1, 0, &id), -ESTALE);
    fixture_commit(fixture);
}

static void test_rolled_back(void **state)
{
    struct fixture *fixture = *state;
    int64_t kept = promised(fixture);
    fixture_begin(fixture);
    const struct frame frame = {STACK_FRAME_NATIVE, 0, 1};
    int64_t lost = promise(fixture, &frame, 1), id;
    assert_int_equal(
        stacks_finish_frames(fixture_stacks(fixture), kept, fixture_intern(fixture, &frame, 1)), 0);
    store_fail(fixture->store, -EIO);
    assert_int_equal(store_end(fixture->store), -EIO);
    assert_false(stacks_has_open_frames(fixture_stacks(fixture), lost));
    assert_false(stacks_has_open_frames(fixture_stacks(fixture), kept));
    assert_int_equal(stacks_canonical(fixture_stacks(fixture), lost, &id), -ENOENT);
    assert_int_equal(canonical(fixture, kept), kept);
    assert_frames(fixture, kept, 1, 0x77);
}

static void generation(struct fixture *fixture, int64_t referred)
{
    fixture_begin(fixture);
    fixture_generation(fixture, referred);
    fixture_commit(fixture);
}

/* What a referred stack is the same as stays, with its executable; whichever is older. */
static void test_collected(void **state)
{
    struct fixture *fixture = *state;
    const struct executable_facts facts = {.path = BYTES_LIT("/bin/x")}, *known;
    fixture_begin(fixture);
    struct frame frames[2] = {{STACK_FRAME_NATIVE, executable(fixture, 1), 1},
                              {STACK_FRAME_NATIVE, executable(fixture, 2), 2}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            stacks_executable_facts(fixture_stacks(fixture), frames[i].executable, &facts), 0);
    int64_t whole = fixture_intern(fixture, frames, 1);
    int64_t stack = promise(fixture, frames, 0), other = promise(fixture, frames, 0);
    int64_t gone = fixture_intern(fixture, frames + 1, 1), id;
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), stack, whole), 0);
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), other, gone), 0);
    fixture_commit(fixture);
    for (int round = 0; round < 5; round++)
        generation(fixture, stack);
    assert_int_equal(canonical(fixture, stack), whole);
    assert_frames(fixture, stack, 1, 1);
    assert_int_equal(stacks_executable_get(fixture_stacks(fixture), frames[0].executable, &known),
                     0);
    assert_int_equal(stacks_canonical(fixture_stacks(fixture), other, &id), -ENOENT);
    assert_int_equal(stacks_canonical(fixture_stacks(fixture), gone, &id), -ENOENT);
    assert_int_equal(stacks_executable_get(fixture_stacks(fixture), frames[1].executable, &known),
                     -ENOENT);
}

/* One that could not be followed further is another stack, but of the same public id. */
static void test_truncated(void **state)
{
    struct fixture *fixture = *state;
    struct frame frames[] = {{STACK_FRAME_NATIVE, 0, 1},
                             {STACK_FRAME_SPECIAL, FRAME_TRUNCATION, 2}};
    uint8_t ids[3][16];
    bool ready;
    fixture_begin(fixture);
    int64_t whole = fixture_intern(fixture, frames, 1), memory = fixture_intern(fixture, frames, 2);
    frames[1].address = 1;
    int64_t depth = fixture_intern(fixture, frames, 2);
    int64_t name;
    assert_int_equal(fixture_named(fixture_stacks(fixture), BYTES_LIT("f"), &name), 0);
    frames[1] = (struct frame){STACK_FRAME_SPECIAL, FRAME_NAMED, (uint64_t)name};
    int64_t named = fixture_intern(fixture, frames, 2);
    assert_int_equal(stacks_public_id_ready(fixture_stacks(fixture), memory, &ready), 0);
    assert_true(ready);
    assert_int_equal(stacks_public_id_ready(fixture_stacks(fixture), named, &ready), 0);
    fixture_commit(fixture);
    assert_int_not_equal(whole, memory);
    assert_int_not_equal(memory, depth);
    public_id(fixture, whole, ids[0]);
    public_id(fixture, memory, ids[1]);
    public_id(fixture, named, ids[2]);
    assert_memory_equal(ids[0], ids[1], 16);
    assert_memory_not_equal(ids[0], ids[2], 16);
}

/* ---- the join ---- */

static void add_stack(struct fixture *fixture, uint64_t time, struct fixture_ids ids, int64_t stack)
{
    struct sample sample =
        fixture_sample(time, ids, stack, fixture_process(fixture, 10, BYTES(NULL, 0)));
    fixture_add(fixture, &sample);
}

/* A span counts all samples; stacks that are one count as one, and open ones have no id yet. */
static void test_span(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    uint8_t same[16], other[16];
    int64_t whole = fixture_stack(fixture, 1), rare = fixture_stack(fixture, 2);
    int64_t first = promised(fixture), second = promised(fixture), open = promised(fixture);
    const int64_t stacks[] = {rare, first, rare, second, whole, open};
    for (unsigned i = 0; i < 6; i++)
        add_stack(fixture, T0 + i * SECOND, (struct fixture_ids){1, 2, 0}, stacks[i]);
    fixture_span(&span, 1, 2, 0, 9, 10);
    struct join_result result = join(fixture, &span, JOIN_MATCHED);
    assert_int_equal(result.samples, 6);
    assert_int_equal(result.n_stacks, 2); /* rare and whole */
    fulfil(fixture, first, whole);
    fulfil(fixture, second, whole);
    public_id(fixture, whole, same);
    public_id(fixture, rare, other);
    for (int round = 0; round < 2; round++) {
        result = join(fixture, &span, JOIN_MATCHED);
        assert_int_equal(result.samples, 6);
        assert_int_equal(result.cpu_ns, 6 * TICK);
        assert_memory_equal(result.stack_ids[0], same, 16); /* three against two */
        assert_memory_equal(result.stack_ids[1], other, 16);
        assert_int_equal(result.n_stacks, round == 0 ? 2 : 3);
        fixture_reopen(fixture); /* the open one has its own frames then */
    }
    fixture_span_close(&span);
}

/* Counts in the total are united before a stack takes the place of another. */
static void test_tally_full(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    uint8_t same[16], other[16];
    int64_t whole = fixture_stack(fixture, 1), rare = fixture_stack(fixture, 2);
    add_stack(fixture, T0, (struct fixture_ids){1, 2, 0}, rare);
    for (unsigned i = 0; i < 5 * SPAN_TOTAL_STACKS_MAX; i++) {
        int64_t stack = promised(fixture);
        add_stack(fixture, T0 + i, (struct fixture_ids){1, 2, 0}, stack);
        fulfil(fixture, stack, whole);
    }
    fixture_span(&span, 1, 2, 0, 9, 10);
    struct join_result result = join(fixture, &span, JOIN_MATCHED);
    assert_int_equal(result.n_stacks, 2);
    public_id(fixture, whole, same);
    public_id(fixture, rare, other);
    assert_memory_equal(result.stack_ids[0], same, 16);
    assert_memory_equal(result.stack_ids[1], other, 16);
    assert_int_equal(result.samples, 5 * SPAN_TOTAL_STACKS_MAX + 1);
    fixture_span_close(&span);
}

/* A sample moves from its trace's total to its span's, though it counts there as another stack. */
static void test_moved(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span one, two;
    uint8_t same[16];
    int64_t whole = fixture_stack(fixture, 1);
    for (unsigned i = 0; i < SPAN_TOTAL_STACKS_MAX + 1; i++) { /* so many that they are united */
        int64_t stack = promised(fixture);
        add_stack(fixture, T0 + i * SECOND, (struct fixture_ids){1, 0, 0}, stack);
        fulfil(fixture, stack, whole);
    }
    fixture_span(&one, 1, 2, 0, 15, 10);
    fixture_span(&two, 1, 3, 16, 60, 10);
    public_id(fixture, whole, same);
    struct join_result first = join(fixture, &one, JOIN_MATCHED);
    struct join_result second = join(fixture, &two, JOIN_MATCHED);
    assert_int_equal(first.samples, 16);
    assert_int_equal(first.n_stacks, 1);
    assert_memory_equal(first.stack_ids[0], same, 16);
    assert_int_equal(second.samples, SPAN_TOTAL_STACKS_MAX + 1 - 16);
    assert_int_equal(second.n_stacks, 1);
    assert_memory_equal(second.stack_ids[0], same, 16);
    fixture_span_close(&one);
    fixture_span_close(&two);
}

/* ---- leaving ---- */

static void test_stays(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    int64_t first = promised(fixture), second = promised(fixture);
    int64_t whole = fixture_stack(fixture, 1);
    struct join *join = store_join(fixture->store);
    const int64_t stacks[] = {whole, first, second};
    fixture_begin(fixture);
    assert_int_equal(join_batch_begin(join), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct sample sample =
            fixture_sample(T0 + i * SECOND, (struct fixture_ids){0, 0, 0}, stacks[i], 0);
        assert_int_equal(join_add_sample(join, &sample), 0);
    }
    assert_int_equal(join_batch_commit(join), 0);
    fixture_commit(fixture);
    assert_int_equal(fixture_leave(fixture, T0 + 9 * SECOND, &left), 1);
    assert_int_equal(fixture_leave(fixture, T0 + 9 * SECOND, &left), 0);
    assert_int_equal(join_pending_samples(join), 2);
    fulfil(fixture, second, whole);
    assert_int_equal(fixture_leave(fixture, T0 + 9 * SECOND, &left), 1);
    assert_int_equal(left.samples[0].sample.time_unix_ns, T0 + 2 * SECOND);
    stacks_close_frames(fixture_stacks(fixture), first, STACK_LATE);
    assert_int_equal(fixture_leave(fixture, T0 + 9 * SECOND, &left), 1);
    assert_int_equal(left.samples[0].sample.stack, first);
    assert_int_equal(join_pending_samples(join), 0);
}

/* A promise does not keep a sample whose room is needed, nor one after a restart. */
static void test_leaves_all_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    add_stack(fixture, T0, (struct fixture_ids){0, 0, 0}, promised(fixture));
    assert_int_equal(fixture_leave(fixture, T0, &left), 0);
    fixture_reopen(fixture);
    assert_int_equal(fixture_leave(fixture, T0, &left), 1);
    fixture_close(fixture);
    fixture->settings.join.max_pending_bytes = 2000;
    fixture_open(fixture);
    size_t n = 0;
    while (stats_find("spanprof_join_pending_bytes", "") <= 2000 && n++ < 100)
        add_stack(fixture, T0, (struct fixture_ids){0, 0, 0}, promised(fixture));
    assert_in_range(n, 2, 99);
    assert_true(fixture_leave(fixture, T0, &left) > 0);
}

/* How many locations of this address say that their stack was cut short, and why. */
static size_t truncated(const ProfilesRequest *request, uint64_t address, const char *reason)
{
    size_t n = 0;
    for (size_t i = 0; i < request->dictionary->n_location_table; i++) {
        const ProfilesLocation *location = request->dictionary->location_table[i];
        for (size_t j = 0; location->address == address && j < location->n_attribute_indices; j++) {
            const ProfilesAttribute *attribute =
                request->dictionary->attribute_table[location->attribute_indices[j]];
            const char *key = request->dictionary->string_table[attribute->key_strindex];
            if (!strcmp(key, "spanprof.frame.truncated"))
                n += !strcmp(attribute->value->string_value, reason);
        }
    }
    return n;
}

/* Equal stacks are one entry, however they came to be so; what was cut short says so at its last
 * frame, and only there. */
static void test_exported(void **state)
{
    struct fixture *fixture = *state;
    const struct frame frames[] = {{STACK_FRAME_NATIVE, 0, 0x10},
                                   {STACK_FRAME_NATIVE, 0, 0x20},
                                   {STACK_FRAME_SPECIAL, FRAME_TRUNCATION, 6},
                                   {STACK_FRAME_SPECIAL, FRAME_TRUNCATION, 99}};
    fixture_begin(fixture);
    int64_t whole = fixture_intern(fixture, frames, 2), cut = fixture_intern(fixture, frames, 3);
    int64_t nothing = fixture_intern(fixture, frames + 2, 1),
            newer = fixture_intern(fixture, frames + 3, 1);
    int64_t first = promise(fixture, frames, 1), second = promise(fixture, frames, 1);
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), first, whole), 0);
    assert_int_equal(stacks_finish_frames(fixture_stacks(fixture), second, whole), 0);
    fixture_commit(fixture);
    const int64_t stacks[] = {first, whole, second, cut, nothing, newer};
    for (unsigned i = 0; i < 6; i++)
        add_stack(fixture, T0 + i * SECOND, (struct fixture_ids){0, 0, 0}, stacks[i]);
    ProfilesRequest *request = fixture_window(fixture, T0 + 9 * SECOND);
    assert_int_equal(request->dictionary->n_stack_table, 3); /* none, whole, cut */
    assert_int_equal(truncated(request, 0x20, "not_loaded"), 1);
    assert_int_equal(truncated(request, 0x10, "not_loaded"), 0);
    assert_int_equal(request->dictionary->n_location_table, 4);
    fixture_window_close(request);
}

struct open_stack {
    struct stacks *stacks;
    int64_t id;
};

static void close_miscounted(void *context)
{
    struct open_stack *open = context;
    open->stacks->unfinished.n_open[STACK_OPEN_FRAMES] += 5; /* the break */
    stacks_close_frames(open->stacks, open->id, STACK_ROLLED_BACK);
}

/* More open stacks are counted than the map holds: the assertion fires when one is closed. */
static void test_a_wrong_count_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct open_stack open = {fixture_stacks(fixture), promised(fixture)};
    assert_true(aborts(close_miscounted, &open));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_fulfilled),
        TEST(test_given_up),
        TEST(test_limits),
        TEST(test_rolled_back),
        TEST(test_collected),
        TEST(test_truncated),
        TEST(test_span),
        TEST(test_tally_full),
        TEST(test_moved),
        TEST(test_stays),
        TEST(test_leaves_all_the_same),
        TEST(test_exported),
        TEST(test_a_wrong_count_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
