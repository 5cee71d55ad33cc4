/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promise to readers: wherever a thread is stopped, its record is whole. Once with signals that
 * come at any time, whose handler looks; once exhaustively, with a child that is stopped after each
 * single instruction and looked at from outside.
 */
#include "context/context_layout.h"
#include "context/spanprof_context.h"
#include "test/support/fixtures/skip.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

extern _Thread_local struct otel_thread_record *otel_thread_ctx_v1;

/* Context i: every byte of it is i, and each attribute's value is as long as its key says. */
static void make_ids(int i, uint8_t trace_id[16], uint8_t span_id[8])
{
    memset(trace_id, i, 16);
    memset(span_id, i, 8);
}

static bool all_are(const uint8_t *bytes, size_t size, uint8_t value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* raw: record and its attributes, as read. */
static bool is_whole(const uint8_t *raw)
{
    const struct otel_thread_record *record = (const struct otel_thread_record *)raw;
    uint8_t value = raw[0];
    size_t size = record->attributes_size, at = 0;
    if (record->valid != 1 || !value || !all_are(raw, 24, value) || record->trace_flags != value ||
        size > SPANPROF_CONTEXT_ATTRIBUTES_MAX)
        return false;
    while (at < size) {
        size_t key = record->attributes[at], len = record->attributes[at + 1];
        if (at + 2 + len > size || (len != key && len != key + 40) ||
            !all_are(record->attributes + at + 2, len, value))
            return false;
        at += 2 + len;
    }
    return at == size;
}

/* One round of everything that changes the record. */
static int change(int i)
{
    uint8_t trace_id[16], span_id[8], value[64];
    struct spanprof_context outer;
    int error;
    make_ids(i, trace_id, span_id);
    memset(value, i, sizeof(value));
    error = spanprof_context_set(trace_id, span_id, (uint8_t)i);
    error |= spanprof_context_set_attribute(5, value, 5);
    error |= spanprof_context_set_attribute(11, value, 11);
    error |= spanprof_context_set_attribute(5, value, 45); /* replaced by a longer one */
    make_ids(i + 1, trace_id, span_id);
    memset(value, i + 1, sizeof(value));
    error |= spanprof_context_enter(trace_id, span_id, (uint8_t)(i + 1), &outer);
    error |= spanprof_context_set_attribute(7, value, 7);
    error |= spanprof_context_attach(&outer);
    if (outer.attributes_size != 2 + 11 + 2 + 45 || outer.span_id[0] != i)
        error = -EPROTO;
    error |= spanprof_context_clear();
    return error;
}

static _Atomic unsigned n_signals, n_seen, n_torn, n_busy, n_nested, n_wrong;

static void look(int signal)
{
    (void)signal;
    uint8_t trace_id[16], span_id[8];
    struct spanprof_context outer;
    n_signals++;
    const uint8_t *raw =
        (const uint8_t *)*(struct otel_thread_record *volatile *)&otel_thread_ctx_v1;
    if (raw) {
        n_seen++;
        n_torn += !is_whole(raw);
    }
    /* A handler with a span of its own either gets it and gives it back, or is told that it cannot.
     */
    make_ids(250, trace_id, span_id);
    int error = spanprof_context_enter(trace_id, span_id, 250, &outer);
    if (error == -EBUSY) {
        n_busy++;
        n_wrong += (const uint8_t *)otel_thread_ctx_v1 != raw;
        return;
    }
    n_nested++;
    n_wrong += error || !otel_thread_ctx_v1 || otel_thread_ctx_v1->span_id[0] != 250;
    n_wrong += spanprof_context_attach(&outer) != 0;
    n_wrong += (otel_thread_ctx_v1 == NULL) != (raw == NULL);
}

static _Atomic bool stop;

static void *send_signals(void *argument)
{
    pthread_t *target = argument;
    while (!atomic_load(&stop))
        pthread_kill(*target, SIGUSR1);
    return NULL;
}

static void test_signal_storm(void **state)
{
    struct sigaction action = {.sa_handler = look};
    pthread_t self = pthread_self(), sender;
    int error = spanprof_context_clear();
    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&sender, NULL, send_signals, &self), 0);
    time_t end = time(NULL) + 4; /* on a busy machine signals may come slowly */
    for (int i = 0; n_signals < 40000 && (n_seen < 200 || time(NULL) < end) && !error; i++)
        error = change(1 + i % 200);
    atomic_store(&stop, true);
    pthread_join(sender, NULL);
    print_message("%u signals: %u saw a context, %u could not begin, %u had one of their own\n",
                  n_signals, n_seen, n_busy, n_nested);
    assert_int_equal(error, 0);
    assert_int_equal(n_torn, 0);
    assert_int_equal(n_wrong, 0);
    assert_true(n_seen > 100 && n_nested > 100);
    spanprof_context_clear();
}

static int read_child(pid_t child, const void *address, void *out, size_t size)
{
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_readv(child, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -errno;
}

/* Looks at the stopped child; which context it has, 0 = none, -1 = a torn one. */
static int look_at(pid_t child)
{
    const uint8_t *pointer;
    uint8_t raw[OTEL_THREAD_RECORD_HEAD + SPANPROF_CONTEXT_ATTRIBUTES_MAX];
    const struct otel_thread_record *record = (const struct otel_thread_record *)raw;
    assert_int_equal(read_child(child, &otel_thread_ctx_v1, &pointer, sizeof(pointer)), 0);
    if (!pointer)
        return 0;
    assert_int_equal(read_child(child, pointer, raw, OTEL_THREAD_RECORD_HEAD), 0);
    if (record->attributes_size > SPANPROF_CONTEXT_ATTRIBUTES_MAX)
        return -1;
    if (record->attributes_size)
        assert_int_equal(read_child(child, pointer + 28, raw + 28, record->attributes_size), 0);
    return is_whole(raw) ? raw[0] : -1;
}

static void test_every_instruction(void **state)
{
    unsigned n_steps = 0, n_of[3] = {0}, n_changes = 0;
    int status, last = 0;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        raise(SIGSTOP);
        int error = change(1);
        raise(SIGSTOP);
        _exit(error ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip_because("tracing is forbidden");
    assert_true(WIFSTOPPED(status));
    while (n_steps++ < 1000000) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP)
            break;
        assert_int_equal(WSTOPSIG(status), SIGTRAP);
        int now = look_at(child);
        assert_in_range(now, 0, 2);
        n_of[now]++;
        n_changes += now != last;
        last = now;
    }
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    print_message("%u instructions: %u without, %u with the outer, %u with the inner span\n",
                  n_steps, n_of[0], n_of[1], n_of[2]);
    assert_int_equal(n_changes, 4); /* none, outer, inner, outer, none */
    assert_true(n_of[1] > 50 && n_of[2] > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signal_storm),
                                       cmocka_unit_test(test_every_instruction)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
