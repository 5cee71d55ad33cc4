/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of message has one function that names its fields in the order of the wire
 * (message_io.h). */
#include "agent-bpf/reader_messages.h"
#include "agent-bpf/passed_fds.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void io_memory_wanted(struct message_io *io, struct reader_memory_wanted *wanted)
{
    uint64_t total = 0;
    io_u32(io, &wanted->pid);
    IO_LIST(io, wanted->spans, wanted->n, READER_RANGES_MAX);
    for (uint32_t i = 0; i < wanted->n; i++) {
        io_u64(io, &wanted->spans[i].address);
        io_u32(io, &wanted->spans[i].size);
        total += wanted->spans[i].size;
    }
    io_check(io, total <= READER_BYTES_MAX);
}

static void io_files_wanted(struct message_io *io, struct reader_files_wanted *wanted)
{
    io_u32(io, &wanted->pid);
    io_u8(io, &wanted->how);
    io_check(io, wanted->how < READER_HOWS);
    IO_LIST(io, wanted->mappings, wanted->n, READER_FILES_MAX);
    for (uint32_t i = 0; i < wanted->n; i++) {
        struct process_mapping *mapping = &wanted->mappings[i];
        io_u64(io, &mapping->start);
        io_u64(io, &mapping->length);
        io_u32(io, &mapping->device_major);
        io_u32(io, &mapping->device_minor);
        io_u64(io, &mapping->inode);
        io_u64(io, &mapping->inode_generation);
        io_string(io, &mapping->path, READER_PATH_MAX);
    }
}

static void io_copy_wanted(struct message_io *io, struct reader_copy_wanted *wanted)
{
    io_u64(io, &wanted->offset);
    io_u32(io, &wanted->size);
    io_check(io, wanted->size <= READER_COPY_MAX && wanted->offset <= INT64_MAX - READER_COPY_MAX);
}

static void io_contents(struct message_io *io, struct reader_memory *memory)
{
    IO_LIST(io, memory->contents, memory->n, READER_RANGES_MAX);
    for (uint32_t i = 0; i < memory->n; i++) {
        io_u32(io, &memory->contents[i].error);
        io_bytes(io, &memory->contents[i].data, READER_BYTES_MAX);
    }
}

static void io_text(struct message_io *io, struct reader_text *text)
{
    io_u8(io, &text->kind);
    io_check(io, text->kind < READER_TEXTS);
    io_u8(io, &text->more);
    io_u32(io, &text->error);
    io_bytes(io, &text->text, READER_BYTES_MAX);
}

static void io_file(struct message_io *io, struct reader_file *file)
{
    io_u32(io, &file->error);
    io_u8(io, &file->place);
    io_u8(io, &file->is_on_overlay);
    io_u64(io, &file->device);
    io_u64(io, &file->inode);
    io_u64(io, &file->size);
    io_u64(io, &file->changed_ns);
}

/* False: there is no such kind. */
static bool io_body(struct message_io *io, struct reader_message *message)
{
    switch (message->kind) {
    case READER_MEMORY_WANTED:
        io_memory_wanted(io, &message->memory_wanted);
        return true;
    case READER_TEXT_WANTED:
        io_u32(io, &message->text_wanted.pid);
        io_u32(io, &message->text_wanted.kinds);
        io_check(io, message->text_wanted.kinds && !(message->text_wanted.kinds >> READER_TEXTS));
        return true;
    case READER_FILES_WANTED:
        io_files_wanted(io, &message->files_wanted);
        return true;
    case READER_COPY_WANTED:
        io_copy_wanted(io, &message->copy_wanted);
        return true;
    case READER_MEMORY:
        io_contents(io, &message->memory);
        return true;
    case READER_TEXT:
        io_text(io, &message->text);
        return true;
    case READER_FILE:
        io_file(io, &message->file);
        return true;
    case READER_COPIED:
        io_u32(io, &message->copied.error);
        io_u32(io, &message->copied.size);
        return true;
    }
    return false;
}

int reader_message_encode(const struct reader_message *message, struct buf *out)
{
    struct reader_message fields = *message;
    struct message_io io = {.out = out};
    size_t before = out->len;
    uint8_t kind = (uint8_t)message->kind;
    io_u8(&io, &kind);
    io_u64(&io, &fields.ticket);
    if (!io_body(&io, &fields))
        io.error = -EINVAL;
    if (!io.error && out->len - before > READER_MESSAGE_MAX)
        io.error = BUF_FULL;
    if (io.error)
        out->len = before;
    return io.error;
}

int reader_message_decode(struct bytes datagram, struct arena *arena,
                          struct reader_message *message)
{
    memset(message, 0, sizeof(*message));
    if (datagram.len > READER_MESSAGE_MAX)
        return MESSAGE_MALFORMED;
    struct message_io io = {.in = datagram, .arena = arena};
    uint8_t kind = 0;
    io_u8(&io, &kind);
    io_u64(&io, &message->ticket);
    message->kind = (enum reader_kind)kind;
    io_check(&io, io_body(&io, message));
    io_check(&io, io.at == datagram.len);
    return io.error;
}

/* ---- datagrams with descriptors ---- */

union reader_control {
    struct cmsghdr header; /* for alignment */
    char bytes[CMSG_SPACE(READER_FDS_MAX * sizeof(int))];
};

void reader_fds_close(struct reader_fds *fds)
{
    for (size_t i = 0; i < fds->n; i++)
        close(fds->fds[i]);
    fds->n = 0;
}

int reader_send(int socket, struct bytes datagram, const struct reader_fds *fds)
{
    struct iovec part = {.iov_base = (void *)datagram.data, .iov_len = datagram.len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union reader_control space = {0};
    if (fds && fds->n) {
        header.msg_control = space.bytes;
        header.msg_controllen = CMSG_SPACE(fds->n * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fds->n * sizeof(int));
        memcpy(CMSG_DATA(rights), fds->fds, fds->n * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(socket, &header, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

ssize_t reader_receive(int socket, uint8_t *datagram, struct reader_fds *fds)
{
    struct iovec part = {.iov_base = datagram, .iov_len = READER_MESSAGE_MAX};
    union reader_control space = {0};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof(space.bytes)};
    ssize_t n;
    fds->n = 0;
    do
        n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    fds->n = passed_fds_take(&header, fds->fds, READER_FDS_MAX);
    if (fds->n > READER_FDS_MAX)
        fds->n = READER_FDS_MAX;
    if (!n)
        reader_fds_close(fds);
    return n;
}
