/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A spanprof of a command's own: this program again, with its store, socket and log in a directory
 * that goes with it. Thread: the only one.
 */
#include <sys/types.h>

struct client_node {
    char directory[256]; /* "" = none */
    char socket[300];
    pid_t pid; /* 0 = does not run */
};

/* Starts it for what runs in the cgroup, and waits until it answers: 0; -ENOENT: it ended, and
 * client_node_log() tells why; -ETIMEDOUT; else as mkdtemp() or fork() have it. */
int client_node_start(struct client_node *node, const char *cgroup, unsigned frequency);
/* The log's path. */
void client_node_log(const struct client_node *node, char *out, size_t size);
void client_node_stop(struct client_node *node); /* also when it was not started */
