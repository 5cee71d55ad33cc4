/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/stats.h"
#include "proto/tls/tls_session.h"
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

enum role { ROLE_CLIENT, ROLE_SERVER, ROLES };

static const char *const role_names[] = {[ROLE_CLIENT] = "client", [ROLE_SERVER] = "server"};
static const char *const outcome_names[] = {
    [TLS_OK] = "ok",
    [TLS_TIMEOUT] = "timeout",
    [TLS_LOST] = "lost",
    [TLS_NOT_TLS] = "not_tls",
    [TLS_NO_COMMON_WAYS] = "no_common_ways",
    [TLS_NO_ALPN] = "no_alpn",
    [TLS_NO_CERTIFICATE] = "no_certificate",
    [TLS_UNTRUSTED] = "untrusted_certificate",
    [TLS_EXPIRED] = "expired_certificate",
    [TLS_WRONG_NAME] = "wrong_name",
    [TLS_REFUSED_BY_PEER] = "refused_by_peer",
    [TLS_CROWDED_OUT] = "crowded_out",
    [TLS_FAILED] = "failed",
};
STAT_COUNTERS(handshakes, "spanprof_tls_handshakes_total", "TLS handshakes, by role and outcome.",
              STAT_LABELS("role", role_names, ROLES, "outcome", outcome_names, TLS_OUTCOMES));

void tls_count(bool server, enum tls_outcome outcome)
{
    stat_add_of2(&handshakes, server ? ROLE_SERVER : ROLE_CLIENT, outcome, 1);
}

static void handshake_end(struct tls_handshake *handshake, enum tls_outcome outcome,
                          const char *why)
{
    watch_stop(&handshake->watch);
    timer_stop(&handshake->deadline);
    tls_count(handshake->tls->context->settings.server, outcome);
    handshake->done(handshake, outcome, why);
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct tls_handshake *handshake = container_of(watch, struct tls_handshake, watch);
    char why[TLS_WHY_MAX] = "";
    (void)events;
    int result = tls_step(handshake->tls, why);
    if (result == -EAGAIN)
        result = watch_change(watch, tls_waits_to_write(handshake->tls) ? EPOLLOUT : EPOLLIN)
                     ? (int)TLS_FAILED
                     : -EAGAIN;
    if (result != -EAGAIN)
        handshake_end(handshake, (enum tls_outcome)result, why);
}

static void on_deadline(struct timer *timer)
{
    handshake_end(container_of(timer, struct tls_handshake, deadline), TLS_TIMEOUT,
                  "the TLS handshake took too long");
}

int tls_handshake_start_to(struct tls_handshake *handshake, struct loop *loop,
                           struct tls_context *context, const char *name, int fd,
                           uint64_t timeout_ns)
{
    handshake->tls = NULL;
    handshake->fd = fd;
    handshake->loop = loop;
    handshake->deadline = (struct timer){.fire = on_deadline};
    handshake->watch = (struct watch){
        .fd = fd, .events = context->settings.server ? EPOLLIN : EPOLLOUT, .ready = on_ready};
    int error = tls_open(context, name, fd, &handshake->tls);
    if (!error)
        error = watch_start(loop, &handshake->watch);
    if (error) {
        tls_handshake_stop(handshake);
        return error;
    }
    timer_start(loop, &handshake->deadline, timeout_ns);
    return 0;
}

int tls_handshake_start(struct tls_handshake *handshake, struct loop *loop,
                        struct tls_context *context, int fd, uint64_t timeout_ns)
{
    return tls_handshake_start_to(handshake, loop, context, NULL, fd, timeout_ns);
}

void tls_handshake_stop(struct tls_handshake *handshake)
{
    watch_stop(&handshake->watch);
    timer_stop(&handshake->deadline);
    tls_close(handshake->tls);
    handshake->tls = NULL;
    if (handshake->fd >= 0)
        close(handshake->fd);
    handshake->fd = -1;
}
