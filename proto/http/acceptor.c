/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/acceptor.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSE_NS (100 * NS_PER_MS) /* when file descriptors have run out */

const char *const accept_refusal_names[] = {
    [ACCEPT_OVER_LIMIT] = "max_connections", [ACCEPT_OUT_OF_FILES] = "out_of_files"};

static void set_listening(struct acceptor *acceptor, bool on)
{
    for (size_t i = 0; i < acceptor->n_listeners; i++)
        watch_change(&acceptor->listeners[i].watch, on ? EPOLLIN : 0);
}

static void on_again(struct timer *timer)
{
    set_listening(container_of(timer, struct acceptor, again), true);
}

/* The listening socket stays readable while connections wait: without a pause the loop would spin.
 */
static void acceptor_pause(struct acceptor *acceptor)
{
    stat_add_ref(acceptor->out_of_files, 1);
    log_warn(acceptor->area, "out of file descriptors: connections wait");
    set_listening(acceptor, false);
    timer_start(acceptor->loop, &acceptor->again, PAUSE_NS);
}

/* Closes the connection at once, so that its peer can try another server instead of waiting. */
static void acceptor_refuse(struct acceptor *acceptor, int fd)
{
    stat_add_ref(acceptor->out_of_files, 1);
    close(fd);
}

static void on_acceptable(struct watch *watch, uint32_t events)
{
    struct acceptor *acceptor = container_of(watch, struct acceptor_listener, watch)->acceptor;
    (void)events;
    for (int i = 0; i < ACCEPTOR_ROUND; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        bool none_left =
            fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
        if (none_left)
            return acceptor_pause(acceptor);
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0) /* the connection is gone already */
            continue;
        if (!acceptor->uses_reserve && files_are_short(fd))
            acceptor_refuse(acceptor, fd);
        else
            acceptor->accepted(acceptor, fd);
    }
}

static void acceptor_end(struct acceptor *acceptor, bool close_sockets)
{
    timer_stop(&acceptor->again);
    for (size_t i = 0; i < acceptor->n_listeners; i++) {
        watch_stop(&acceptor->listeners[i].watch);
        if (close_sockets)
            close(acceptor->listeners[i].watch.fd);
    }
    acceptor->n_listeners = 0;
}

int acceptor_start(struct acceptor *acceptor, int *fds, size_t n)
{
    LOOP_THREAD(acceptor->loop);
    assert(n <= ACCEPTOR_SOCKETS_MAX);
    acceptor->again = (struct timer){.fire = on_again};
    acceptor->n_listeners = 0;
    for (size_t i = 0; i < n; i++) {
        struct acceptor_listener *listener = &acceptor->listeners[i];
        listener->acceptor = acceptor;
        listener->watch = (struct watch){.fd = fds[i], .events = EPOLLIN, .ready = on_acceptable};
        int error = watch_start(acceptor->loop, &listener->watch);
        if (error) {
            acceptor_end(acceptor, false);
            return error;
        }
        acceptor->n_listeners = i + 1;
    }
    for (size_t i = 0; i < n; i++)
        fds[i] = -1;
    return 0;
}

void acceptor_stop(struct acceptor *acceptor)
{
    acceptor_end(acceptor, true);
}
