/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/supervisor/supervisor_broker.h"
#include "agent-bpf/supervisor/supervisor_state.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

STAT_LOSS(refused, "spanprof_brokers_refused_total",
          "Connections to Elastic's agents not tried because too many were being tried.");

static bool has_ended(int alive_fd)
{
    char byte;
    return read(alive_fd, &byte, 1) == 0;
}

/* A free place, or NULL. */
static int *broker_place(struct brokers *brokers)
{
    for (size_t i = 0; i < BROKERS_MAX; i++) {
        int *fd = &brokers->alive_fds[i];
        if (*fd && has_ended(*fd)) {
            close(*fd);
            *fd = 0;
        }
        if (!*fd)
            return fd;
    }
    return NULL;
}

void supervisor_broker_start(struct supervisor *supervisor, const struct control_message *wanted,
                             int answer_fd)
{
    int pipe_fds[2];
    int *place = broker_place(&supervisor->brokers);
    stat_add(&refused, !place);
    if (!place || pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        close(answer_fd);
        return;
    }
    int r = supervisor_execute_broker(supervisor, wanted, answer_fd, pipe_fds[1]);
    close(answer_fd);
    close(pipe_fds[1]);
    if (r < 0) {
        log_warn("supervisor", "cannot start a broker: %s", strerror(-r));
        close(pipe_fds[0]);
        return;
    }
    *place = pipe_fds[0];
}

void supervisor_brokers_close(struct brokers *brokers)
{
    for (size_t i = 0; i < BROKERS_MAX; i++)
        if (brokers->alive_fds[i])
            close(brokers->alive_fds[i]);
    *brokers = (struct brokers){0};
}
