/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The process's half of Elastic's agent: its process storage, and the socket on which it hears of
 * samples. What comes is written as JSON lines:
 *     {"type":"registration", "sender", "size", "delay_ms", "host_id_hex"}
 *     {"type":"cpu", "sender", "size", "trace_id", "root_id", "stack_id", "count",
 *      "time"}
 *     {"type":"strange", "size"}                      a message that the agent would discard
 * sender: its pid, for there may be several profilers.
 * Source of the formats: elastic/apm, specs/agents/universal-profiling-integration.md.
 */
#include <stddef.h>

/* Binds the socket, starts a thread that listens, then fills the storage. Ends the program on
 * errors. */
void publisher_agent_start(void *volatile *process_storage, const char *service,
                           const char *socket_path);
/* A storage with these texts, for *process_storage. From malloc(). */
void *publisher_agent_storage(const char *service, const char *environment, const char *socket_path,
                              size_t *size);
