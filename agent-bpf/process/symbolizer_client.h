/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The service's end of the socket to the symbolizer. LOOP thread, except where said otherwise.
 * The symbolizer may be absent, dead, stopped, hostile, or replaced by another at any time: nothing
 * here blocks or fails for that. Requests wait in a bounded queue (the oldest go first, counted).
 * Those for executables and names are kept until answered, and said again to a new symbolizer, at
 * most three times; the others are not: a new symbolizer is asked for a scan, which brings
 * everything back. Those for the rest of a stack are left out where they would wait long. A
 * symbolizer that sends a malformed message is detached (and so ends). A descriptor that comes with
 * any other message than SYMBOLIZER_CORRELATION, that is no such socket or not alone, is closed.
 *
 * Files may be expensive to read, and anybody may have many. So requests for executables and names
 * take turns by tenant, and SYMBOLIZER_TURNS_MAX are with the symbolizer at a time: who has others
 * wait has them wait for so many requests, not for all of its own.
 *
 * Flow: writer job: symbolizer_queue_take() -> list; its done() on the loop:
 * symbolizer_client_submit(). Answer: answered() on the loop -> job -> process_table_answer() and
 * the dictionary on the writer -> symbolizer_answer_free().
 */
#include "agent-bpf/symbolizer_messages.h"
#include "base/list.h"
#include "base/loop.h"

#define SYMBOLIZER_REQUESTS_MAX      16384 /* waiting to be sent, but those about files */
#define SYMBOLIZER_REQUEST_BYTES_MAX (3 * 1024 * 1024)
#define SYMBOLIZER_FILES_BYTES_MAX   (1024 * 1024) /* those about files: a tenant has its share */
#define SYMBOLIZER_TURNS_MAX         4
#define SYMBOLIZER_UNANSWERED_MAX    2048 /* sent, kept to be said again */

/* A request ready to be sent; made on the writer (symbolizer_queue.h), owned by the client once
 * submitted.
 */
struct symbolizer_request {
    struct list link;
    enum symbolizer_kind kind;
    uint8_t identity[16]; /* of executable and names requests, else zero */
    uint64_t tenant;      /* of these: a cgroup; 0: not known */
    uint8_t attempts;
    size_t size;
    uint8_t datagram[];
};
/* NULL without memory or if it would not fit a datagram. Any thread. */
struct symbolizer_request *symbolizer_request_make(const struct symbolizer_message *message);
void symbolizer_requests_free(struct list *requests); /* of struct symbolizer_request; any thread */

/* A decoded answer that owns what it points to; passed on between threads. */
struct symbolizer_answer {
    struct symbolizer_message message;
    struct arena arena;
    size_t size;
    uint8_t datagram[];
};
/* 0, SYMBOLIZER_MALFORMED, -ENOMEM. Any thread. */
int symbolizer_answer_make(struct bytes datagram, struct symbolizer_answer **answer);
void symbolizer_answer_free(struct symbolizer_answer *answer); /* any thread; NULL is fine */

struct symbolizer_client;

struct symbolizer_client_settings {
    struct loop *loop;
    /* The callee owns the answer. */
    void (*answered)(void *context, struct symbolizer_answer *answer);
    /* A datagram socket of the Unix domain, said to be connected to the Elastic agent in that
     * process; the callee owns it. A later one for the same process replaces it. NULL: such sockets
     * are closed. */
    void (*correlated)(void *context, const struct symbolizer_process *process, int fd);
    void *context;
};

int symbolizer_client_open(const struct symbolizer_client_settings *settings,
                           struct symbolizer_client **client);
void symbolizer_client_close(struct symbolizer_client *client); /* NULL is fine */

/* The socket of a (new) symbolizer; owned from now on, also on failure. Replaces an earlier one.
 * Asks for a scan first. 0 or negative errno. */
int symbolizer_client_attach(struct symbolizer_client *client, int fd);
void symbolizer_client_detach(struct symbolizer_client *client); /* also when none is attached */
bool symbolizer_client_attached(const struct symbolizer_client *client);
/* Takes over all requests of the list, which is empty afterwards. */
void symbolizer_client_submit(struct symbolizer_client *client, struct list *requests);
