/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is wrong with a configuration: collected while it is read, written at the end in the order
 * of the sources and of the places in them. Private to config/. Thread: the one that loads. Limit:
 * CONFIG_ERRORS_MAX errors and CONFIG_WARNINGS_MAX warnings; the rest is counted.
 */
#include "base/arena.h"
#include "config/config.h"

/* line 0: the source as a whole (a --set has no lines). Lines and columns count from 1. */
struct config_place {
    size_t source;
    size_t line;
    size_t column;
};

struct diag_entry {
    struct config_place place;
    size_t order; /* of arrival: keeps the sort stable */
    const char *path;
    const char *message;
};

struct diag {
    struct arena *arena;
    const struct config_source *sources;
    size_t n_sources;
    size_t n_errors; /* all; the first CONFIG_ERRORS_MAX are kept */
    struct diag_entry errors[CONFIG_ERRORS_MAX];
    size_t n_warnings;
    struct diag_entry warnings[CONFIG_WARNINGS_MAX];
    bool exhausted; /* the arena is full: what was read is incomplete */
};

/* path: `receivers::otlp`, or "" for the source as a whole; borrowed, lives in the arena. */
void diag_error(struct diag *diag, struct config_place place, const char *path, const char *format,
                ...) __attribute__((format(printf, 4, 5)));
void diag_warn(struct diag *diag, struct config_place place, const char *path, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* All errors, sorted, one line each. 0 or what buf_append() says. */
int diag_write(struct diag *diag, struct buf *out);
/* The i-th warning as a line in the arena; NULL when the arena is full. */
const char *diag_warning(struct diag *diag, size_t i);

/* An arena string, noting exhaustion; "" then, so that callers go on to the end. */
const char *diag_printf(struct diag *diag, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* parent::key, or key if parent is "". */
const char *diag_path(struct diag *diag, const char *parent, const char *key);
