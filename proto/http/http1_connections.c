/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd's timeout counts from the last byte, so a peer that sends one byte now and then
 * could stay forever. The limits here count from the start of a phase. Each phase has a list in
 * order of deadlines; one timer is set for the earliest deadline of all.
 */
#include "proto/http/http1_connections.h"
#include "base/clock.h"
#include <stdlib.h>
#include <sys/socket.h>

static uint64_t due_ns(const struct http1_phase *phase)
{
    if (list_empty(&phase->connections))
        return UINT64_MAX;
    const struct list *first = phase->connections.next;
    return container_of(first, struct http1_connection, link)->since_ns + phase->timeout_ns;
}

static void arm_sweep(struct http1_connections *all)
{
    uint64_t due = UINT64_MAX, now = clock_monotonic_ns();
    for (int i = 0; i < all->n_phases; i++) {
        uint64_t next = due_ns(&all->phases[i]);
        due = next < due ? next : due;
    }
    if (due != UINT64_MAX && (!all->sweep.due_ns || all->sweep.due_ns > due))
        timer_start(all->loop, &all->sweep, due > now ? due - now : 0);
}

/* libmicrohttpd sees the end of the stream and closes the connection in its own time. */
static void shut_first(struct http1_phase *phase, struct stat_ref counter)
{
    struct list *link = list_pop(&phase->connections);
    stat_add_ref(counter, 1);
    shutdown(container_of(link, struct http1_connection, link)->fd, SHUT_RDWR);
}

static void sweep_phase(struct http1_phase *phase)
{
    uint64_t now = clock_monotonic_ns();
    while (due_ns(phase) <= now)
        shut_first(phase, phase->timed_out);
}

static void on_sweep(struct timer *timer)
{
    struct http1_connections *all = container_of(timer, struct http1_connections, sweep);
    for (int i = 0; i < all->n_phases; i++)
        sweep_phase(&all->phases[i]);
    arm_sweep(all);
}

static void make_room(struct http1_connections *all)
{
    struct http1_phase *first = &all->phases[0];
    for (int i = 1; i < all->n_phases; i++)
        if (due_ns(&all->phases[i]) < due_ns(first))
            first = &all->phases[i];
    if (!list_empty(&first->connections))
        shut_first(first, all->crowded_out);
}

void http1_connections_init(struct http1_connections *all)
{
    all->n = 0;
    all->sweep = (struct timer){.fire = on_sweep};
    for (int i = 0; i < all->n_phases; i++)
        list_init(&all->phases[i].connections);
}

void http1_connections_close(struct http1_connections *all)
{
    timer_stop(&all->sweep);
}

void http1_connection_enter(struct http1_connection *connection, int phase)
{
    struct http1_connections *all = connection->all;
    list_remove(&connection->link);
    connection->since_ns = clock_monotonic_ns();
    if (phase != HTTP1_NO_PHASE)
        list_append(&all->phases[phase].connections, &connection->link);
    arm_sweep(all);
}

static void http1_connections_forget(struct http1_connections *all, void **socket_context)
{
    struct http1_connection *connection = *socket_context;
    if (connection)
        list_remove(&connection->link);
    free(connection);
    *socket_context = NULL;
    all->n--;
    stat_add(all->gauge, -1);
}

void http1_connections_notify(struct http1_connections *all, struct MHD_Connection *mhd,
                              void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_CLOSED)
        return http1_connections_forget(all, socket_context);
    all->n++;
    stat_add(all->gauge, 1);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http1_connection *connection = info ? calloc(1, sizeof(*connection)) : NULL;
    if (!connection)
        return;
    connection->all = all;
    connection->fd = info->connect_fd;
    *socket_context = connection;
    if (all->max && all->n >= all->max)
        make_room(all); /* for the next one */
    http1_connection_enter(connection, 0);
}

struct http1_connection *http1_connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}
