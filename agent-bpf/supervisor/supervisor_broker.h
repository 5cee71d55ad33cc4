/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A broker is a process for one connection to an Elastic agent's socket: started when the
 * symbolizer asks, it has the rights to act as the agent's user, connects, sends the socket back,
 * and ends. So the symbolizer, which parses what strangers made, needs none of these rights.
 * Private to the supervisor. Thread: its.
 *
 * Limits: BROKERS_MAX at a time, and they end after BROKER_LIMIT_S. One that cannot end, in a file
 * system that does not answer, keeps its place and no other thing.
 */
#include "agent-bpf/control.h"

struct supervisor;

#define BROKERS_MAX    8
#define BROKER_LIMIT_S 2

struct brokers {
    int alive_fds[BROKERS_MAX]; /* a pipe that closes when the broker ends; 0: none */
};

/* What the symbolizer asks for. answer_fd is taken over: where the broker answers with
 * CONTROL_CONNECTED; it closes without an answer if no broker can be started. */
void supervisor_broker_start(struct supervisor *supervisor, const struct control_message *wanted,
                             int answer_fd);
void supervisor_brokers_close(struct brokers *brokers);
