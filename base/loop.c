/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping a watch from within a callback must take back events that epoll has already delivered in
 * this round: its owner may be freed by then, or a new one may live at its address. So the round's
 * events lie in the loop, and watch_stop() strikes them out.
 *
 * Timers are kept in a sorted list. They are few kinds with fixed delays, so a new one nearly
 * always belongs to one of the ends; insertion starts from the nearer one.
 */
#include "base/loop.h"
#include "base/clock.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LOOP_EVENTS = 64, LOOP_POSTS_A_ROUND = 1024 };

struct loop {
    int epoll_fd;
    struct watch wake; /* an eventfd: posts are there */
    bool stopped;
    size_t n_watches; /* without wake */
    pthread_t thread;
    struct list timers; /* by due_ns */
    struct epoll_event events[LOOP_EVENTS];
    int n_events; /* of this round */
    pthread_mutex_t lock;
    struct list posts; /* under lock */
};

static void drain_wake(struct watch *watch, uint32_t events)
{
    uint64_t n;
    (void)events;
    while (read(watch->fd, &n, sizeof(n)) < 0 && errno == EINTR)
        ;
}

int loop_open(struct loop **result)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return -ENOMEM;
    list_init(&loop->timers);
    list_init(&loop->posts);
    pthread_mutex_init(&loop->lock, NULL);
    loop->thread = pthread_self();
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = (struct watch){.fd = -1, .events = EPOLLIN, .ready = drain_wake};
    int error = loop->epoll_fd < 0 ? -errno : 0;
    if (!error) {
        loop->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        error = loop->wake.fd < 0 ? -errno : watch_start(loop, &loop->wake);
    }
    if (error) {
        loop_close(loop);
        return error;
    }
    loop->n_watches = 0;
    *result = loop;
    return 0;
}

/* Posts taken one by one, so that one that waits can still be taken back by loop_unpost(). */
static bool call_post(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct list *link = list_pop(&loop->posts);
    pthread_mutex_unlock(&loop->lock);
    if (!link)
        return false;
    struct post *post = container_of(link, struct post, link);
    post->call(post);
    return true;
}

/* A bound a round: posts that post again must not starve the sockets. */
static void call_posts(struct loop *loop)
{
    for (int i = 0; i < LOOP_POSTS_A_ROUND && call_post(loop); i++)
        ;
}

static bool posts_waiting(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool waiting = !list_empty(&loop->posts);
    pthread_mutex_unlock(&loop->lock);
    return waiting;
}

void loop_close(struct loop *loop)
{
    if (!loop)
        return;
    while (call_post(loop))
        ;
    assert(list_empty(&loop->timers));
    assert(!loop->n_watches);
    if (loop->wake.fd >= 0)
        close(loop->wake.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

bool loop_is_current(const struct loop *loop)
{
    return pthread_equal(loop->thread, pthread_self());
}

static struct timer *first_timer(struct loop *loop)
{
    struct list *link = list_first(&loop->timers);
    return link ? container_of(link, struct timer, link) : NULL;
}

/* Rounded up: waking a fraction of a millisecond early would spin until the timer is due. */
static int wait_ms(struct loop *loop, int timeout_ms)
{
    struct timer *timer = first_timer(loop);
    if (posts_waiting(loop))
        return 0;
    if (!timer)
        return timeout_ms;
    uint64_t now = clock_monotonic_ns();
    uint64_t left_ms = timer->due_ns <= now ? 0 : (timer->due_ns - now + NS_PER_MS - 1) / NS_PER_MS;
    if (left_ms > 3600 * 1000)
        left_ms = 3600 * 1000;
    return timeout_ms >= 0 && (uint64_t)timeout_ms < left_ms ? timeout_ms : (int)left_ms;
}

/* Timers that were due when the round began; one that is armed again without delay waits for the
 * next round. */
static void fire_timers(struct loop *loop)
{
    uint64_t now = clock_monotonic_ns();
    struct timer *timer;
    while ((timer = first_timer(loop)) && timer->due_ns <= now) {
        timer_stop(timer);
        timer->fire(timer);
    }
}

int loop_once(struct loop *loop, int timeout_ms)
{
    if (!pthread_equal(loop->thread, pthread_self()))
        loop->thread = pthread_self();
    int n = epoll_wait(loop->epoll_fd, loop->events, LOOP_EVENTS, wait_ms(loop, timeout_ms));
    if (n < 0 && errno != EINTR)
        return -errno;
    loop->n_events = n < 0 ? 0 : n;
    for (int i = 0; i < loop->n_events; i++) {
        struct watch *watch = loop->events[i].data.ptr;
        if (watch)
            watch->ready(watch, loop->events[i].events);
    }
    loop->n_events = 0;
    call_posts(loop);
    fire_timers(loop); /* behind the posts: what those put off with no delay is done at once */
    return 0;
}

int loop_run(struct loop *loop)
{
    int error = 0;
    while (!loop->stopped && !error)
        error = loop_once(loop, -1);
    loop->stopped = false;
    return error;
}

void loop_stop(struct loop *loop)
{
    LOOP_THREAD(loop);
    loop->stopped = true;
}

static int loop_control(struct loop *loop, int operation, struct watch *watch)
{
    struct epoll_event event = {.events = watch->events, .data.ptr = watch};
    return epoll_ctl(loop->epoll_fd, operation, watch->fd, &event) ? -errno : 0;
}

int watch_start(struct loop *loop, struct watch *watch)
{
    LOOP_THREAD(loop);
    assert(!watch->loop && watch->ready);
    int error = loop_control(loop, EPOLL_CTL_ADD, watch);
    if (error)
        return error;
    watch->loop = loop;
    loop->n_watches++;
    return 0;
}

int watch_change(struct watch *watch, uint32_t events)
{
    assert(watch->loop);
    LOOP_THREAD(watch->loop);
    if (watch->events == events)
        return 0;
    uint32_t before = watch->events;
    watch->events = events;
    int error = loop_control(watch->loop, EPOLL_CTL_MOD, watch);
    if (error)
        watch->events = before;
    return error;
}

void watch_stop(struct watch *watch)
{
    struct loop *loop = watch->loop;
    if (!loop)
        return;
    LOOP_THREAD(loop);
    loop_control(loop, EPOLL_CTL_DEL, watch); /* fails if the fd is closed, which has removed it */
    for (int i = 0; i < loop->n_events; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
    watch->loop = NULL;
    loop->n_watches--;
}

static uint64_t loop_due(struct list *link)
{
    return container_of(link, struct timer, link)->due_ns;
}

/* The link behind which a timer of that time belongs: after all that are due at the same time. */
static struct list *timer_place(struct loop *loop, uint64_t due_ns)
{
    struct list *head = &loop->timers, *at;
    if (list_empty(head) || due_ns >= loop_due(head->prev))
        return head->prev;
    if (due_ns < loop_due(head->next))
        return head;
    if (due_ns - loop_due(head->next) < loop_due(head->prev) - due_ns) {
        for (at = head->next; loop_due(at->next) <= due_ns; at = at->next)
            ;
        return at;
    }
    for (at = head->prev->prev; loop_due(at) > due_ns; at = at->prev)
        ;
    return at;
}

void timer_start(struct loop *loop, struct timer *timer, uint64_t delay_ns)
{
    LOOP_THREAD(loop);
    assert(timer->fire);
    timer_stop(timer);
    uint64_t now = clock_monotonic_ns();
    timer->due_ns = delay_ns > UINT64_MAX - now ? UINT64_MAX : now + delay_ns;
    timer->loop = loop;
    list_prepend(timer_place(loop, timer->due_ns), &timer->link);
}

void timer_stop(struct timer *timer)
{
    if (!timer->due_ns)
        return;
    LOOP_THREAD(timer->loop);
    list_remove(&timer->link);
    timer->due_ns = 0;
}

void loop_post(struct loop *loop, struct post *post)
{
    static const uint64_t one = 1;
    pthread_mutex_lock(&loop->lock);
    bool first = list_empty(&loop->posts);
    list_append(&loop->posts, &post->link);
    pthread_mutex_unlock(&loop->lock);
    /* Behind others the loop is awake already. A full eventfd counter wakes it too. */
    if (first)
        while (write(loop->wake.fd, &one, sizeof(one)) < 0 && errno == EINTR)
            ;
}

void loop_unpost(struct loop *loop, struct post *post)
{
    LOOP_THREAD(loop);
    pthread_mutex_lock(&loop->lock);
    list_remove(&post->link);
    pthread_mutex_unlock(&loop->lock);
}
