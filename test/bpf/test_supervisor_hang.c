/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that is not heard: one that hangs is replaced, however it hangs; one that waits for a CPU
 * is not. The supervisor and its children are real, and so is the want of CPU time.
 */
#include "agent-bpf/heartbeat.h"
#include "bpf_test.h"
#include "supervisor_fixture.h"
#include "agent-bpf/drain/procstream.h"
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/supervisor/hang_detector.h"
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define SILENCE_NS (1000 * NS_PER_MS)
#define STEP_NS    (300 * NS_PER_MS)
#define OTHERS     2

enum work {
    RESTS,
    STEPS, /* is heard between steps of STEP_NS of CPU time, with what others leave of a CPU */
    SPINS, /* for ever */
    DRIPS, /* gets on a little now and then, and waits for others meanwhile */
    LONG,  /* is at one thing on its loop for long, but step by step */
};

struct board {               /* shared with all processes of a test */
    _Atomic unsigned starts; /* of the symbolizer */
    _Atomic int work;
    _Atomic unsigned steps;
    _Atomic int low_pid; /* of the symbolizer, once it has given way to all others */
};

struct part { /* a child of the supervisor */
    struct supervisor_client child;
    struct loop *loop;
};

/* If the supervisor is gone, child has no loop any more. */
static void stop(struct supervisor_client *child)
{
    loop_stop(container_of(child, struct part, child)->loop);
}

static int run(struct part *part)
{
    int error = loop_run(part->loop);
    supervisor_client_stop(&part->child);
    loop_close(part->loop);
    return error < 0;
}

static int service_main(const struct service_handles *handles)
{
    struct part part = {.child = {.stop = stop}};
    if (loop_open(&part.loop) < 0 ||
        supervisor_client_start(&part.child, part.loop, handles->control_fd) < 0)
        return 1;
    int error = run(&part);
    procstream_close(handles->procstream);
    return error;
}

static uint64_t own_cpu_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

static void burn_cpu(uint64_t ns)
{
    uint64_t end = own_cpu_ns() + ns;
    while (own_cpu_ns() < end)
        ;
}

static void pin_to_a_cpu(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (sched_setaffinity(0, sizeof(set), &set))
        abort();
}

static void set_policy(pid_t pid, int policy)
{
    const struct sched_param none = {0};
    if (sched_setscheduler(pid, policy, &none))
        abort();
}

/* At first with the least share of a CPU that the kernel gives. */
static void step(void)
{
    if (!board->low_pid) {
        pin_to_a_cpu();
        set_policy(0, SCHED_IDLE);
        board->low_pid = getpid();
    }
    burn_cpu(STEP_NS);
    board->steps++;
}

static void work(enum work what)
{
    if (what == STEPS)
        step();
    else
        sleep_ms(100);
    while (board->work == SPINS)
        ;
    while (board->work == DRIPS) {
        burn_cpu(NS_PER_MS);
        sleep_ms(20);
    }
}

static void work_long(struct timer *timer)
{
    uint64_t end_ns = clock_monotonic_ns() + 5 * SILENCE_NS;
    for (uint64_t i = 0; clock_monotonic_ns() < end_ns; i++) {
        heartbeat_at(i);
        board->steps++;
    }
    loop_stop(timer->loop);
}

static int run_long(int control_fd)
{
    struct part part = {.child = {.stop = stop}};
    struct timer begin = {.fire = work_long};
    if (loop_open(&part.loop) < 0 ||
        supervisor_client_start(&part.child, part.loop, control_fd) < 0)
        return 1;
    timer_start(part.loop, &begin, 0);
    return run(&part);
}

static int symbolizer_main(const struct symbolizer_handles *handles)
{
    board->starts++;
    for (;;) {
        heartbeat_send(handles->control_fd);
        if (board->work != LONG)
            work((enum work)board->work);
        else if (run_long(handles->control_fd))
            break;
        else
            board->work = RESTS;
    }
    return 1;
}

static int setup(void **state)
{
    (void)state;
    bool opened = board_open(sizeof(*board));
    return opened ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return board_close(sizeof(*board));
}

static void start_supervisor(void)
{
    const struct role_settings given = board_given();
    const struct supervisor_settings settings = {
        .service = given,
        .symbolizer = given,
        .store_directory = "/nonexistent/store",
        .want_sampler = true,
        .sampler = {.frequency_hz = 1, .ring_size_bytes = 1 << 20},
        .symbolizer_hang_ns = SILENCE_NS,
    };
    supervisor_start(&settings);
    assert_true(WAIT_FOR(board->starts == 1, 10000));
}

static void stop_supervisor(void)
{
    int status = 0;
    kill(supervisor_pid, SIGTERM);
    assert_true(WAIT_FOR(waitpid(supervisor_pid, &status, WNOHANG) == supervisor_pid, 12000));
    supervisor_pid = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void start_others(pid_t others[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        others[i] = fork();
        if (others[i] == 0) {
            pin_to_a_cpu();
            burn_cpu(60 * NS_PER_SEC);
            _exit(0);
        }
    }
}

static void end_others(const pid_t others[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        kill(others[i], SIGKILL);
        waitpid(others[i], NULL, 0);
    }
}

/* A new one would not get a CPU either. */
static void test_starved_is_spared(void **state)
{
    pid_t others[OTHERS];
    (void)state;
    start_supervisor();
    start_others(others);
    board->work = STEPS;
    bool begun = WAIT_FOR(board->low_pid, 20000);
    sleep_ms(6 * SILENCE_NS / NS_PER_MS);
    unsigned steps = board->steps, starts = board->starts;
    end_others(others);
    assert_true(begun);
    assert_true(steps <= 1); /* so it was silent for half of the time and more */
    assert_int_equal(starts, 1);
    set_policy(board->low_pid, SCHED_OTHER);
    assert_true(WAIT_FOR(board->steps > steps + 2, 20000));
    assert_int_equal(board->starts, 1);
    board->work = RESTS;
    stop_supervisor();
}

static void test_long_work_is_heard(void **state)
{
    (void)state;
    start_supervisor();
    board->work = LONG;
    assert_true(WAIT_FOR(board->steps > 0, 10000));
    assert_true(WAIT_FOR(board->work == RESTS, 30000));
    assert_int_equal(board->starts, 1);
    stop_supervisor();
}

static void check_is_replaced(enum work what)
{
    start_supervisor();
    board->work = (int)what;
    assert_true(WAIT_FOR(board->starts == 2, 10000));
    board->work = RESTS;
    stop_supervisor();
}

static void test_busy_for_nothing_is_replaced(void **state)
{
    (void)state;
    check_is_replaced(SPINS);
}

static void test_dripping_is_replaced(void **state)
{
    (void)state;
    check_is_replaced(DRIPS);
}

/* ---- the judgement by itself ---- */

static bool judge(bool runnable, uint64_t silent_ms, uint64_t ran_ms, uint64_t waited_ms)
{
    const struct hang_detector silence = {
        .since_ns = 7 * NS_PER_SEC,
        .need = {.known = true, .ran_ns = 11 * NS_PER_SEC, .waited_ns = 13 * NS_PER_SEC}};
    const struct cpu_need need = {.known = true,
                                  .runnable = runnable,
                                  .ran_ns = silence.need.ran_ns + ran_ms * NS_PER_MS,
                                  .waited_ns = silence.need.waited_ns + waited_ms * NS_PER_MS};
    return hang_detector_is_hang(&silence, &need, silence.since_ns + silent_ms * NS_PER_MS,
                                 5 * NS_PER_SEC);
}

static void test_judgement(void **state)
{
    (void)state;
    assert_true(judge(false, 5000, 0, 0)); /* sleeps */
    assert_false(judge(false, 4999, 0, 0));
    assert_false(judge(false, 9000, 100, 4001)); /* sleeps just now, and hardly got a CPU before */
    assert_true(judge(false, 9000, 100, 4000));
    assert_true(judge(true, 5000, 5000, 0)); /* busy */
    assert_true(judge(true, 60000, 5000, 55000));
    assert_false(judge(true, 60000, 4999, 0)); /* waits since long */
    assert_false(judge(true, 60000, 0, 0));
    const struct hang_detector unknown = {.since_ns = 0};
    assert_true(
        hang_detector_is_hang(&unknown, &(struct cpu_need){0}, 5 * NS_PER_SEC, 5 * NS_PER_SEC));
    assert_false(
        hang_detector_is_hang(&unknown, &(struct cpu_need){0}, 4 * NS_PER_SEC, 5 * NS_PER_SEC));
}

static void test_figures(void **state)
{
    (void)state;
    struct cpu_need need;
    struct bytes schedstat = BYTES_LIT("1200000000 34 5\n");
    assert_true(cpu_need_parse(BYTES_LIT("7 (a) S) R 1 2"), schedstat, &need));
    assert_true(need.known && need.runnable && need.ran_ns == 1200000000 && need.waited_ns == 34);
    assert_true(cpu_need_parse(BYTES_LIT("7 (R) D 1 2"), schedstat, &need));
    assert_false(need.runnable);
    static const char *const bad[] = {"", "7 (a", "7 (a)", "7 (a) "};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(cpu_need_parse(BYTES_STR(bad[i]), schedstat, &need) || need.known);
    assert_false(cpu_need_parse(BYTES_LIT("7 (a) R 1"), BYTES_LIT("12"), &need) || need.known);
    cpu_need_read(getpid(), &need);
    uint64_t ran_ns = need.ran_ns;
    assert_true(need.known && need.runnable);
    burn_cpu(50 * NS_PER_MS);
    cpu_need_read(getpid(), &need);
    assert_true(need.ran_ns >= ran_ns + 40 * NS_PER_MS); /* it lags by a tick of the scheduler */
    cpu_need_read(1 << 30, &need);
    assert_false(need.known);
}

int main(int argc, char **argv)
{
    TAKE_ROLE(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judgement),
        cmocka_unit_test(test_figures),
        cmocka_unit_test_setup_teardown(test_starved_is_spared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_work_is_heard, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy_for_nothing_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dripping_is_replaced, setup, teardown),
    };
    if (!bpf_test_possible())
        return BPF_TEST_SKIP;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
