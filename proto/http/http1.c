/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that libmicrohttpd has read but not yet processed make no descriptor ready. So it must be
 * run again while MHD_get_timeout() returns 0, and by a timer for any other value; otherwise large
 * uploads hang.
 */
#include "proto/http/http1.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define RUNS_A_ROUND 64 /* then the rest of the loop gets its turn */

void http1_run(struct http1 *http)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool timed = true, again = true;
    timer_stop(&http->again);
    for (int i = 0; i < RUNS_A_ROUND && again; i++) {
        MHD_run(http->mhd);
        timed = MHD_get_timeout(http->mhd, &ms) == MHD_YES;
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

int http1_open(struct http1 *http, struct loop *loop, const struct http1_settings *settings)
{
    http->loop = loop;
    http->again = (struct timer){.fire = on_again};
    http->watch = (struct watch){.fd = -1};
    http->mhd = MHD_start_daemon(settings->flags | MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0,
                                 NULL, NULL, settings->handler, settings->context, MHD_OPTION_ARRAY,
                                 settings->options, MHD_OPTION_END);
    if (!http->mhd)
        return -ENOMEM;
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

int http1_add(struct http1 *http, int fd, const struct sockaddr *peer, socklen_t size)
{
    if (MHD_add_connection(http->mhd, fd, peer, size) != MHD_YES) /* it has closed fd */
        return -EBUSY;
    http1_run_soon(http);
    return 0;
}

void http1_close(struct http1 *http)
{
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
