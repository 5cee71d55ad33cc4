/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/fixtures/join_fixture.h"
#include <errno.h>
#include <stdlib.h>

#define T0     FIXTURE_T0
#define TICK   FIXTURE_TICK
#define SECOND FIXTURE_SECOND

static void test_matched(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    uint8_t id[16];
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_span(&span, 1, 2, 0, 5, 10);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 2, process);
    add(fixture, T0 + 3 * SECOND, (struct fixture_ids){1, 2, 0}, 2, process);
    add(fixture, T0 + 3 * SECOND, (struct fixture_ids){1, 3, 0}, 2, process);
    struct join_result result = join(fixture, &span, JOIN_MATCHED);
    assert_int_equal(result.cpu_ns, 3 * TICK);
    assert_int_equal(result.samples, 3);
    assert_int_equal(result.n_stacks, 2);
    fixture_begin(fixture);
    assert_int_equal(stacks_public_id(store_stacks(fixture->store), fixture_stack(fixture, 2), id),
                     0);
    fixture_commit(fixture);
    assert_memory_equal(result.stack_ids[0], id, 16);
    assert_int_equal(fixture_leave(fixture, T0 + 6 * SECOND, &left), 3);
    assert_int_equal(fixture_left_joined(&left), 3);
    assert_string_equal(left.samples[0].name, "GET /cart");
    assert_memory_equal(left.samples[0].span_id, span.span_id, 8);
    assert_int_equal(left.samples[1].sample.time_unix_ns, T0 + 2 * SECOND);
    assert_string_equal(left.samples[2].sample.comm, "worker");
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 1);
    assert_int_equal(fixture_leave(fixture, T0 + 6 * SECOND, &left), 0); /* once only */
    fixture_span_close(&span);
}

static void test_no_samples(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    fixture_span(&span, 1, 2, 0, 5, 10);
    join(fixture, &span, JOIN_NO_SAMPLES);
    add(fixture, T0, (struct fixture_ids){1, 2, 0}, 1,
        fixture_process(fixture, 10, BYTES(NULL, 0)));
    span.span.span_id.len = 7; /* any length comes through */
    join(fixture, &span, JOIN_NO_SAMPLES);
    span.span.span_id.len = 8;
    span.span.trace_id.len = 0;
    join(fixture, &span, JOIN_NO_SAMPLES);
    fixture_span_close(&span);
}

/* Case 1: the total outlives its samples. */
static void test_long_span(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t timeouts = counted("timeout");
    for (unsigned second = 0; second < 300; second += 10) {
        add(fixture, T0 + second * SECOND, (struct fixture_ids){1, 2, 0}, second % 3, process);
        fixture_leave(fixture, T0 + second * SECOND, &left);
        assert_int_equal(fixture_left_joined(&left), 0);
        if (second == 150)
            fixture_reopen(fixture); /* in mid-span */
    }
    assert_int_equal(counted("timeout") - timeouts, 24); /* those older than a minute */
    fixture_span(&span, 1, 2, 0, 300, 10);
    struct join_result first = join(fixture, &span, JOIN_MATCHED);
    assert_int_equal(first.cpu_ns, 30 * TICK);
    assert_int_equal(first.samples, 30);
    assert_int_equal(first.n_stacks, 3);
    assert_int_equal(fixture_leave(fixture, T0 + 300 * SECOND, &left), 6);
    assert_int_equal(fixture_left_joined(&left), 6);
    /* A request sent again after a lost answer, also after a restart, is annotated alike. */
    struct join_result second = join(fixture, &span, JOIN_MATCHED);
    assert_memory_equal(&first, &second, sizeof(first));
    fixture_reopen(fixture);
    second = join(fixture, &span, JOIN_MATCHED);
    assert_memory_equal(&first, &second, sizeof(first));
    fixture_span_close(&span);
}

/* Case 2: samples that come after their span. */
static void test_late(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t late = counted("late");
    fixture_span(&span, 1, 2, 0, 5, 10);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    join(fixture, &span, JOIN_MATCHED);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    fixture_reopen(fixture);
    add(fixture, T0 + 4 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_int_equal(fixture_leave(fixture, T0 + 8 * SECOND, &left), 3);
    assert_int_equal(fixture_left_joined(&left), 3);
    assert_string_equal(left.samples[2].name, "GET /cart");
    assert_int_equal(counted("late") - late, 2);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 3);
    /* Its span was never seen with samples: it leaves with its Link alone. */
    add(fixture, T0 + 8 * SECOND, (struct fixture_ids){1, 9, 0}, 1, process);
    assert_int_equal(fixture_leave(fixture, T0 + 69 * SECOND, &left), 1);
    assert_int_equal(fixture_left_joined(&left), 0);
    fixture_span_close(&span);
}

/* Case 3: the trace alone goes to the local root, by time if there are several. */
static void test_trace_alone(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span one, two, child;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_span(&one, 1, 2, 0, 5, 10);
    fixture_span(&two, 1, 3, 10, 15, 10);
    fixture_span(&child, 1, 4, 0, 5, 10);
    fixture_span_parent(&child, 2);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 0, 0}, 1, process);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 0, 0}, 1, process);
    add(fixture, T0 + 11 * SECOND, (struct fixture_ids){1, 0, 0}, 2, process);
    join(fixture, &child, JOIN_NO_SAMPLES);
    assert_int_equal(join(fixture, &one, JOIN_MATCHED).samples, 2);
    assert_int_equal(join(fixture, &one, JOIN_MATCHED).samples, 2);
    fixture_reopen(fixture);
    assert_int_equal(join(fixture, &two, JOIN_MATCHED).samples, 1);
    add(fixture, T0 + 3 * SECOND, (struct fixture_ids){1, 0, 0}, 1, process); /* late, of one */
    assert_int_equal(join(fixture, &one, JOIN_MATCHED).samples, 3);
    assert_int_equal(fixture_leave(fixture, T0 + 20 * SECOND, &left), 4);
    assert_int_equal(fixture_left_joined(&left), 4);
    assert_memory_equal(left.samples[0].span_id, one.span_id, 8);
    assert_memory_equal(left.samples[2].span_id, two.span_id, 8);
    assert_memory_equal(left.samples[3].span_id, one.span_id, 8);
    fixture_span_close(&one);
    fixture_span_close(&two);
    fixture_span_close(&child);
}

/* A five-minute local root of which the contexts name the trace alone. */
static void test_trace_alone_long(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_span(&span, 1, 2, 0, 300, 10);
    for (unsigned second = 1; second < 300; second += 100) {
        add(fixture, T0 + second * SECOND, (struct fixture_ids){1, 0, 0}, 1, process);
        fixture_leave(fixture, T0 + second * SECOND, &left);
    }
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).cpu_ns, 3 * TICK);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).cpu_ns, 3 * TICK);
    /* Work that goes on after the only local root is that root's when its time is over. */
    add(fixture, T0 + 310 * SECOND, (struct fixture_ids){1, 0, 0}, 1, process);
    fixture_leave(fixture, T0 + 311 * SECOND, &left);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 1);
    fixture_leave(fixture, T0 + 371 * SECOND, &left);
    assert_int_equal(left.n, 1);
    assert_true(left.samples[0].matched);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).cpu_ns, 4 * TICK);
    fixture_span_close(&span);
}

/* Two processes of one trace, each with its local root. */
static void test_trace_alone_two_processes(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span outer, inner;
    int64_t front = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t back = fixture_process(fixture, 20, BYTES(NULL, 0));
    fixture_span(&outer, 1, 2, 0, 10, 10);
    fixture_span(&inner, 1, 3, 4, 6, 20);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 0, 0}, 1, front);
    add(fixture, T0 + 5 * SECOND, (struct fixture_ids){1, 0, 0}, 2, back);
    add(fixture, T0 + 5 * SECOND, (struct fixture_ids){1, 0, 0}, 2, back);
    assert_int_equal(join(fixture, &inner, JOIN_MATCHED).samples, 2);
    assert_int_equal(join(fixture, &outer, JOIN_MATCHED).samples, 1);
    fixture_span_close(&outer);
    fixture_span_close(&inner);
}

/* Case 3: the span alone, and the local root alone. */
static void test_span_alone(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_span(&span, 1, 2, 0, 5, 10);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){0, 2, 0}, 1, process);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){0, 0, 2}, 1, process);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 0, 2}, 1, process);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 3);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){0, 2, 0}, 1, process);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 4);
    assert_int_equal(fixture_leave(fixture, T0 + 5 * SECOND, &left), 4);
    assert_int_equal(fixture_left_joined(&left), 4);
    assert_memory_equal(left.samples[0].trace_id, span.trace_id, 16);
    fixture_reopen(fixture);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 4);
    fixture_span_close(&span);
}

/* Case 4: what is not recorded does not wait. */
static void test_unsampled(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t unsampled = counted("unsampled");
    struct sample sample = fixture_sample(T0, (struct fixture_ids){1, 2, 0}, 1, process);
    fixture_add(fixture, &sample); /* flags not trusted: waits */
    sample.flags_trusted = true;
    fixture_add(fixture, &sample);
    sample.trace_flags = 1;
    fixture_add(fixture, &sample); /* sampled: waits */
    assert_int_equal(fixture_leave(fixture, T0 + SECOND, &left), 1);
    assert_false(left.samples[0].matched);
    assert_true(left.samples[0].sample.flags_trusted);
    assert_int_equal(left.samples[0].sample.trace_flags, 0);
    assert_int_equal(counted("unsampled") - unsampled, 1);
}

/* Case 5: another process's samples keep their Link, and do not join. */
static void test_owner(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t thief = fixture_process(fixture, 20, BYTES(NULL, 0));
    int64_t owner = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t foreign = counted("not_owner");
    fixture_span(&span, 1, 2, 0, 5, 10);
    for (int i = 0; i < 5; i++)
        add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, thief);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 2, owner);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    add(fixture, T0 + 3 * SECOND, (struct fixture_ids){1, 2, 0}, 1, thief); /* also later */
    fixture_reopen(fixture);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    assert_int_equal(fixture_leave(fixture, T0 + 5 * SECOND, &left), 1);
    assert_int_equal(fixture_left_joined(&left), 1);
    assert_int_equal(counted("not_owner") - foreign, 0); /* their own span may come */
    assert_int_equal(fixture_leave(fixture, T0 + 64 * SECOND, &left), 6);
    assert_int_equal(fixture_left_joined(&left), 0);
    assert_memory_equal(left.samples[0].sample.span_id, span.span_id, 8);
    assert_int_equal(counted("not_owner") - foreign, 6);
    fixture_span_close(&span);
}

static const struct peer own_sender = {.cgroup_id = FIXTURE_CGROUP, .uid = 1000};
static const struct peer other_sender = {.cgroup_id = FIXTURE_CGROUP + 1, .uid = 1000};
static const struct peer unknown_sender = {.uid = PEER_UID_UNKNOWN};

/* A process works under ids that it was sent; the span comes from elsewhere. */
static void test_no_evidence(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    struct join_result result;
    const struct peer *senders[] = {&other_sender, &unknown_sender};
    int64_t process = fixture_process(fixture, 20, BYTES(NULL, 0));
    int64_t before = counted("no_evidence");
    for (unsigned i = 0; i < 2; i++) {
        fixture_span(&span, 1, 2 + i, 0, 5, 20); /* even its pid is right */
        span.sender = *senders[i];
        add(fixture, T0 + SECOND, (struct fixture_ids){1, 2 + i, 0}, 1, process);
        assert_int_equal(fixture_join(fixture, &span, &result), JOIN_NO_SAMPLES);
        assert_int_equal(result.unproven_pid, 20);
        assert_int_equal(fixture_leave(fixture, T0 + 5 * SECOND, &left), 0);
        fixture_span_close(&span);
    }
    assert_int_equal(fixture_leave(fixture, T0 + 62 * SECOND, &left), 2);
    assert_int_equal(fixture_left_joined(&left), 0);
    assert_int_equal(counted("no_evidence") - before, 2);
}

/* Somebody sends a span with the ids of another's, before it or after it: each gets its own. */
static void test_span_of_a_stranger(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span fake, true_one;
    struct fixture_left left;
    struct join_result result;
    int64_t victim = fixture_process(fixture, 10, BYTES(NULL, 0));
    fixture_span(&fake, 1, 2, 0, 5, 10); /* the Resource is copied as well */
    fixture_span(&true_one, 1, 2, 0, 5, 10);
    fake.sender = other_sender;
    true_one.sender = own_sender;
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, victim);
    join(fixture, &fake, JOIN_NO_SAMPLES);
    assert_int_equal(join(fixture, &true_one, JOIN_MATCHED).samples, 1);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 1, victim);
    join(fixture, &fake, JOIN_NO_SAMPLES);
    assert_int_equal(fixture_join(fixture, &true_one, &result), JOIN_MATCHED);
    assert_int_equal(result.samples, 2);
    assert_int_equal(result.unproven_pid, 0);
    assert_int_equal(fixture_leave(fixture, T0 + 5 * SECOND, &left), 2);
    assert_int_equal(fixture_left_joined(&left), 2);
    fixture_span_close(&fake);
    fixture_span_close(&true_one);
}

/* The sender's word about itself counts where the kernel knows the sender; else its instance. */
static void test_evidence(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct buf published _cleanup_buf_ = BUF_INIT(0);
    otlp_attribute_string(&published, 1, "service.instance.id", BYTES_LIT("i-1"));
    int64_t silent = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t telling = fixture_process(fixture, 20, buf_bytes(&published));
    const struct {
        int64_t process;
        struct peer sender;
        const char *instance;
        int outcome;
    } cases[] = {
        {silent, own_sender, NULL, JOIN_MATCHED},
        {silent, own_sender, "i-9", JOIN_MATCHED},
        {silent, other_sender, "i-1", JOIN_NO_SAMPLES},
        {silent, fixture_forwarder, NULL, JOIN_MATCHED},
        {telling, own_sender, "i-1", JOIN_MATCHED},
        {telling, own_sender, "i-2", JOIN_NO_SAMPLES},
        {telling, other_sender, "i-1", JOIN_MATCHED},
        {telling, other_sender, "i-2", JOIN_NO_SAMPLES},
        {telling, unknown_sender, "i-1", JOIN_MATCHED},
        {telling, unknown_sender, NULL, JOIN_NO_SAMPLES},
        {telling, fixture_forwarder, NULL, JOIN_MATCHED},
        {telling, fixture_forwarder, "i-2", JOIN_NO_SAMPLES},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture_span(&span, 1, 10 + i, 0, 5, 0);
        buf_clear(&span.resource);
        span.sender = cases[i].sender;
        if (cases[i].instance)
            otlp_attribute_string(&span.resource, 1, "service.instance.id",
                                  BYTES_STR(cases[i].instance));
        add(fixture, T0 + SECOND, (struct fixture_ids){1, 10 + i, 0}, 1, cases[i].process);
        join(fixture, &span, cases[i].outcome);
        fixture_span_close(&span);
    }
}

/* Only a stranger has samples: the span is not annotated, and they wait for the true one. */
static void test_contradiction(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span fake, true_one;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t other = fixture_process(fixture, 20, BYTES(NULL, 0));
    int64_t foreign = counted("not_owner");
    fixture_span(&fake, 1, 2, 0, 5, 666);
    fixture_span(&true_one, 1, 2, 0, 5, 1000010); /* the pid in its own namespace */
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 3, 0}, 1, other);
    join(fixture, &fake, JOIN_NO_SAMPLES);
    assert_int_equal(join(fixture, &true_one, JOIN_MATCHED).samples, 1);
    fake.span_id[7] = true_one.span_id[7];
    fixture_span_id(3, fake.span_id);
    join(fixture, &fake, JOIN_NO_SAMPLES);
    assert_int_equal(fixture_leave(fixture, T0 + 61 * SECOND, &left), 2);
    assert_int_equal(fixture_left_joined(&left), 1);
    assert_int_equal(counted("not_owner") - foreign, 1);
    fixture_span_close(&fake);
    fixture_span_close(&true_one);
}

/* What a process has published of itself decides where no pid does. */
static void test_owner_by_service(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct buf shop = {0}, bank = {0}, instance = {0};
    otlp_attribute_string(&shop, 1, "service.name", BYTES_LIT("shop"));
    otlp_attribute_string(&bank, 1, "service.name", BYTES_LIT("bank"));
    otlp_attribute_string(&instance, 1, "service.name", BYTES_LIT("shop"));
    otlp_attribute_string(&instance, 1, "service.instance.id", BYTES_LIT("i-7"));
    int64_t unknown = fixture_process(fixture, 30, BYTES(NULL, 0));
    int64_t other = fixture_process(fixture, 20, buf_bytes(&bank));
    int64_t owner = fixture_process(fixture, 10, buf_bytes(&shop));
    int64_t exact = fixture_process(fixture, 40, buf_bytes(&instance));
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, unknown);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, other);
    for (int i = 0; i < 3; i++)
        add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 1, owner);
    fixture_span(&span, 1, 2, 0, 5, 0);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 3);
    fixture_span_close(&span);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 3, 0}, 1, owner);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 3, 0}, 1, exact);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 3, 0}, 1, exact);
    fixture_span(&span, 1, 3, 0, 5, 0);
    otlp_attribute_string(&span.resource, 1, "service.instance.id", BYTES_LIT("i-7"));
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 2);
    fixture_span_close(&span);
    buf_close(&shop);
    buf_close(&bank);
    buf_close(&instance);
}

/* No evidence at all: who was first. */
static void test_owner_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    int64_t one = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t two = fixture_process(fixture, 20, BYTES(NULL, 0));
    fixture_span(&span, 1, 2, 0, 5, 0);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, one);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 1, two);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 1, two);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    fixture_reopen(fixture);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 1);
    fixture_span_close(&span);
}

/* Facts that change while a span runs do not part its total. */
static void test_facts_change(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct buf shop = {0};
    otlp_attribute_string(&shop, 1, "service.name", BYTES_LIT("shop"));
    int64_t before = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t after = fixture_process(fixture, 10, buf_bytes(&shop));
    assert_int_not_equal(before, after);
    fixture_span(&span, 1, 2, 0, 5, 0);
    add(fixture, T0 + 1 * SECOND, (struct fixture_ids){1, 2, 0}, 1, before);
    add(fixture, T0 + 2 * SECOND, (struct fixture_ids){1, 2, 0}, 1, after);
    assert_int_equal(join(fixture, &span, JOIN_MATCHED).samples, 2);
    fixture_span_close(&span);
    buf_close(&shop);
}

static void test_off_cpu(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    struct sample sample = fixture_sample(T0 + SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    sample.kind = SAMPLE_OFF_CPU;
    sample.value_ns = 3 * SECOND;
    fixture_add(fixture, &sample);
    fixture_span(&span, 1, 2, 0, 5, 10);
    join(fixture, &span, JOIN_NO_SAMPLES); /* nothing to tell of CPU time */
    assert_int_equal(fixture_leave(fixture, T0 + 5 * SECOND, &left), 1);
    assert_true(left.samples[0].matched);
    assert_int_equal(left.samples[0].sample.value_ns, 3 * SECOND);
    fixture_span_close(&span);
}

static void test_no_context(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    add(fixture, T0, (struct fixture_ids){0, 0, 0}, 1, 0);
    assert_int_equal(fixture_leave(fixture, T0, &left), 1);
    assert_false(left.samples[0].matched);
    assert_int_equal(left.samples[0].sample.process, 0);
}

/* A clock that was set back by an hour must not keep samples. */
static void test_future(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    add(fixture, T0 + 3600 * SECOND, (struct fixture_ids){1, 2, 0}, 1, process);
    assert_int_equal(fixture_leave(fixture, T0, &left), 1);
}

/* A batch leaves in parts, and a restart finds the rest. */
static void test_parts(void **state)
{
    struct fixture *fixture = *state;
    struct join *store = store_join(fixture->store);
    struct fixture_span span;
    struct fixture_left left;
    int64_t process = fixture_process(fixture, 10, BYTES(NULL, 0));
    int64_t stack = fixture_stack(fixture, 1);
    fixture_begin(fixture);
    join_batch_begin(store);
    for (unsigned i = 0; i < 30; i++) {
        struct sample sample =
            fixture_sample(T0 + i, (struct fixture_ids){1, 2 + i % 3, 0}, stack, process);
        sample.tid = i;
        assert_int_equal(join_add_sample(store, &sample), 0);
    }
    assert_int_equal(join_batch_commit(store), 0);
    fixture_commit(fixture);
    fixture_span(&span, 1, 3, 0, 5, 10);
    join(fixture, &span, JOIN_MATCHED);
    fixture_reopen(fixture); /* joined, not yet left */
    assert_int_equal(fixture_leave(fixture, T0 + SECOND, &left), 10);
    for (unsigned i = 0; i < 10; i++) {
        assert_true(left.samples[i].matched);
        assert_int_equal(left.samples[i].sample.tid, 1 + 3 * i);
    }
    fixture_reopen(fixture);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 20);
    assert_int_equal(fixture_leave(fixture, T0 + 61 * SECOND, &left), 20);
    assert_int_equal(fixture_left_joined(&left), 0);
    fixture_reopen(fixture);
    assert_int_equal(join_pending_samples(store_join(fixture->store)), 0);
    fixture_span_close(&span);
}

static void test_attributes(void **state)
{
    struct fixture *fixture = *state;
    struct fixture_left left;
    uint8_t big[SAMPLE_ATTRIBUTES_MAX + 1] = {0x4a};
    struct sample sample = fixture_sample(T0, (struct fixture_ids){0, 0, 0}, 1, 0);
    sample.attributes = BYTES(big, sizeof(big));
    fixture_add(fixture, &sample);
    assert_int_equal(fixture_leave(fixture, T0, &left), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_matched),
        TEST(test_no_samples),
        TEST(test_long_span),
        TEST(test_late),
        TEST(test_trace_alone),
        TEST(test_trace_alone_long),
        TEST(test_trace_alone_two_processes),
        TEST(test_span_alone),
        TEST(test_unsampled),
        TEST(test_owner),
        TEST(test_no_evidence),
        TEST(test_span_of_a_stranger),
        TEST(test_evidence),
        TEST(test_contradiction),
        TEST(test_owner_by_service),
        TEST(test_owner_unknown),
        TEST(test_facts_change),
        TEST(test_off_cpu),
        TEST(test_no_context),
        TEST(test_future),
        TEST(test_parts),
        TEST(test_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
