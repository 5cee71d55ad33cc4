/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that libmicrohttpd has read but not yet processed make no descriptor ready. So it must be
 * run again while MHD_get_timeout() returns 0, and by a timer for any other value; otherwise large
 * uploads hang. It must also be run again after connections were closed: at its connection limit it
 * stops watching the listening socket, and resumes only at the start of the next run.
 *
 * If libmicrohttpd cannot start, it closes the listening socket that it was given, so it gets a
 * duplicate.
 */
#include "proto/http/http1.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RUNS_A_ROUND 64 /* then the rest of the loop gets its turn */

static unsigned n_connections(const struct http1 *http)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

void http1_run(struct http1 *http)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool timed = true, again = true;
    timer_stop(&http->again);
    for (int i = 0; i < RUNS_A_ROUND && again; i++) {
        unsigned before = n_connections(http);
        MHD_run(http->mhd);
        bool closed = n_connections(http) < before;
        timed = MHD_get_timeout(http->mhd, &ms) == MHD_YES;
        if (closed) {
            timed = true;
            ms = 0;
        }
        again = timed && ms == 0;
    }
    if (timed)
        timer_start(http->loop, &http->again, ms * NS_PER_MS);
    if (http->ran)
        http->ran(http);
}

static void on_ready(struct watch *watch, uint32_t events)
{
    (void)events;
    http1_run(container_of(watch, struct http1, watch));
}

static void on_again(struct timer *timer)
{
    http1_run(container_of(timer, struct http1, again));
}

void http1_run_soon(struct http1 *http)
{
    timer_start(http->loop, &http->again, 0);
}

int http1_open(struct http1 *http, struct loop *loop, int fd, const struct http1_settings *settings)
{
    http->loop = loop;
    http->again = (struct timer){.fire = on_again};
    http->watch = (struct watch){.fd = -1};
    http->quiet = fd < 0;
    http->mhd = NULL;
    int own = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0 && own < 0)
        return -errno;
    const struct MHD_OptionItem listens[] = {
        {fd < 0 ? MHD_OPTION_END : MHD_OPTION_LISTEN_SOCKET, own, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = settings->flags | MHD_USE_EPOLL | (fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0u);
    http->mhd = MHD_start_daemon(flags, 0, settings->accept, settings->context, settings->handler,
                                 settings->context, MHD_OPTION_ARRAY, settings->options,
                                 MHD_OPTION_ARRAY, listens, MHD_OPTION_END);
    if (!http->mhd)
        return -ENOMEM; /* own is closed */
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    int error = info ? 0 : -ENOTSUP;
    if (!error) {
        http->watch = (struct watch){.fd = info->epoll_fd, .events = EPOLLIN, .ready = on_ready};
        error = watch_start(loop, &http->watch);
    }
    if (error)
        http1_close(http);
    return error;
}

void http1_add(struct http1 *http, int fd, const struct sockaddr *peer, socklen_t size)
{
    MHD_add_connection(http->mhd, fd, peer, size); /* closes fd if it fails */
    http1_run_soon(http);
}

void http1_quiesce(struct http1 *http)
{
    if (!http->mhd || http->quiet)
        return;
    http->quiet = true;
    int own = MHD_quiesce_daemon(http->mhd);
    if (own >= 0)
        close(own);
}

void http1_close(struct http1 *http)
{
    http1_quiesce(http);
    watch_stop(&http->watch);
    timer_stop(&http->again);
    if (http->mhd)
        MHD_stop_daemon(http->mhd);
    http->mhd = NULL;
}

void http1_log(void *area, const char *format, va_list arguments)
{
    char text[256];
    vsnprintf(text, sizeof(text), format, arguments);
    text[strcspn(text, "\n")] = '\0';
    log_debug(area, "%s", text);
}
