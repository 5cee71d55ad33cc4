/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heartbeat comes from the loop's own timer, so that it says what it is to say: the loop turns.
 */
#include "agent-bpf/supervisor/supervisor_client.h"
#include "agent-bpf/heartbeat.h"
#include "agent-bpf/control.h"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MESSAGES_A_ROUND 64

static void supervisor_client_deliver(struct supervisor_client *child,
                                      const struct control_message *message, int fd)
{
    switch (message->kind) {
    case CONTROL_STOP:
        if (child->stop)
            child->stop(child);
        break;
    case CONTROL_RELOAD:
        if (child->reload)
            child->reload(child);
        break;
    case CONTROL_SYMBOLIZER:
        if (child->symbolizer && fd >= 0) {
            child->symbolizer(child, fd);
            return;
        }
        break;
    case CONTROL_READER:
        if (child->reader) {
            child->reader(child, fd, message->abandoned);
            return;
        }
        break;
    case CONTROL_CPU_CAME:
        if (child->cpu_came && fd >= 0) {
            child->cpu_came(child, message->cpu, fd, (size_t)message->buffer_size);
            return;
        }
        break;
    case CONTROL_FILE:
        if (child->file_changed && fd >= 0) {
            child->file_changed(child, message->file, fd);
            return;
        }
        break;
    case CONTROL_CPU_WENT:
        if (child->cpu_went)
            child->cpu_went(child, message->cpu);
        break;
    default:
        break;
    }
    if (fd >= 0)
        close(fd);
}

static void on_control(struct watch *watch, uint32_t events)
{
    struct supervisor_client *child = container_of(watch, struct supervisor_client, watch);
    (void)events;
    for (int i = 0; i < MESSAGES_A_ROUND && watch->loop; i++) {
        struct control_message message;
        int fd;
        int r = control_receive(watch->fd, &message, &fd);
        if (r == CONTROL_NONE)
            return;
        if (r == CONTROL_CLOSED) { /* the supervisor is gone */
            supervisor_client_stop(child);
            if (child->stop)
                child->stop(child);
            return;
        }
        if (r == 0)
            supervisor_client_deliver(child, &message, fd);
    }
}

static void on_heartbeat(struct timer *timer)
{
    struct supervisor_client *child = container_of(timer, struct supervisor_client, beat);
    (void)heartbeat_send(child->watch.fd); /* full: the supervisor has unread ones */
    timer_start(timer->loop, timer, HEARTBEAT_INTERVAL_NS);
}

int supervisor_client_start(struct supervisor_client *child, struct loop *loop, int control_fd)
{
    child->watch = (struct watch){.fd = control_fd, .events = EPOLLIN, .ready = on_control};
    child->beat = (struct timer){.fire = on_heartbeat};
    int r = watch_start(loop, &child->watch);
    if (r < 0)
        return r;
    (void)heartbeat_send(control_fd);
    heartbeat_to(control_fd);
    timer_start(loop, &child->beat, HEARTBEAT_INTERVAL_NS);
    return 0;
}

void supervisor_client_stop(struct supervisor_client *child)
{
    watch_stop(&child->watch);
    timer_stop(&child->beat);
    heartbeat_to(-1);
}

void supervisor_client_reader_overdue(const struct supervisor_client *child, uint64_t asked_ns)
{
    struct control_message message = {.kind = CONTROL_READER_OVERDUE, .asked_ns = asked_ns};
    (void)control_send(child->watch.fd, &message, -1); /* full: it is said again */
}
