/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariant: out->bytes and out->n_fds are the sums over out->unsent; both are 0 when it is empty.
 */
#include "agent-bpf/symbolizer/symbolizer_out.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

LIMIT(out, LIMIT_SYMBOLIZER, "answers to the service", .bytes = SYMBOLIZER_OUT_BYTES_MAX);

static const char *const limit_names[] = {
    [SYMBOLIZER_LIMIT_WORK] = "work", [SYMBOLIZER_LIMIT_PROCESSES] = "processes"};
STAT_LOSSES(queue_full, "spanprof_symbolizer_queue_full_total",
            "Work that the symbolizer did not do, because a limit was reached.",
            STAT_LABEL("what", limit_names, SYMBOLIZER_LIMITS));

struct unsent {
    struct list link;
    int fd; /* sent with it; owned; -1 = none */
    size_t size;
    uint8_t datagram[];
};

void symbolizer_count_full(enum symbolizer_limit limit)
{
    stat_add_of(&queue_full, limit, 1);
}

void symbolizer_out_init(struct symbolizer_out *out, int fd)
{
    *out = (struct symbolizer_out){.fd = fd};
    list_init(&out->unsent);
}

bool symbolizer_congested(const struct symbolizer_out *out)
{
    OWNER_THREAD(&out->owner);
    return out->bytes > SYMBOLIZER_OUT_BYTES_MAX;
}

/* fd: -1 = none. False: the socket is full, try again when it is writable. An error counts as sent:
 * the end of the socket is noticed when reading from it. */
static bool datagram_send(const struct symbolizer_out *out, struct bytes datagram, int fd)
{
    union { /* aligned as a header is */
        char bytes[CMSG_SPACE(sizeof(fd))];
        struct cmsghdr header;
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)datagram.data, .iov_len = datagram.len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
    }
    ssize_t n;
    do
        n = sendmsg(out->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == ETOOMANYREFS) /* too many descriptors in flight: this message is lost */
        symbolizer_count_full(SYMBOLIZER_LIMIT_WORK);
    return n >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

static void unsent_append(struct symbolizer_out *out, struct bytes datagram, int fd)
{
    struct unsent *unsent = NULL;
    if (fd < 0 || out->n_fds < SYMBOLIZER_OUT_FDS_MAX)
        unsent = calloc(1, sizeof(*unsent) + datagram.len);
    if (!unsent) {
        fd_close(fd);
        symbolizer_count_full(SYMBOLIZER_LIMIT_WORK);
        return;
    }
    unsent->fd = fd;
    unsent->size = datagram.len;
    memcpy(unsent->datagram, datagram.data, datagram.len);
    list_append(&out->unsent, &unsent->link);
    out->bytes += unsent->size;
    out->n_fds += fd >= 0;
    assert(out->n_fds <= SYMBOLIZER_OUT_FDS_MAX);
}

static void unsent_remove(struct symbolizer_out *out, struct unsent *unsent)
{
    assert(out->bytes >= unsent->size && out->n_fds >= (unsent->fd >= 0));
    list_remove(&unsent->link);
    out->bytes -= unsent->size;
    out->n_fds -= unsent->fd >= 0;
    fd_close(unsent->fd);
    free(unsent);
    assert(!list_empty(&out->unsent) || (!out->bytes && !out->n_fds));
}

void symbolizer_send_fd(struct symbolizer_out *out, const struct symbolizer_message *message,
                        int fd)
{
    CLAIM_THREAD(&out->owner);
    _cleanup_buf_ struct buf datagram = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    if (symbolizer_message_encode(message, &datagram)) {
        fd_close(fd);
        symbolizer_count_full(SYMBOLIZER_LIMIT_WORK);
    } else if (list_empty(&out->unsent) && datagram_send(out, buf_bytes(&datagram), fd)) {
        fd_close(fd);
    } else {
        unsent_append(out, buf_bytes(&datagram), fd);
    }
}

void symbolizer_send(struct symbolizer_out *out, const struct symbolizer_message *message)
{
    symbolizer_send_fd(out, message, -1);
}

void symbolizer_flush(struct symbolizer_out *out)
{
    CLAIM_THREAD(&out->owner);
    struct list *link;
    while ((link = list_first(&out->unsent))) {
        struct unsent *unsent = container_of(link, struct unsent, link);
        if (!datagram_send(out, BYTES(unsent->datagram, unsent->size), unsent->fd))
            return;
        unsent_remove(out, unsent);
    }
}

void symbolizer_out_close(struct symbolizer_out *out)
{
    struct list *link;
    while ((link = list_first(&out->unsent)))
        unsent_remove(out, container_of(link, struct unsent, link));
}
