/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"
#include "base/clock.h"
#include "test/support/faults/fail_alloc.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

struct end {
    struct watch watch;
    int peer_fd;
    int n_ready;
    struct end *victim; /* is stopped and scribbled over by ready() */
};

static void end_ready(struct watch *watch, uint32_t events)
{
    struct end *end = container_of(watch, struct end, watch);
    end->n_ready++;
    assert_true(events & (EPOLLIN | EPOLLHUP | EPOLLOUT));
    if (end->victim) {
        watch_stop(&end->victim->watch);
        end->victim->watch.ready = NULL; /* a call would crash */
    }
}

static void end_open(struct end *end)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    *end = (struct end){.watch = {.fd = fds[0], .events = EPOLLIN, .ready = end_ready},
                        .peer_fd = fds[1]};
}

static void end_close(struct end *end)
{
    watch_stop(&end->watch);
    close(end->watch.fd);
    close(end->peer_fd);
}

static void test_watch(void **state)
{
    struct loop *loop;
    struct end end;
    (void)state;
    assert_int_equal(loop_open(&loop), 0);
    end_open(&end);
    watch_stop(&end.watch); /* not started: fine */
    assert_int_equal(watch_start(loop, &end.watch), 0);
    assert_int_equal(loop_once(loop, 0), 0);
    assert_int_equal(end.n_ready, 0);
    assert_int_equal(write(end.peer_fd, "x", 1), 1);
    loop_once(loop, 1000);
    loop_once(loop, 1000); /* level-triggered */
    assert_int_equal(end.n_ready, 2);
    assert_int_equal(watch_change(&end.watch, 0), 0);
    loop_once(loop, 0);
    assert_int_equal(end.n_ready, 2);
    assert_int_equal(watch_change(&end.watch, EPOLLIN), 0);
    loop_once(loop, 0);
    assert_int_equal(end.n_ready, 3);
    watch_stop(&end.watch);
    assert_null(end.watch.loop);
    loop_once(loop, 0);
    assert_int_equal(end.n_ready, 3);
    end_close(&end);
    loop_close(loop);
    loop_close(NULL);
}

static void test_watch_errors(void **state)
{
    struct loop *loop;
    struct watch bad = {.fd = -1, .events = EPOLLIN, .ready = end_ready};
    (void)state;
    assert_int_equal(loop_open(&loop), 0);
    assert_int_equal(watch_start(loop, &bad), -EBADF);
    assert_null(bad.loop);
    struct end end;
    end_open(&end);
    struct watch twin = end.watch;
    assert_int_equal(watch_start(loop, &end.watch), 0);
    assert_int_equal(watch_start(loop, &twin), -EEXIST);
    end_close(&end);
    loop_close(loop);
}

/* Both are ready in one round; whichever comes first stops the other. */
static void test_stop_another_in_its_round(void **state)
{
    struct loop *loop;
    struct end a, b;
    (void)state;
    assert_int_equal(loop_open(&loop), 0);
    end_open(&a);
    end_open(&b);
    a.victim = &b;
    b.victim = &a;
    assert_int_equal(watch_start(loop, &a.watch), 0);
    assert_int_equal(watch_start(loop, &b.watch), 0);
    assert_int_equal(write(a.peer_fd, "x", 1), 1);
    assert_int_equal(write(b.peer_fd, "x", 1), 1);
    loop_once(loop, 1000);
    assert_int_equal(a.n_ready + b.n_ready, 1);
    end_close(&a);
    end_close(&b);
    loop_close(loop);
}

struct alarm {
    struct timer timer;
    int *order;
    int place;
    uint64_t again_ns;
    int n_fired;
};

static void alarm_fire(struct timer *timer)
{
    struct alarm *alarm = container_of(timer, struct alarm, timer);
    struct loop *loop = timer->loop;
    assert_int_equal(timer->due_ns, 0);
    alarm->n_fired++;
    if (alarm->order)
        alarm->place = (*alarm->order)++;
    if (alarm->again_ns)
        timer_start(loop, timer, alarm->again_ns);
}

static void test_timer_order(void **state)
{
    enum { N_ALARMS = 200 };
    static struct alarm alarms[N_ALARMS];
    uint64_t due[N_ALARMS], latest = 0;
    struct loop *loop;
    int order = 0;
    (void)state;
    srand(3);
    assert_int_equal(loop_open(&loop), 0);
    for (int i = 0; i < N_ALARMS; i++) {
        alarms[i] = (struct alarm){.timer.fire = alarm_fire, .order = &order};
        timer_start(loop, &alarms[i].timer, (uint64_t)(rand() % 50) * NS_PER_MS);
        if (i % 3 == 0) /* arms anew */
            timer_start(loop, &alarms[i].timer, (uint64_t)(rand() % 50) * NS_PER_MS);
        due[i] = alarms[i].timer.due_ns;
        latest = due[i] > latest ? due[i] : latest;
    }
    while (order < N_ALARMS)
        assert_int_equal(loop_once(loop, -1), 0);
    assert_true(clock_monotonic_ns() >= latest);
    for (int i = 0; i < N_ALARMS; i++) {
        assert_int_equal(alarms[i].n_fired, 1);
        for (int k = 0; k < N_ALARMS; k++)
            if (due[i] < due[k])
                assert_true(alarms[i].place < alarms[k].place);
    }
    loop_close(loop);
}

static void test_timer_stop_and_again(void **state)
{
    struct alarm stopped = {.timer.fire = alarm_fire};
    struct alarm repeated = {.timer.fire = alarm_fire, .again_ns = NS_PER_MS};
    struct loop *loop;
    (void)state;
    assert_int_equal(loop_open(&loop), 0);
    timer_stop(&stopped.timer); /* not armed: fine */
    timer_start(loop, &stopped.timer, NS_PER_MS);
    timer_start(loop, &repeated.timer, 0);
    timer_stop(&stopped.timer);
    while (repeated.n_fired < 5)
        loop_once(loop, -1);
    assert_int_equal(stopped.n_fired, 0);
    timer_start(loop, &stopped.timer, UINT64_MAX); /* never, and no overflow */
    loop_once(loop, 2);
    assert_int_equal(stopped.n_fired, 0);
    timer_stop(&stopped.timer);
    timer_stop(&repeated.timer);
    uint64_t before = clock_monotonic_ns();
    loop_once(loop, 20);
    assert_true(clock_monotonic_ns() - before >= 19 * NS_PER_MS);
    loop_close(loop);
}

struct parcel {
    struct post post;
    struct loop *loop;
    int n_called;
    int n_again;
};

static void parcel_call(struct post *post)
{
    struct parcel *parcel = container_of(post, struct parcel, post);
    LOOP_THREAD(parcel->loop);
    parcel->n_called++;
    if (parcel->n_again-- > 0)
        loop_post(parcel->loop, post);
    else
        loop_stop(parcel->loop);
}

static void *post_it(void *argument)
{
    struct parcel *parcel = argument;
    loop_post(parcel->loop, &parcel->post);
    return NULL;
}

static void test_post_wakes(void **state)
{
    struct parcel parcel = {.post.call = parcel_call, .n_again = 10};
    pthread_t thread;
    (void)state;
    assert_int_equal(loop_open(&parcel.loop), 0);
    assert_int_equal(pthread_create(&thread, NULL, post_it, &parcel), 0);
    assert_int_equal(loop_run(parcel.loop), 0);
    assert_int_equal(parcel.n_called, 11);
    pthread_join(thread, NULL);
    loop_close(parcel.loop);
}

enum { N_THREADS = 4, N_PARCELS = 2000 };
static struct parcel parcels[N_THREADS][N_PARCELS];

static void count_call(struct post *post)
{
    struct parcel *parcel = container_of(post, struct parcel, post);
    LOOP_THREAD(parcel->loop);
    parcel->n_called++;
}

static void *post_many(void *argument)
{
    struct parcel *mine = argument;
    for (int i = 0; i < N_PARCELS; i++)
        loop_post(mine[i].loop, &mine[i].post);
    return NULL;
}

static void test_posts_from_threads(void **state)
{
    struct loop *loop;
    pthread_t threads[N_THREADS];
    (void)state;
    assert_int_equal(loop_open(&loop), 0);
    for (int i = 0; i < N_THREADS * N_PARCELS; i++)
        parcels[i / N_PARCELS][i % N_PARCELS] =
            (struct parcel){.post.call = count_call, .loop = loop};
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, parcels[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        while (!parcels[i][N_PARCELS - 1].n_called)
            assert_int_equal(loop_once(loop, 1000), 0);
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < N_THREADS * N_PARCELS; i++)
        assert_int_equal(parcels[i / N_PARCELS][i % N_PARCELS].n_called, 1);
    loop_close(loop);
}

static void test_unpost_and_close(void **state)
{
    struct parcel taken_back = {.post.call = count_call}, left = {.post.call = count_call};
    struct loop *loop;
    (void)state;
    assert_int_equal(loop_open(&loop), 0);
    taken_back.loop = left.loop = loop;
    loop_unpost(loop, &taken_back.post); /* not posted: fine */
    loop_post(loop, &taken_back.post);
    loop_post(loop, &left.post);
    loop_unpost(loop, &taken_back.post);
    loop_close(loop);
    assert_int_equal(taken_back.n_called, 0);
    assert_int_equal(left.n_called, 1);
}

static void test_open_failures(void **state)
{
    struct loop *loop = NULL;
    (void)state;
    fail_alloc_at(1);
    assert_int_equal(loop_open(&loop), -ENOMEM);
    assert_true(fail_alloc_hit());
    /* Without free descriptors: the first one, then the second fails. */
    struct rlimit before, few;
    int fds[64], n = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (n < 64 && (fds[n] = dup(0)) >= 0)
        n++;
    for (int n_free = 0; n_free < 2; n_free++) {
        if (n_free)
            close(fds[--n]);
        assert_int_equal(loop_open(&loop), -EMFILE);
    }
    while (n)
        close(fds[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(loop_open(&loop), 0);
    loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_watch_errors),
        cmocka_unit_test(test_stop_another_in_its_round),
        cmocka_unit_test(test_timer_order),
        cmocka_unit_test(test_timer_stop_and_again),
        cmocka_unit_test(test_post_wakes),
        cmocka_unit_test(test_posts_from_threads),
        cmocka_unit_test(test_unpost_and_close),
        cmocka_unit_test(test_open_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
