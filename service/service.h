/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The service process: the loop, the writer and the reader, and all parts between the ring, the
 * receivers and the exporters. The supervisor opens the listening sockets before, with its rights,
 * and keeps them open while a service that died is started again: connections wait instead of being
 * refused.
 * Thread: main of its process.
 */
#include "agent-bpf/supervisor/supervisor.h"
#include "config/config.h"
#include "receiver/listen.h"
#include "receiver/peers.h"
#include "service/service_tls.h"

#define SERVICE_RECEIVERS_MAX CONFIG_COMPONENTS_MAX
#define SERVICE_SOCKETS_MAX   ((2 * SERVICE_RECEIVERS_MAX + 4) * LISTEN_SOCKETS_MAX)

struct service_sockets {
    struct listen_sockets grpc[SERVICE_RECEIVERS_MAX]; /* by index of the receiver */
    struct listen_sockets http[SERVICE_RECEIVERS_MAX];
    struct listen_sockets metrics;
    struct listen_sockets health; /* of the health_check extension */
    struct listen_sockets pages;  /* of the pages extension, these two */
    struct listen_sockets pages_socket;
};

/* Sockets of `in_use` (may be NULL) with the same endpoint are shared: the next service serves the
 * connections that wait there. 0 or negative errno, logged. */
int service_sockets_open(const struct config *config, const struct service_sockets *in_use,
                         struct service_sockets *sockets);
/* Paths of Unix sockets are removed, except those that `others` (may be NULL) has as well. */
void service_sockets_close(struct service_sockets *sockets, const struct service_sockets *others);
/* Of the receivers' TCP listeners, as bound; at most max. Returns their number. */
size_t service_sockets_ports(const struct service_sockets *sockets, uint16_t *ports, size_t max);
size_t service_sockets_fds(const struct service_sockets *sockets, int fds[SERVICE_SOCKETS_MAX]);

/* Returns the exit code: 0, SERVICE_EXIT_FATAL, or 1 for what a new start may mend. */
int service_run(const struct config *config, struct service_sockets *sockets,
                struct service_files *files, struct peers *peers,
                const struct service_handles *handles);
