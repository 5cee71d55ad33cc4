/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The pages, and their data as JSON: docs/api.md. The pages' own thread makes the answers, with its
 * own read connection to the database. The client's connection is suspended meanwhile, so the loop
 * never waits. Thread: loop, except where noted.
 *
 * Limits: PAGES_CONNECTIONS_MAX connections with 32 KiB of headers each; PAGES_QUEUE_MAX waiting
 * requests, PAGES_ANSWER_MAX bytes per answer and PAGES_ANSWERS_MAX bytes of all answers being sent
 * (beyond: 503 with Retry-After); 30 s for the head of a request, two minutes for sending its
 * answer.
 */
#include "base/loop.h"
#include "config/config.h"
#include "store/query/history_reader.h"
#include "store/outbox/outbox.h"

#define PAGES_CONNECTIONS_MAX 64
#define PAGES_QUEUE_MAX       32
#define PAGES_ANSWER_MAX      ((size_t)16 << 20)
#define PAGES_ANSWERS_MAX     ((size_t)16 << 20)

struct coverage;
struct pages;
struct tls_context;

struct pages_settings {
    struct loop *loop;
    const struct config *config;      /* outlives the pages, as do the next */
    const struct config_pages *pages; /* of it */
    struct db *reader_db;             /* used only by the pages' thread after pages_open() */
    const char *version;
    struct coverage *coverage;
    bool sampling; /* the sampler exists and runs */
};

int pages_open(const struct pages_settings *settings, struct pages **pages);
/* Listening sockets, taken over (and set to -1) on success only. tls: outlives the pages; NULL:
 * plain text; once. of_node: by the Unix socket, whose permissions say who may connect, so no token
 * is asked for. 0 or negative errno. */
int pages_listen(struct pages *pages, int *fds, size_t n, struct tls_context *tls, bool of_node);
/* The token that TCP clients must send from now on; copied; "": none. */
void pages_set_token(struct pages *pages, const char *token);
/* Unanswered requests get 503; a running database query is interrupted. NULL is fine. The caller
 * owns the read connection again. */
void pages_close(struct pages *pages);
