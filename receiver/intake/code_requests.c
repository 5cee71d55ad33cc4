/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariant: an open request has a waiter. One that is gathered is open too, and has frames.
 */
#include "receiver/intake/code_requests.h"
#include "base/buf.h"
#include "receiver/intake/intake_frames.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define RENEWED_MAX 32 /* frames that a request renews */

struct code_request {
    uint64_t ticket; /* comes back in the answer */
    uint32_t pid;
    uint64_t since_ns; /* when its program began */
    uint64_t time_ns;  /* of the latest sample */
    struct list waiters;
    struct buf frames; /* struct record_frame; empty once it was sent */
};

_Static_assert(sizeof(struct code_request) + RENEWED_MAX * sizeof(struct record_frame) <=
                   CODE_REQUEST_BYTES,
               "what a question counts for it");

void code_requests_init(struct code_requests *requests, struct process_table *table,
                        struct intake_frames *frames)
{
    *requests = (struct code_requests){.table = table, .frames = frames};
    MAP_INIT(&requests->open, struct code_request, ticket);
    MAP_INIT(&requests->gathered, struct code_request, pid);
}

void code_requests_close(struct code_requests *requests)
{
    assert(requests->open.count == 0 && requests->gathered.count == 0);
    map_close(&requests->open);
    map_close(&requests->gathered);
}

static uint32_t request_count(const struct code_request *request)
{
    return (uint32_t)(request->frames.len / sizeof(struct record_frame));
}

static bool request_is_gathered(const struct code_requests *requests,
                                const struct code_request *request)
{
    return map_get(&requests->gathered, &request->pid) == request;
}

static void request_free(struct code_requests *requests, struct code_request *request)
{
    assert(list_empty(&request->waiters));
    if (request_is_gathered(requests, request))
        map_remove(&requests->gathered, &request->pid);
    map_remove(&requests->open, &request->ticket);
    buf_close(&request->frames);
    free(request);
}

static struct code_request *request_new(struct code_requests *requests, uint32_t pid,
                                        uint64_t since_ns)
{
    struct code_request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->ticket = ++requests->last_ticket;
    request->pid = pid;
    request->since_ns = since_ns;
    request->frames = BUF_INIT(RECORD_MAX_USER_FRAMES * sizeof(struct record_frame));
    list_init(&request->waiters);
    if (map_put(&requests->open, request, NULL)) {
        free(request);
        return NULL;
    }
    if (map_put(&requests->gathered, request, NULL)) {
        request_free(requests, request);
        return NULL;
    }
    return request;
}

static void request_renew(struct code_requests *requests, struct code_request *request)
{
    struct record_frame due[RENEWED_MAX];
    uint32_t room = RECORD_MAX_USER_FRAMES - request_count(request);
    uint32_t n = intake_frames_code_due(requests->frames, request->pid, request->time_ns, due,
                                        room < RENEWED_MAX ? room : RENEWED_MAX);
    (void)buf_append(&request->frames, due, n * sizeof(*due)); /* else later */
}

/* If it cannot be queued (memory), its waiters wait until their time is over. */
static void request_send(struct code_requests *requests, struct code_request *request)
{
    request_renew(requests, request);
    map_remove(&requests->gathered, &request->pid);
    process_table_want_code(requests->table,
                            &(struct process_code_wanted){.ticket = request->ticket,
                                                          .pid = request->pid,
                                                          .time_ns = request->time_ns,
                                                          .n = request_count(request),
                                                          .frames = (void *)request->frames.data});
    buf_close(&request->frames);
}

void code_requests_send(struct code_requests *requests)
{
    struct code_request *request;
    for (size_t i = 0; (request = map_next(&requests->gathered, &i));)
        request_send(requests, request);
}

/* The one of this program that is gathered and has room for n frames. NULL: no memory. */
static struct code_request *request_for(struct code_requests *requests, uint32_t pid,
                                        uint64_t since_ns, uint32_t n)
{
    struct code_request *request = map_get(&requests->gathered, &pid);
    if (request &&
        (request->since_ns != since_ns || request_count(request) + n > CODE_REQUEST_FRAMES)) {
        request_send(requests, request);
        request = NULL;
    }
    return request ? request : request_new(requests, pid, since_ns);
}

static bool request_has(const struct code_request *request, const struct record_frame *frame)
{
    const struct record_frame *frames = (const void *)request->frames.data;
    for (uint32_t i = request_count(request); i > 0; i--)
        if (record_frame_equal(&frames[i - 1], frame))
            return true;
    return false;
}

static int request_add(struct code_request *request, const struct record_frame *frames, uint32_t n)
{
    bool is_first = request->frames.len == 0; /* whose frames differ */
    int error = 0;
    for (uint32_t i = 0; i < n && !error; i++)
        if (is_first || !request_has(request, &frames[i]))
            error = buf_append(&request->frames, &frames[i], sizeof(*frames));
    return error ? -ENOMEM : 0;
}

int code_requests_ask(struct code_requests *requests, struct code_waiter *waiter,
                      const struct stack_sample *sample, const struct record_frame *frames,
                      uint32_t n)
{
    assert(!waiter->request && n > 0 && n <= RECORD_MAX_USER_FRAMES);
    uint64_t since_ns, cgroup_id;
    int outcome =
        process_table_program(requests->table, sample->pid, sample->time_ns, &since_ns, &cgroup_id);
    if (outcome)
        return outcome;
    struct code_request *request = request_for(requests, sample->pid, since_ns, n);
    if (!request)
        return -ENOMEM;
    int error = request_add(request, frames, n);
    if (error && list_empty(&request->waiters))
        request_free(requests, request);
    if (error)
        return error;
    if (request->time_ns < sample->time_ns)
        request->time_ns = sample->time_ns;
    list_append(&request->waiters, &waiter->link);
    waiter->request = request;
    return 0;
}

bool code_requests_answered(struct code_requests *requests, const struct symbolizer_code *answer,
                            struct list *waiters, uint64_t *time_ns)
{
    struct code_request *request = map_get(&requests->open, &answer->ticket);
    if (!request || request->pid != answer->pid || request_is_gathered(requests, request))
        return false;
    struct list *link;
    *time_ns = request->time_ns;
    while ((link = list_pop(&request->waiters))) {
        container_of(link, struct code_waiter, link)->request = NULL;
        list_append(waiters, link);
    }
    request_free(requests, request);
    return true;
}

void code_requests_leave(struct code_requests *requests, struct code_waiter *waiter)
{
    struct code_request *request = waiter->request;
    if (!request)
        return;
    list_remove(&waiter->link);
    waiter->request = NULL;
    if (list_empty(&request->waiters))
        request_free(requests, request);
}
