/* SPDX-License-Identifier: Apache-2.0 */
/* The brokers are the test's: it keeps the sockets at which they would answer. */
#include "agent-bpf/symbolizer/elastic_connections.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MANY = 30 };

static struct loop *loop;
static struct elastic_connections connections;
static struct elastic_request requests[MANY];

static struct broker {
    uint32_t pid;
    int answer_fd;
} brokers[MANY];
static int n_brokers, n_active, most_active, connect_error;

static struct {
    uint32_t pid;
    int outcome;
    bool has_fd;
} last;
static int n_answers;

static int connect_agent(void *context, uint32_t pid, struct bytes path, int answer_fd)
{
    assert_ptr_equal(context, &brokers);
    assert_true(bytes_equal(path, BYTES_LIT("/run/agent")));
    if (connect_error) {
        close(answer_fd);
        return connect_error;
    }
    assert_true(n_brokers < MANY);
    brokers[n_brokers++] = (struct broker){.pid = pid, .answer_fd = answer_fd};
    n_active++;
    most_active = n_active > most_active ? n_active : most_active;
    return 0;
}

static void on_connected(void *context, uint32_t pid, int outcome, int fd)
{
    assert_ptr_equal(context, &last);
    last.pid = pid;
    last.outcome = outcome;
    last.has_fd = fd >= 0;
    n_answers++;
    fd_close(fd);
}

static void broker_ends(struct broker *broker)
{
    fd_closep(&broker->answer_fd);
    n_active--;
}

static void broker_answers(struct broker *broker, int outcome, int fd)
{
    const struct control_message answer = {.kind = CONTROL_CONNECTED, .outcome = outcome};
    assert_int_equal(control_send(broker->answer_fd, &answer, fd), 0);
    broker_ends(broker);
}

static int setup(void **state)
{
    (void)state;
    const struct elastic_connections_settings settings = {.loop = loop,
                                                          .connect_agent = connect_agent,
                                                          .connect_context = &brokers,
                                                          .connected = on_connected,
                                                          .context = &last};
    memset(requests, 0, sizeof(requests));
    n_brokers = n_active = most_active = connect_error = n_answers = 0;
    return elastic_connections_open(&connections, &settings);
}

static int teardown(void **state)
{
    (void)state;
    elastic_connections_close(&connections);
    for (int i = 0; i < n_brokers; i++)
        fd_closep(&brokers[i].answer_fd);
    return 0;
}

static void ask(uint32_t pid, uint64_t owner)
{
    const struct process_owner who = {.kind = OWNER_CGROUP, .pid = pid, .key = owner};
    assert_int_equal(
        elastic_connect(&connections, &requests[pid], pid, &who, BYTES_LIT("/run/agent")), 0);
}

/* Until so many have started. */
static void wait_for_brokers(int n)
{
    uint64_t limit_ns = clock_monotonic_ns() + 30 * NS_PER_SEC;
    while (n_brokers < n && clock_monotonic_ns() < limit_ns)
        assert_int_equal(loop_once(loop, 1000), 0);
    assert_int_equal(n_brokers, n);
}

static void wait_for_answers(int n)
{
    uint64_t limit_ns = clock_monotonic_ns() + 30 * NS_PER_SEC;
    while (n_answers < n && clock_monotonic_ns() < limit_ns)
        assert_int_equal(loop_once(loop, 1000), 0);
    assert_int_equal(n_answers, n);
}

static void test_answers(void **state)
{
    (void)state;
    ask(1, 1);
    wait_for_brokers(1);
    assert_int_equal(brokers[0].pid, 1);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    broker_answers(&brokers[0], 0, fd);
    close(fd);
    wait_for_answers(1);
    assert_int_equal(last.pid, 1);
    assert_int_equal(last.outcome, 0);
    assert_true(last.has_fd);
    ask(1, 1); /* again */
    wait_for_brokers(2);
    broker_answers(&brokers[1], -ENOENT, -1);
    wait_for_answers(2);
    assert_int_equal(last.outcome, -ENOENT);
    ask(2, 1);
    wait_for_brokers(3);
    broker_answers(&brokers[2], 0, -1); /* success without a socket is none */
    wait_for_answers(3);
    assert_int_equal(last.outcome, -EPROTO);
    ask(3, 1);
    wait_for_brokers(4);
    broker_ends(&brokers[3]);
    wait_for_answers(4);
    assert_int_equal(last.pid, 3);
    assert_int_equal(last.outcome, -ECONNABORTED);
    assert_false(last.has_fd);
    connect_error = -EAGAIN;
    ask(4, 1);
    wait_for_answers(5);
    assert_int_equal(last.pid, 4);
    assert_int_equal(last.outcome, -EAGAIN);
}

/* All are served, few at a time, none faster than the pace. */
static void test_few_at_a_time(void **state)
{
    (void)state;
    uint64_t from_ns = clock_monotonic_ns();
    for (uint32_t pid = 0; pid < MANY; pid++)
        ask(pid, pid % 3);
    wait_for_brokers(ELASTIC_BROKERS_MAX);
    uint64_t pause_ns = clock_monotonic_ns() + 5 * ELASTIC_PACE_NS;
    while (clock_monotonic_ns() < pause_ns)
        assert_int_equal(loop_once(loop, 10), 0);
    assert_int_equal(n_brokers, ELASTIC_BROKERS_MAX); /* the others wait */
    for (int i = 0; i < MANY; i++) {
        wait_for_brokers(i + ELASTIC_BROKERS_MAX < MANY ? i + ELASTIC_BROKERS_MAX : MANY);
        broker_answers(&brokers[i], -ENOENT, -1);
        wait_for_answers(i + 1);
    }
    assert_int_equal(most_active, ELASTIC_BROKERS_MAX);
    assert_true(clock_monotonic_ns() - from_ns >= (MANY - 1) * ELASTIC_PACE_NS);
}

static size_t queue_of_last(void)
{
    for (size_t i = 0; i < ELASTIC_QUEUES; i++)
        if (!list_empty(&connections.queues[i]))
            return i;
    return ELASTIC_QUEUES;
}

/* A key that is in another queue than that of owner 0. */
static uint64_t other_owner(void)
{
    ask(0, 0);
    size_t queue = queue_of_last();
    elastic_request_drop(&requests[0]);
    for (uint64_t key = 1;; key++) {
        ask(0, key);
        bool other = queue_of_last() != queue;
        elastic_request_drop(&requests[0]);
        if (other)
            return key;
    }
}

static void test_owners_have_turns(void **state)
{
    (void)state;
    uint64_t other = other_owner();
    for (uint32_t pid = 0; pid < MANY - 1; pid++)
        ask(pid, 0);
    ask(MANY - 1, other);
    wait_for_brokers(2);
    assert_true(brokers[0].pid == MANY - 1 || brokers[1].pid == MANY - 1);
    assert_true(brokers[0].pid == 0 || brokers[1].pid == 0);
}

static void test_dropped(void **state)
{
    (void)state;
    const struct process_owner owner = {.kind = OWNER_USER};
    char path[CONTROL_PATH_MAX + 1] = "";
    for (uint32_t pid = 0; pid < 4; pid++)
        ask(pid, 0);
    ask(1, 0); /* keeps its turn */
    elastic_request_drop(&requests[0]);
    elastic_request_drop(&requests[2]);
    elastic_request_drop(&requests[2]);
    wait_for_brokers(2);
    assert_int_equal(brokers[0].pid, 1);
    assert_int_equal(brokers[1].pid, 3);
    assert_int_equal(
        elastic_connect(&connections, &requests[0], 0, &owner, BYTES(path, sizeof(path))),
        -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_few_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owners_have_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dropped, setup, teardown),
    };
    if (loop_open(&loop))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    loop_close(loop);
    return failed;
}
