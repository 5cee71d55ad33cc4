/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Connections to the sockets of Elastic's agents. A broker makes each (supervisor_broker.h), and a
 * broker is a process: so few are at work at a time, one starts each ELASTIC_PACE_NS, and the
 * others wait. Those that wait are served in turns by owner, so a neighbour with many processes
 * delays its own. Private to this folder. Thread: the symbolizer's loop.
 */
#include "agent-bpf/control.h"
#include "agent-bpf/symbolizer/symbolizer_ledger.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/loop.h"

#define ELASTIC_BROKERS_MAX 4 /* at work */
#define ELASTIC_QUEUES      64
#define ELASTIC_PACE_NS     (20 * NS_PER_MS)

/* Embedded in what is connected; zero before the first call. */
struct elastic_request {
    struct list waiting; /* in a queue; unlinked once it has started */
    uint32_t pid;
    size_t length;
    char path[CONTROL_PATH_MAX];
};

struct elastic_connections_settings {
    struct loop *loop;
    /* As in symbolizer_settings. */
    int (*connect_agent)(void *context, uint32_t pid, struct bytes path, int answer_fd);
    void *connect_context;
    /* outcome: 0 with a connected fd, the callee's; ELASTIC_SOCKET_REFUSED; negative errno. Never
     * called from within elastic_connect(). */
    void (*connected)(void *context, uint32_t pid, int outcome, int fd);
    void *context;
};

struct elastic_connections {
    struct elastic_connections_settings settings;
    struct timer next;
    uint64_t started_ns; /* the last one */
    uint8_t key[16];     /* of the hash, so that nobody can choose another's queue */
    size_t turn;
    struct list queues[ELASTIC_QUEUES]; /* struct elastic_request by a hash of its owner */
    struct elastic_connection {
        struct watch watch; /* where the broker answers; watch.loop is NULL: a free place */
        struct elastic_connections *connections;
        uint32_t pid;
    } active[ELASTIC_BROKERS_MAX];
};

int elastic_connections_open(struct elastic_connections *connections,
                             const struct elastic_connections_settings *settings);
void elastic_connections_close(
    struct elastic_connections *connections); /* requests stay as they are */
/* A request that waits already keeps its turn, with another path. 0 or -ENAMETOOLONG. */
int elastic_connect(struct elastic_connections *connections, struct elastic_request *request,
                    uint32_t pid, const struct process_owner *owner, struct bytes path);
void elastic_request_drop(struct elastic_request *request); /* also when it does not wait */
