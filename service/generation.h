/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A generation: one configuration, and what the supervisor holds open for it while its processes
 * run. Two may exist at a time, while one follows the other (reload.h); sockets with the same
 * endpoint are shared then, so that no connection is refused. Thread: main of the supervisor.
 */
#include "config/load/cli.h"
#include "service/service.h"

struct generation {
    struct config *config;
    struct service_sockets sockets;
    struct service_files files;
    int config_fd; /* config_pack(), for the service */
};

/* Reads and checks the configuration; nothing is open yet. NULL: what is wrong was printed. */
struct generation *generation_load(const struct cli *cli);
/* Opens sockets and files; those of in_use (may be NULL) are shared. 0 or negative errno, logged.
 */
int generation_open(struct generation *generation, const struct generation *in_use);
/* Closes what is open, except what `other` (may be NULL) uses as well. It can be opened again. */
void generation_release(struct generation *generation, const struct generation *other);
/* The same, and frees it. NULL is fine. */
void generation_close(struct generation *generation, const struct generation *other);
/* Level and format of the log from here on, and the warnings of the configuration. */
void generation_announce(const struct generation *generation);

/* Runs its processes until they end. settings: the callbacks, their context, and where the sampler
 * is left for the next generation; the rest is filled in. What supervisor_run() returns. */
int generation_run(struct generation *generation, struct supervisor_settings settings);
