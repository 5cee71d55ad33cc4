/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end may hang for seconds before it is killed, so everything here is "as much as the
 * socket takes". What must not get lost by that, names and facts of executables, stays on a second
 * list until the answer is there.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "agent-bpf/passed_fds.h"
#include "base/fair_share.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/stats.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

LIMIT(requests, LIMIT_SERVICE, "requests to the symbolizer",
      .bytes = SYMBOLIZER_REQUEST_BYTES_MAX + SYMBOLIZER_FILES_BYTES_MAX);

enum request_loss { REQUEST_QUEUE_FULL, REQUEST_UNANSWERED, REQUEST_LOSSES };

static const char *const request_loss_names[] = {
    [REQUEST_QUEUE_FULL] = "queue_full", [REQUEST_UNANSWERED] = "unanswered"};
STAT_LOSSES(requests_dropped, "spanprof_symbolizer_requests_dropped_total",
            "Requests to the symbolizer that were dropped.",
            STAT_LABEL("reason", request_loss_names, REQUEST_LOSSES));
STAT_COUNTER(attached, "spanprof_symbolizer_attached_total",
             "Symbolizers that the service was connected to.");
STAT_COUNTER(malformed, "spanprof_symbolizer_messages_malformed_total",
             "Malformed messages of the symbolizer. After each the symbolizer is disconnected and "
             "started again.");

#define ATTEMPTS_MAX     3
#define ANSWERS_AT_ONCE  256
#define ANSWER_ARENA_MAX (256 * 1024)

struct symbolizer_client {
    struct symbolizer_client_settings settings;
    struct watch watch; /* fd -1 while detached */
    struct list queue;  /* to be sent, but those about files */
    size_t n_queue;
    size_t queue_bytes;
    struct list files[FAIR_SHARES]; /* of each share, to be sent in turns */
    struct fair_share file_bytes;
    unsigned turn;   /* whose request was sent last */
    bool files_next; /* a request about a file comes before one of the queue */
    struct list unanswered;
    size_t n_unanswered;
    uint8_t datagram[SYMBOLIZER_MESSAGE_MAX];
};

static bool is_about_file(enum symbolizer_kind kind)
{
    return kind == SYMBOLIZER_EXECUTABLE_WANTED || kind == SYMBOLIZER_NAMES_WANTED;
}

static bool is_kept(enum symbolizer_kind kind)
{
    return is_about_file(kind) || kind == SYMBOLIZER_KERNEL_NAMES_WANTED;
}

struct symbolizer_request *symbolizer_request_make(const struct symbolizer_message *message)
{
    _cleanup_buf_ struct buf datagram = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    if (symbolizer_message_encode(message, &datagram))
        return NULL;
    struct symbolizer_request *request = calloc(1, sizeof(*request) + datagram.len);
    if (!request)
        return NULL;
    request->kind = message->kind;
    if (message->kind == SYMBOLIZER_EXECUTABLE_WANTED)
        memcpy(request->identity, message->executable_ref.identity, sizeof(request->identity));
    else if (is_kept(message->kind))
        memcpy(request->identity, message->names_wanted.executable.identity,
               sizeof(request->identity));
    request->size = datagram.len;
    memcpy(request->datagram, datagram.data, datagram.len);
    return request;
}

void symbolizer_requests_free(struct list *requests)
{
    struct list *link;
    while ((link = list_pop(requests)))
        free(container_of(link, struct symbolizer_request, link));
}

int symbolizer_answer_make(struct bytes datagram, struct symbolizer_answer **out)
{
    struct symbolizer_answer *answer = calloc(1, sizeof(*answer) + datagram.len);
    if (!answer)
        return -ENOMEM;
    answer->size = datagram.len;
    if (datagram.len)
        memcpy(answer->datagram, datagram.data, datagram.len);
    arena_init(&answer->arena, ANSWER_ARENA_MAX);
    int error = symbolizer_message_decode(BYTES(answer->datagram, answer->size), &answer->arena,
                                          &answer->message);
    if (!error && answer->message.kind < SYMBOLIZER_EVENT)
        error = SYMBOLIZER_MALFORMED; /* that is what we say */
    if (error) {
        symbolizer_answer_free(answer);
        return error;
    }
    *out = answer;
    return 0;
}

void symbolizer_answer_free(struct symbolizer_answer *answer)
{
    if (!answer)
        return;
    arena_close(&answer->arena);
    free(answer);
}

static struct symbolizer_request *take_first(struct symbolizer_client *client)
{
    struct list *link = list_pop(&client->queue);
    if (!link)
        return NULL;
    struct symbolizer_request *request = container_of(link, struct symbolizer_request, link);
    client->n_queue--;
    client->queue_bytes -= request->size;
    return request;
}

/* The oldest of a share. */
static struct symbolizer_request *take_file(struct symbolizer_client *client, unsigned share)
{
    struct list *link = list_pop(&client->files[share]);
    if (!link)
        return NULL;
    struct symbolizer_request *request = container_of(link, struct symbolizer_request, link);
    fair_share_give(&client->file_bytes, request->tenant, request->size);
    return request;
}

static void drop_request(struct symbolizer_request *request)
{
    free(request);
    stat_add_of(&requests_dropped, REQUEST_QUEUE_FULL, 1);
}

static void enqueue_file(struct symbolizer_client *client, struct symbolizer_request *request,
                         bool front)
{
    struct fair_share *bytes = &client->file_bytes;
    struct list *share = &client->files[fair_share_index(bytes, request->tenant)];
    if (front)
        list_prepend(share, &request->link);
    else
        list_append(share, &request->link);
    fair_share_take(bytes, request->tenant, request->size);
    while (fair_share_is_exceeded(bytes))
        drop_request(take_file(client, fair_share_largest(bytes)));
}

static void enqueue_other(struct symbolizer_client *client, struct symbolizer_request *request,
                          bool front)
{
    if (front)
        list_prepend(&client->queue, &request->link);
    else
        list_append(&client->queue, &request->link);
    client->n_queue++;
    client->queue_bytes += request->size;
    while (client->n_queue > SYMBOLIZER_REQUESTS_MAX ||
           client->queue_bytes > SYMBOLIZER_REQUEST_BYTES_MAX)
        drop_request(take_first(client));
}

static void symbolizer_client_enqueue(struct symbolizer_client *client,
                                      struct symbolizer_request *request, bool front)
{
    if (is_about_file(request->kind))
        enqueue_file(client, request, front);
    else
        enqueue_other(client, request, front);
}

/* The share that has its turn now; -1: none has a request, or too many are with the symbolizer. */
static int turn_of(const struct symbolizer_client *client)
{
    if (!client->file_bytes.used || client->n_unanswered >= SYMBOLIZER_TURNS_MAX)
        return -1;
    for (unsigned i = 1; i <= FAIR_SHARES; i++) {
        unsigned share = (client->turn + i) % FAIR_SHARES;
        if (!list_empty(&client->files[share]))
            return (int)share;
    }
    return -1;
}

/* What is sent next; NULL: nothing. share: that it is of, or -1. */
static struct symbolizer_request *next_request(const struct symbolizer_client *client, int *share)
{
    *share = client->files_next || list_empty(&client->queue) ? turn_of(client) : -1;
    const struct list *from = *share >= 0 ? &client->files[*share] : &client->queue;
    return list_empty(from) ? NULL
                            : container_of(list_first(from), struct symbolizer_request, link);
}

static void keep_unanswered(struct symbolizer_client *client, struct symbolizer_request *request)
{
    list_append(&client->unanswered, &request->link);
    if (++client->n_unanswered <= SYMBOLIZER_UNANSWERED_MAX)
        return;
    free(container_of(list_pop(&client->unanswered), struct symbolizer_request, link));
    client->n_unanswered--;
    stat_add_of(&requests_dropped, REQUEST_UNANSWERED, 1);
}

static void symbolizer_client_sent(struct symbolizer_client *client,
                                   struct symbolizer_request *request)
{
    if (!is_kept(request->kind)) {
        free(request);
        return;
    }
    request->attempts++;
    keep_unanswered(client, request);
}

static void symbolizer_client_flush(struct symbolizer_client *client)
{
    struct symbolizer_request *next;
    bool blocked = false;
    int share;
    while (client->watch.fd >= 0 && (next = next_request(client, &share))) {
        ssize_t n = send(client->watch.fd, next->datagram, next->size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
            blocked = true;
            break;
        }
        if (n < 0) {
            symbolizer_client_detach(client);
            return;
        }
        client->files_next = share < 0;
        client->turn = share < 0 ? client->turn : (unsigned)share;
        symbolizer_client_sent(client,
                               share < 0 ? take_first(client) : take_file(client, (unsigned)share));
    }
    uint32_t events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (client->watch.fd >= 0 && client->watch.events != events)
        watch_change(&client->watch, events);
}

/* Requests of one executable are answered in their order. */
static void forget_answered(struct symbolizer_client *client,
                            const struct symbolizer_message *message)
{
    enum symbolizer_kind kind;
    const uint8_t *identity = message->names.identity;
    if (message->kind == SYMBOLIZER_EXECUTABLE) {
        kind = SYMBOLIZER_EXECUTABLE_WANTED;
        identity = message->executable.identity;
    } else if (message->kind == SYMBOLIZER_NAMES) {
        if (message->names.more)
            return;
        kind = SYMBOLIZER_NAMES_WANTED;
    } else if (message->kind == SYMBOLIZER_KERNEL_NAMES) {
        kind = SYMBOLIZER_KERNEL_NAMES_WANTED;
    } else {
        return;
    }
    struct list *link, *tmp;
    list_each(link, tmp, &client->unanswered)
    {
        struct symbolizer_request *request = container_of(link, struct symbolizer_request, link);
        if (request->kind != kind || memcmp(request->identity, identity, sizeof(request->identity)))
            continue;
        list_remove(link);
        client->n_unanswered--;
        free(request);
        return;
    }
}

/* The symbolizer might pass anything. */
static bool is_datagram_socket(int fd)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

/* A correlation concerns only its socket, all others only what they say. Takes over both. */
static void symbolizer_client_deliver(struct symbolizer_client *client,
                                      struct symbolizer_answer *answer, int fd)
{
    const struct symbolizer_client_settings *settings = &client->settings;
    if (answer->message.kind != SYMBOLIZER_CORRELATION) {
        fd_close(fd);
        settings->answered(settings->context, answer);
        return;
    }
    if (fd >= 0 && settings->correlated && is_datagram_socket(fd))
        settings->correlated(settings->context, &answer->message.process, fd);
    else
        fd_close(fd);
    symbolizer_answer_free(answer);
}

/* fd: that came with it; -1 = none. False: detached. */
static bool take_datagram(struct symbolizer_client *client, size_t size, int fd)
{
    struct symbolizer_answer *answer = NULL;
    int error = size > sizeof(client->datagram)
                    ? SYMBOLIZER_MALFORMED
                    : symbolizer_answer_make(BYTES(client->datagram, size), &answer);
    if (error)
        fd_close(fd);
    if (error == SYMBOLIZER_MALFORMED) {
        stat_add(&malformed, 1);
        log_error("symbolizer", "a message of the symbolizer was malformed: disconnecting it");
        symbolizer_client_detach(client);
        return false;
    }
    if (error)
        return true; /* without memory: lost, as if it had not been found */
    forget_answered(client, &answer->message);
    symbolizer_client_deliver(client, answer, fd);
    return client->watch.fd >= 0;
}

/* The one descriptor of the message; of several none is kept, -1. */
static int passed_fd(struct msghdr *header)
{
    int fd = -1;
    size_t n = passed_fds_take(header, &fd, 1);
    if (n <= 1 && !(header->msg_flags & MSG_CTRUNC))
        return fd;
    fd_close(fd);
    return -1;
}

static ssize_t receive_one(struct symbolizer_client *client, int *fd)
{
    union {
        struct cmsghdr header; /* for alignment */
        char bytes[CMSG_SPACE(sizeof(int))];
    } space;
    struct iovec part = {.iov_base = client->datagram, .iov_len = sizeof(client->datagram)};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &space, .msg_controllen = sizeof(space)};
    ssize_t n = recvmsg(client->watch.fd, &header, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    *fd = n < 0 ? -1 : passed_fd(&header);
    return n;
}

static void symbolizer_client_receive(struct symbolizer_client *client)
{
    for (int i = 0; i < ANSWERS_AT_ONCE; i++) {
        int fd;
        ssize_t n = receive_one(client, &fd);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            fd_close(fd);
            symbolizer_client_detach(client);
            return;
        }
        if (!take_datagram(client, (size_t)n, fd))
            return;
    }
}

static void client_ready(struct watch *watch, uint32_t events)
{
    struct symbolizer_client *client = container_of(watch, struct symbolizer_client, watch);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        symbolizer_client_receive(client);
    if (client->watch.fd >= 0) /* there is room, or an answer has made some */
        symbolizer_client_flush(client);
}

int symbolizer_client_open(const struct symbolizer_client_settings *settings,
                           struct symbolizer_client **out)
{
    struct symbolizer_client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->settings = *settings;
    client->watch = (struct watch){.fd = -1, .events = EPOLLIN, .ready = client_ready};
    list_init(&client->queue);
    list_init(&client->unanswered);
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        list_init(&client->files[i]);
    int error = fair_share_init(&client->file_bytes, SYMBOLIZER_FILES_BYTES_MAX);
    if (error) {
        free(client);
        return error;
    }
    *out = client;
    return 0;
}

void symbolizer_client_close(struct symbolizer_client *client)
{
    if (!client)
        return;
    symbolizer_client_detach(client);
    symbolizer_requests_free(&client->queue);
    symbolizer_requests_free(&client->unanswered);
    for (unsigned i = 0; i < FAIR_SHARES; i++)
        symbolizer_requests_free(&client->files[i]);
    free(client);
}

/* What an earlier symbolizer left unanswered, before what waits; asked too often it may be what
 * kills it. */
static void repeat_unanswered(struct symbolizer_client *client)
{
    while (!list_empty(&client->unanswered)) {
        struct list *last = client->unanswered.prev;
        struct symbolizer_request *request = container_of(last, struct symbolizer_request, link);
        list_remove(last);
        client->n_unanswered--;
        if (request->attempts >= ATTEMPTS_MAX) {
            free(request);
            stat_add_of(&requests_dropped, REQUEST_UNANSWERED, 1);
            continue;
        }
        symbolizer_client_enqueue(client, request, true);
    }
}

int symbolizer_client_attach(struct symbolizer_client *client, int fd)
{
    LOOP_THREAD(client->settings.loop);
    symbolizer_client_detach(client);
    client->watch.fd = fd;
    client->watch.events = EPOLLIN;
    int error = watch_start(client->settings.loop, &client->watch);
    if (error) {
        client->watch.fd = -1;
        close(fd);
        return error;
    }
    stat_add(&attached, 1);
    repeat_unanswered(client);
    struct symbolizer_request *scan =
        symbolizer_request_make(&(struct symbolizer_message){.kind = SYMBOLIZER_SCAN_WANTED});
    if (scan)
        symbolizer_client_enqueue(client, scan, true);
    client->files_next = false; /* the scan comes first */
    symbolizer_client_flush(client);
    return scan ? 0 : -ENOMEM;
}

void symbolizer_client_detach(struct symbolizer_client *client)
{
    LOOP_THREAD(client->settings.loop);
    if (client->watch.fd < 0)
        return;
    watch_stop(&client->watch);
    close(client->watch.fd);
    client->watch.fd = -1;
}

bool symbolizer_client_attached(const struct symbolizer_client *client)
{
    return client->watch.fd >= 0;
}

/* The answer would come too late; and they are large, so that others would be lost for them. */
static bool is_too_late(const struct symbolizer_client *client,
                        const struct symbolizer_request *request)
{
    return (request->kind == SYMBOLIZER_UNWIND_WANTED || request->kind == SYMBOLIZER_CODE_WANTED) &&
           (client->watch.fd < 0 || client->queue_bytes > SYMBOLIZER_REQUEST_BYTES_MAX / 2);
}

void symbolizer_client_submit(struct symbolizer_client *client, struct list *requests)
{
    LOOP_THREAD(client->settings.loop);
    struct list *link;
    while ((link = list_pop(requests))) {
        struct symbolizer_request *request = container_of(link, struct symbolizer_request, link);
        if (!is_too_late(client, request)) {
            symbolizer_client_enqueue(client, request, false);
            continue;
        }
        drop_request(request);
    }
    symbolizer_client_flush(client);
}
