/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A libmicrohttpd daemon on our loop. It does not listen: it gets accepted connections. It works on
 * an epoll descriptor of its own, which the loop watches; http1_run() is the only caller of
 * MHD_run().
 * Thread: loop. Embedded by its owner.
 */
#include "base/loop.h"
#include <microhttpd.h>

struct http1 {
    struct MHD_Daemon *mhd;
    struct loop *loop;
    struct watch watch;
    struct timer again;
    void (*ran)(struct http1 *http); /* after each run; may be NULL */
};

struct http1_settings {
    unsigned flags; /* MHD_USE_EPOLL and MHD_USE_NO_LISTEN_SOCKET are added */
    MHD_AccessHandlerCallback handler;
    void *context; /* of the handler */
    const struct MHD_OptionItem
        *options; /* end with MHD_OPTION_END; read during http1_open() only */
};

/* 0, -ENOMEM, -ENOTSUP. Sets all but `ran`. */
int http1_open(struct http1 *http, struct loop *loop, const struct http1_settings *settings);
/* A connected socket to serve; taken over in any case. peer: as getpeername() has it. 0, or -EBUSY:
 * there are too many. */
int http1_add(struct http1 *http, int fd, const struct sockaddr *peer, socklen_t size);
void http1_run(struct http1 *http);
void http1_run_soon(struct http1 *http); /* in the next round of the loop */
void http1_close(struct http1 *http);    /* also when not open */
/* For MHD_OPTION_EXTERNAL_LOGGER: its context is the area of the log, a static text. */
void http1_log(void *area, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
