/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The service's end of the socket to the analyst. LOOP thread, except where said otherwise.
 * The analyst may be absent, dead, stopped, hostile, or replaced by another at any time: nothing
 * here blocks or fails for that. Requests wait in a bounded queue (the oldest go first, counted).
 * Those for executables and names are kept until answered, and said again to a new analyst, at most
 * three times; the others are not: a new analyst is asked for a scan, which brings everything back.
 * Those for the rest of a stack are left out where they would wait long.
 * An analyst that sends a malformed message is detached (and so ends). A descriptor that comes with
 * any other message than ANALYST_CORRELATION, that is no such socket or not alone, is closed.
 *
 * Flow: writer job: process_table_take_requests() -> list; its done() on the loop:
 * analyst_client_submit(). Answer: answered() on the loop -> job -> process_table_answer() and the
 * dictionary on the writer -> analyst_answer_free().
 */
#include "agent-bpf/analyst_messages.h"
#include "base/list.h"
#include "base/loop.h"

#define ANALYST_REQUESTS_MAX      16384 /* waiting to be sent */
#define ANALYST_REQUEST_BYTES_MAX (16 * 1024 * 1024)
#define ANALYST_UNANSWERED_MAX    2048 /* sent, kept to be said again */

/* A request ready to be sent; made on the writer (process.h), owned by the client once submitted.
 */
struct analyst_request {
    struct list link;
    enum analyst_kind kind;
    uint8_t identity[16]; /* of executable and names requests, else zero */
    uint8_t attempts;
    size_t size;
    uint8_t datagram[];
};
/* NULL without memory or if it would not fit a datagram. Any thread. */
struct analyst_request *analyst_request_make(const struct analyst_message *message);
void analyst_requests_free(struct list *requests); /* of struct analyst_request; any thread */

/* A decoded answer that owns what it points to; passed on between threads. */
struct analyst_answer {
    struct analyst_message message;
    struct arena arena;
    size_t size;
    uint8_t datagram[];
};
/* 0, ANALYST_MALFORMED, -ENOMEM. Any thread. */
int analyst_answer_make(struct bytes datagram, struct analyst_answer **answer);
void analyst_answer_free(struct analyst_answer *answer); /* any thread; NULL is fine */

struct analyst_client;

struct analyst_client_settings {
    struct loop *loop;
    /* The callee owns the answer. */
    void (*answered)(void *context, struct analyst_answer *answer);
    /* A datagram socket of the Unix domain, said to be connected to the Elastic agent in that
     * process; the callee owns it. A later one for the same process replaces it. NULL: such sockets
     * are closed. */
    void (*correlated)(void *context, const struct analyst_process *process, int fd);
    void *context;
};

int analyst_client_open(const struct analyst_client_settings *settings,
                        struct analyst_client **client);
void analyst_client_close(struct analyst_client *client); /* NULL is fine */

/* The socket of a (new) analyst; owned from now on, also on failure. Replaces an earlier one. Asks
 * for a scan first. 0 or negative errno. */
int analyst_client_attach(struct analyst_client *client, int fd);
void analyst_client_detach(struct analyst_client *client); /* also when none is attached */
bool analyst_client_attached(const struct analyst_client *client);
/* Takes over all requests of the list, which is empty afterwards. */
void analyst_client_submit(struct analyst_client *client, struct list *requests);
