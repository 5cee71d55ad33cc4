/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/symbolizer/elastic_connections.h"
#include "base/fd.h"
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

static void connections_arm(struct elastic_connections *connections);

static void connection_end(struct elastic_connection *connection)
{
    int fd = connection->watch.fd;
    watch_stop(&connection->watch);
    close(fd);
}

static void on_answer(struct watch *watch, uint32_t events)
{
    struct elastic_connection *connection = container_of(watch, struct elastic_connection, watch);
    struct elastic_connections *connections = connection->connections;
    const struct elastic_connections_settings *settings = &connections->settings;
    struct control_message answer;
    int fd;
    (void)events;
    int r = control_receive(watch->fd, &answer, &fd);
    if (r == CONTROL_NONE)
        return;
    connection_end(connection);
    connections_arm(connections);
    int outcome = r == 0 && answer.kind == CONTROL_CONNECTED ? answer.outcome : -ECONNABORTED;
    if (outcome == 0 && fd < 0)
        outcome = -EPROTO;
    if (outcome)
        fd_closep(&fd);
    settings->connected(settings->context, connection->pid, outcome, fd);
}

static struct elastic_connection *free_place(struct elastic_connections *connections)
{
    for (size_t i = 0; i < ELASTIC_BROKERS_MAX; i++)
        if (!connections->active[i].watch.loop)
            return &connections->active[i];
    return NULL;
}

/* The answer comes to on_answer(). */
static int connection_start(struct elastic_connection *connection,
                            const struct elastic_request *request)
{
    struct elastic_connections *connections = connection->connections;
    const struct elastic_connections_settings *settings = &connections->settings;
    int fds[2];
    int error = control_pair(fds);
    if (error)
        return error;
    connection->pid = request->pid;
    connection->watch = (struct watch){.fd = fds[0], .events = EPOLLIN, .ready = on_answer};
    error = watch_start(settings->loop, &connection->watch);
    if (error) {
        close(fds[0]);
        close(fds[1]);
        return error;
    }
    error = settings->connect_agent(settings->connect_context, request->pid,
                                    BYTES(request->path, request->length), fds[1]);
    if (error)
        connection_end(connection);
    return error;
}

/* The first of the next queue that is not empty. */
static struct elastic_request *request_take(struct elastic_connections *connections)
{
    for (size_t i = 0; i < ELASTIC_QUEUES; i++) {
        struct list *queue = &connections->queues[connections->turn];
        connections->turn = (connections->turn + 1) % ELASTIC_QUEUES;
        if (!list_empty(queue))
            return container_of(list_pop(queue), struct elastic_request, waiting);
    }
    return NULL;
}

static void start_next(struct timer *timer)
{
    struct elastic_connections *connections = container_of(timer, struct elastic_connections, next);
    const struct elastic_connections_settings *settings = &connections->settings;
    struct elastic_connection *place = free_place(connections);
    struct elastic_request *request = place ? request_take(connections) : NULL;
    if (!request)
        return;
    uint32_t pid = request->pid;
    connections->started_ns = clock_monotonic_ns();
    int error = connection_start(place, request);
    connections_arm(connections);
    if (error)
        settings->connected(settings->context, pid, error, -1);
}

/* A start is due at the pace, once a place is free. */
static void connections_arm(struct elastic_connections *connections)
{
    uint64_t since_ns = clock_monotonic_ns() - connections->started_ns;
    if (!connections->next.due_ns && free_place(connections))
        timer_start(connections->settings.loop, &connections->next,
                    since_ns < ELASTIC_PACE_NS ? ELASTIC_PACE_NS - since_ns : 0);
}

int elastic_connect(struct elastic_connections *connections, struct elastic_request *request,
                    uint32_t pid, const struct process_owner *owner, struct bytes path)
{
    const uint64_t name[] = {owner->kind, owner->key};
    LOOP_THREAD(connections->settings.loop);
    if (path.len > sizeof(request->path))
        return -ENAMETOOLONG;
    memcpy(request->path, path.data, path.len);
    request->length = path.len;
    request->pid = pid;
    if (list_linked(&request->waiting))
        return 0;
    uint64_t hash = bytes_siphash(BYTES(name, sizeof(name)), connections->key);
    list_append(&connections->queues[hash % ELASTIC_QUEUES], &request->waiting);
    connections_arm(connections);
    return 0;
}

void elastic_request_drop(struct elastic_request *request)
{
    list_remove(&request->waiting);
}

int elastic_connections_open(struct elastic_connections *connections,
                             const struct elastic_connections_settings *settings)
{
    *connections =
        (struct elastic_connections){.settings = *settings, .next = {.fire = start_next}};
    for (size_t i = 0; i < ELASTIC_QUEUES; i++)
        list_init(&connections->queues[i]);
    for (size_t i = 0; i < ELASTIC_BROKERS_MAX; i++)
        connections->active[i].connections = connections;
    ssize_t n = getrandom(connections->key, sizeof(connections->key), 0);
    return n == sizeof(connections->key) ? 0 : -EIO;
}

void elastic_connections_close(struct elastic_connections *connections)
{
    timer_stop(&connections->next);
    for (size_t i = 0; i < ELASTIC_BROKERS_MAX; i++)
        if (connections->active[i].watch.loop)
            connection_end(&connections->active[i]);
}
