/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/channel.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/otlp/dialer.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define WINDOW_BYTES 65535
#define HANDSHAKE_NS (10 * NS_PER_SEC)
#define WRITE_NS     (30 * NS_PER_SEC)

struct connection {
    struct list link;
    struct channel *channel;
    struct h2_conn *h2;
};

struct channel {
    struct channel_settings settings;
    struct h2_handler handler;
    struct list waiters;
    struct list connections;    /* including those that are closing */
    struct connection *current; /* takes new streams; NULL: none */
    struct dialer dialer;
    uint64_t keepalive_ns; /* 0: no keepalive pings */
    struct timer wake;     /* answers waiters in the next round of the loop */
};

/* ---- waiters ---- */

static void answer_waiters(struct channel *channel, struct h2_conn *conn, const char *why)
{
    struct list answered = LIST_INIT(answered), *link;
    while ((link = list_pop(&channel->waiters)))
        list_append(&answered, link);
    while ((link = list_pop(&answered))) {
        struct channel_waiter *waiter = container_of(link, struct channel_waiter, link);
        waiter->ready(waiter, conn, why);
    }
}

/* ---- connections ---- */

static void connection_ended(struct h2_conn *conn, int error)
{
    struct connection *connection = h2_owner(conn);
    struct channel *channel = connection->channel;
    if (error && channel->settings.tls && !h2_settled(conn)) /* some servers send no TLS alert */
        log_warn("exporter",
                 "%s hung up after the TLS handshake; it may demand a certificate: tls::cert_file",
                 channel->settings.endpoint->host);
    else if (error)
        log_debug("exporter", "connection to %s ended: %s", channel->settings.endpoint->host,
                  strerror(-error));
    if (channel->current == connection)
        channel->current = NULL;
    list_remove(&connection->link);
    h2_close(conn);
    free(connection);
}

static void connection_goaway(struct h2_conn *conn, uint32_t h2_error)
{
    struct connection *connection = h2_owner(conn);
    struct channel *channel = connection->channel;
    if (h2_error == H2_ENHANCE_YOUR_CALM) /* gRPC servers send this for too_many_pings */
        channel->keepalive_ns *= 2;
    if (channel->current == connection)
        channel->current = NULL;
    h2_shutdown(conn);
}

static int connection_open(struct channel *channel, int fd, struct tls *tls)
{
    const struct config_keepalive *keepalive = channel->settings.keepalive;
    const struct h2_settings settings = {.max_streams = 1,
                                         .stream_window = WINDOW_BYTES,
                                         .connection_window = 4 * WINDOW_BYTES,
                                         .handshake_timeout_ns = HANDSHAKE_NS,
                                         .write_timeout_ns = WRITE_NS,
                                         .keepalive_ns = channel->keepalive_ns,
                                         .keepalive_timeout_ns = keepalive->timeout_ns,
                                         .keepalive_idle = keepalive->permit_without_stream,
                                         .tls = tls};
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        tls_close(tls);
        close(fd);
        return -ENOMEM;
    }
    connection->channel = channel;
    int error = h2_open(channel->settings.loop, fd, &settings, &channel->handler, connection,
                        &connection->h2);
    if (error) {
        free(connection);
        return error;
    }
    list_append(&channel->connections, &connection->link);
    channel->current = connection;
    return 0;
}

static void on_dialed(struct dialer *dialer, int fd, struct tls *tls, const char *why)
{
    struct channel *channel = container_of(dialer, struct channel, dialer);
    if (fd < 0)
        return answer_waiters(channel, NULL, why);
    int error = connection_open(channel, fd, tls);
    if (error)
        return answer_waiters(channel, NULL, strerror(-error));
    answer_waiters(channel, channel->current->h2, NULL);
}

static void on_wake(struct timer *timer)
{
    struct channel *channel = container_of(timer, struct channel, wake);
    if (channel->current && !h2_closing(channel->current->h2))
        return answer_waiters(channel, channel->current->h2, NULL);
    if (dialer_busy(&channel->dialer) || list_empty(&channel->waiters))
        return;
    channel->current = NULL;
    dialer_start(&channel->dialer);
}

/* ---- verbs ---- */

int channel_open(const struct channel_settings *settings, struct channel **channelp)
{
    LOOP_THREAD(settings->loop);
    struct channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return -ENOMEM;
    channel->settings = *settings;
    channel->handler = *settings->handler;
    channel->handler.goaway = connection_goaway;
    channel->handler.ended = connection_ended;
    dialer_init(&channel->dialer,
                &(struct dialer_settings){.loop = settings->loop,
                                          .endpoint = settings->endpoint,
                                          .socket_users = settings->socket_users,
                                          .connect_timeout_ns = settings->connect_timeout_ns,
                                          .tls = settings->tls},
                on_dialed);
    channel->keepalive_ns = settings->keepalive->enabled ? settings->keepalive->time_ns : 0;
    channel->wake.fire = on_wake;
    list_init(&channel->waiters);
    list_init(&channel->connections);
    *channelp = channel;
    return 0;
}

void channel_want(struct channel *channel, struct channel_waiter *waiter)
{
    LOOP_THREAD(channel->settings.loop);
    list_append(&channel->waiters, &waiter->link);
    timer_start(channel->settings.loop, &channel->wake, 0);
}

void channel_unwant(struct channel_waiter *waiter)
{
    list_remove(&waiter->link);
}

void channel_close(struct channel *channel)
{
    if (!channel)
        return;
    LOOP_THREAD(channel->settings.loop);
    struct list *link;
    while (list_pop(&channel->waiters))
        continue;
    timer_stop(&channel->wake);
    dialer_close(&channel->dialer);
    while ((link = list_pop(&channel->connections))) {
        struct connection *connection = container_of(link, struct connection, link);
        h2_close(connection->h2);
        free(connection);
    }
    free(channel);
}
