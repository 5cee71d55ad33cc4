/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A process context written by hand, right or wrong in chosen ways, and children that publish it.
 */
#include "context/context_layout.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Resource{service.name=shop}, schema, keys http.route and user.id; returns the length. */
size_t fixture_payload(uint8_t *out, size_t size, const char *schema);
/* Maps a named header over the payload (which must stay); version 2, time 1234 if not changed. NULL
 * on failure. */
struct otel_process_header *fixture_publish(const void *payload, size_t size);

/* Forks a child that runs body(), says so through a pipe, and waits to be killed. */
pid_t fixture_child(void (*body)(void *context), void *context);
void fixture_kill(pid_t pid);
/* Text of /proc/PID/maps and mountinfo. */
struct fixture_texts {
    char *maps, *mounts;
    size_t maps_len, mounts_len;
};
struct fixture_texts fixture_texts(pid_t pid);
void fixture_texts_free(struct fixture_texts *texts);
