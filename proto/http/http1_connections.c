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

static struct http1_connection *earliest_due(struct http1_connections *all)
{
    struct http1_phase *first = &all->phases[0];
    for (int i = 1; i < all->n_phases; i++)
        if (due_ns(&all->phases[i]) < due_ns(first))
            first = &all->phases[i];
    struct list *link = list_first(&first->connections);
    return link ? container_of(link, struct http1_connection, link) : NULL;
}

static void connection_leave(struct http1_connection *connection, struct stat_ref counter)
{
    crowd_remove(&connection->member);
    list_remove(&connection->link);
    connection->all->n_leaving++;
    stat_add_ref(counter, 1);
    shutdown(connection->fd, SHUT_RDWR);
}

/* For a connection of this peer. False: all the others stay. */
static bool make_room(struct http1_connections *all, uint64_t peer)
{
    struct crowd_member *member = crowd_choose(&all->crowd, peer);
    struct http1_connection *leaves =
        member ? container_of(member, struct http1_connection, member) : NULL;
    if (!leaves && all->busy_too)
        leaves = earliest_due(all);
    if (leaves)
        connection_leave(leaves, all->crowded_out);
    return leaves;
}

void http1_connections_init(struct http1_connections *all)
{
    all->n = all->n_leaving = 0;
    crowd_init(&all->crowd);
    all->sweep = (struct timer){.fire = on_sweep};
    for (int i = 0; i < all->n_phases; i++)
        list_init(&all->phases[i].connections);
}

void http1_connections_close(struct http1_connections *all)
{
    timer_stop(&all->sweep);
    crowd_close(&all->crowd);
}

void http1_connection_enter(struct http1_connection *connection, int phase)
{
    struct http1_connections *all = connection->all;
    list_remove(&connection->link);
    connection->since_ns = clock_monotonic_ns();
    crowd_set_idle(&connection->member, phase == 0);
    if (!connection->member.crowd) /* it is leaving */
        return;
    if (phase != HTTP1_NO_PHASE)
        list_append(&all->phases[phase].connections, &connection->link);
    arm_sweep(all);
}

void http1_connections_end(struct http1_connections *all, void **socket_context)
{
    struct http1_connection *connection = *socket_context;
    if (connection) {
        all->n_leaving -= !connection->member.crowd;
        crowd_remove(&connection->member);
        list_remove(&connection->link);
    }
    free(connection);
    *socket_context = NULL;
    all->n--;
    stat_add(all->gauge, -1);
}

void http1_connections_begin(struct http1_connections *all, struct MHD_Connection *mhd,
                             void **socket_context, const struct peer *peer, uint64_t peer_key)
{
    bool full = all->max && all->n - all->n_leaving >= all->max;
    bool has_room = !full || make_room(all, peer_key);
    all->n++;
    stat_add(all->gauge, 1);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http1_connection *connection = info ? calloc(1, sizeof(*connection)) : NULL;
    if (!connection || crowd_add(&all->crowd, &connection->member, peer_key))
        return free(connection);
    connection->all = all;
    connection->fd = info->connect_fd;
    connection->peer = *peer;
    connection->peer_key = peer_key;
    *socket_context = connection;
    http1_connection_enter(connection, 0);
    if (!has_room)
        connection_leave(connection, all->over_limit);
}

int http1_connection_fd(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

struct http1_connection *http1_connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}
