/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The pages, and the same as JSON: docs/api.md. Answers are made by a thread of its own with a
 * reading connection of its own; a connection is suspended meanwhile, so the loop never waits.
 * Thread: loop, except where noted.
 *
 * Limits: PAGES_CONNECTIONS_MAX connections with 32 KiB of headers each; PAGES_QUEUE_MAX questions
 * that wait, PAGES_ANSWER_MAX bytes of an answer and PAGES_ANSWERS_MAX of all that are being sent
 * (503 beyond, with Retry-After); 30 s for the head of a request, two minutes for its answer.
 */
#include "base/loop.h"
#include "config/config.h"
#include "store/query/history_reader.h"
#include "store/outbox/outbox.h"

#define PAGES_CONNECTIONS_MAX 64
#define PAGES_QUEUE_MAX       32
#define PAGES_ANSWER_MAX      ((size_t)32 << 20)
#define PAGES_ANSWERS_MAX     ((size_t)96 << 20)

struct coverage;
struct pages;
struct tls_context;

struct pages_settings {
    struct loop *loop;
    const struct config *config;      /* outlives the pages, as do the next */
    const struct config_pages *pages; /* of it */
    struct db *reader_db;             /* the pages' thread's from here on */
    const char *version;
    struct coverage *coverage;
    bool sampling; /* there is a sampler, and it runs */
};

int pages_open(const struct pages_settings *settings, struct pages **pages);
/* Listening sockets, taken over (and set to -1) on success only. tls: outlives the pages; NULL:
 * plain text; once. of_node: by the Unix socket, whose permissions say who may connect, so no token
 * is asked for. 0 or negative errno. */
int pages_listen(struct pages *pages, int *fds, size_t n, struct tls_context *tls, bool of_node);
/* What clients by TCP must send from now on; copied; "": nothing. */
void pages_set_token(struct pages *pages, const char *token);
/* Questions that are not answered yet are answered 503; what waits in the database is ended. NULL
 * is fine. The reading connection is the caller's again. */
void pages_close(struct pages *pages);
