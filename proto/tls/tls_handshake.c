/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/stats.h"
#include "proto/tls/tls_session.h"
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define HELP "TLS handshakes, by role and outcome."
#define OUTCOME_STAT(variable, label)                                                              \
    STAT_COUNTER(server_##variable, "spanprof_tls_handshakes_total",                               \
                 "role=\"server\",outcome=\"" label "\"", HELP);                                   \
    STAT_COUNTER(client_##variable, "spanprof_tls_handshakes_total",                               \
                 "role=\"client\",outcome=\"" label "\"", HELP)
OUTCOME_STAT(ok, "ok");
OUTCOME_STAT(timeout, "timeout");
OUTCOME_STAT(lost, "lost");
OUTCOME_STAT(not_tls, "not_tls");
OUTCOME_STAT(no_common_ways, "no_common_ways");
OUTCOME_STAT(no_alpn, "no_alpn");
OUTCOME_STAT(no_certificate, "no_certificate");
OUTCOME_STAT(untrusted, "untrusted_certificate");
OUTCOME_STAT(expired, "expired_certificate");
OUTCOME_STAT(wrong_name, "wrong_name");
OUTCOME_STAT(refused, "refused_by_peer");
OUTCOME_STAT(crowded_out, "crowded_out");
OUTCOME_STAT(failed, "failed");

void tls_count(bool server, enum tls_outcome outcome)
{
#define PAIR(variable)                                                                             \
    {                                                                                              \
        &client_##variable, &server_##variable                                                     \
    }
    static struct metric *const stats[TLS_OUTCOMES][2] = {
        [TLS_OK] = PAIR(ok),
        [TLS_TIMEOUT] = PAIR(timeout),
        [TLS_LOST] = PAIR(lost),
        [TLS_NOT_TLS] = PAIR(not_tls),
        [TLS_NO_COMMON_WAYS] = PAIR(no_common_ways),
        [TLS_NO_ALPN] = PAIR(no_alpn),
        [TLS_NO_CERTIFICATE] = PAIR(no_certificate),
        [TLS_UNTRUSTED] = PAIR(untrusted),
        [TLS_EXPIRED] = PAIR(expired),
        [TLS_WRONG_NAME] = PAIR(wrong_name),
        [TLS_REFUSED_BY_PEER] = PAIR(refused),
        [TLS_CROWDED_OUT] = PAIR(crowded_out),
        [TLS_FAILED] = PAIR(failed),
    };
#undef PAIR
    stat_add(stats[outcome][server], 1);
}

static void end(struct tls_handshake *handshake, enum tls_outcome outcome, const char *why)
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
        end(handshake, (enum tls_outcome)result, why);
}

static void on_deadline(struct timer *timer)
{
    end(container_of(timer, struct tls_handshake, deadline), TLS_TIMEOUT,
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
