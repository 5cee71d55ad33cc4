/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/reader/reader.h"
#include "agent-bpf/files/file_place.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/files/safe_open.h"
#include "agent-bpf/reader_messages.h"
#include "base/fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#define ARENA_MAX (64 * 1024) /* lists and paths of a request */

struct reader {
    int socket;
    struct arena arena;
    struct buf mounts;
    struct buf answer;
    uint8_t datagram[READER_MESSAGE_MAX];
    uint8_t memory[READER_BYTES_MAX];
    uint8_t copy[64 * 1024];
};

/* Positive, as in the messages. */
static uint32_t errno_of(int error)
{
    return error < 0 ? (uint32_t)-error : (uint32_t)error;
}

static int reader_answer(struct reader *reader, const struct reader_message *answer,
                         const struct reader_fds *fds)
{
    buf_clear(&reader->answer);
    int error = reader_message_encode(answer, &reader->answer);
    return error ? error : reader_send(reader->socket, buf_bytes(&reader->answer), fds);
}

/* ---- memory ---- */

/* All at once; false: not all of it could be read. */
static bool read_spans(uint32_t pid, const struct reader_span *spans, uint32_t n, uint8_t *out)
{
    struct iovec there[READER_RANGES_MAX];
    size_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        there[i] = (struct iovec){(void *)(uintptr_t)spans[i].address, spans[i].size};
        total += spans[i].size;
    }
    struct iovec here = {out, total};
    return process_vm_readv((pid_t)pid, &here, 1, there, n, 0) == (ssize_t)total;
}

static uint32_t read_span(uint32_t pid, const struct reader_span *span, uint8_t *out)
{
    struct iovec here = {out, span->size};
    struct iovec there = {(void *)(uintptr_t)span->address, span->size};
    ssize_t n = process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0);
    if (n < 0)
        return (uint32_t)errno;
    return (size_t)n == span->size ? 0 : EFAULT;
}

static int reader_read_memory(struct reader *reader, const struct reader_message *request)
{
    const struct reader_memory_wanted *wanted = &request->memory_wanted;
    struct reader_content contents[READER_RANGES_MAX] = {0};
    bool whole = read_spans(wanted->pid, wanted->spans, wanted->n, reader->memory);
    size_t at = 0;
    for (uint32_t i = 0; i < wanted->n; i++) {
        const struct reader_span *span = &wanted->spans[i];
        contents[i].error = whole ? 0 : read_span(wanted->pid, span, reader->memory + at);
        if (!contents[i].error)
            contents[i].data = BYTES(reader->memory + at, span->size);
        at += span->size;
    }
    int error = reader_answer(reader,
                              &(struct reader_message){.kind = READER_MEMORY,
                                                       .ticket = request->ticket,
                                                       .memory = {wanted->n, contents}},
                              NULL);
    explicit_bzero(reader->memory, at); /* it may hold secrets of the process */
    explicit_bzero(reader->answer.data, reader->answer.len);
    return error;
}

/* ---- /proc/PID/maps ---- */

static int reader_answer_maps(struct reader *reader, uint64_t ticket, int error, struct bytes text,
                              bool more)
{
    return reader_answer(
        reader,
        &(struct reader_message){.kind = READER_MAPS,
                                 .ticket = ticket,
                                 .maps = {.error = errno_of(error), .more = more, .text = text}},
        NULL);
}

/* Passed on as it is read: a reader that hangs for ever is to be small. */
static int reader_read_maps(struct reader *reader, const struct reader_message *request)
{
    char path[32];
    size_t total = 0;
    snprintf(path, sizeof(path), "/proc/%u/maps", request->maps_wanted.pid);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 ? -errno : 0;
    while (!failed) {
        ssize_t n = read(fd, reader->memory, sizeof(reader->memory));
        total += n > 0 ? (size_t)n : 0;
        failed = n < 0 ? -errno : total > PROC_MAPS_BYTES_MAX ? -E2BIG : 0;
        if (failed || n == 0)
            break;
        int error =
            reader_answer_maps(reader, request->ticket, 0, BYTES(reader->memory, (size_t)n), true);
        if (error)
            return error;
    }
    return reader_answer_maps(reader, request->ticket, failed, BYTES(NULL, 0), false);
}

/* ---- files ---- */

static int reader_answer_file(struct reader *reader, uint64_t ticket, uint32_t pid, int fd)
{
    struct reader_message answer = {.kind = READER_FILE, .ticket = ticket};
    struct reader_fds fds = {.n = 1, .fds = {fd}};
    if (fd < 0) {
        answer.file.error = errno_of(fd);
        return reader_answer(reader, &answer, NULL);
    }
    if (proc_mounts_read(pid, &reader->mounts))
        buf_clear(&reader->mounts);
    answer.file.place = (uint8_t)file_place_asking(fd, pid, buf_bytes(&reader->mounts));
    return reader_answer(reader, &answer, &fds);
}

static int reader_find_path(struct reader *reader, const struct reader_message *request)
{
    const struct reader_path_wanted *wanted = &request->path_wanted;
    unsigned how = wanted->plain ? SAFE_LOOK_UP_PLAIN : 0;
    _cleanup_fd_ int fd = -1;
    int error = safe_look_up(wanted->pid, wanted->path, how, &fd);
    return reader_answer_file(reader, request->ticket, wanted->pid, error ? error : fd);
}

static int reader_find_mapped(struct reader *reader, const struct reader_message *request)
{
    const struct reader_mapped_wanted *wanted = &request->mapped_wanted;
    _cleanup_fd_ int fd = -1;
    int error = safe_look_up_mapped(wanted->pid, wanted->start, wanted->end, &fd);
    return reader_answer_file(reader, request->ticket, wanted->pid, error ? error : fd);
}

static uint32_t copy_file(struct reader *reader, int from, int to,
                          const struct reader_copy_wanted *wanted, uint32_t *copied)
{
    while (*copied < wanted->size) {
        size_t want = wanted->size - *copied;
        off_t at = (off_t)(wanted->offset + *copied);
        ssize_t n = pread(from, reader->copy,
                          want < sizeof(reader->copy) ? want : sizeof(reader->copy), at);
        if (n < 0)
            return (uint32_t)errno;
        if (n == 0)
            return 0;
        if (pwrite(to, reader->copy, (size_t)n, at) != n)
            return ENOSPC;
        *copied += (uint32_t)n;
    }
    return 0;
}

static int reader_copy(struct reader *reader, const struct reader_message *request,
                       const struct reader_fds *fds)
{
    struct reader_message answer = {.kind = READER_COPIED, .ticket = request->ticket};
    char link[32];
    if (fds->n != 2)
        return -EPROTO;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fds->fds[0]);
    _cleanup_fd_ int from = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    answer.copied.error =
        from < 0 ? (uint32_t)errno
                 : copy_file(reader, from, fds->fds[1], &request->copy_wanted, &answer.copied.size);
    return reader_answer(reader, &answer, NULL);
}

/* ---- */

static int reader_serve(struct reader *reader, const struct reader_message *request,
                        const struct reader_fds *fds)
{
    switch (request->kind) {
    case READER_MEMORY_WANTED:
        return reader_read_memory(reader, request);
    case READER_MAPS_WANTED:
        return reader_read_maps(reader, request);
    case READER_PATH_WANTED:
        return reader_find_path(reader, request);
    case READER_MAPPED_WANTED:
        return reader_find_mapped(reader, request);
    case READER_COPY_WANTED:
        return reader_copy(reader, request, fds);
    default:
        return -EPROTO;
    }
}

static int reader_serve_datagram(struct reader *reader, size_t size, const struct reader_fds *fds)
{
    struct reader_message request;
    arena_reset(&reader->arena);
    int error = reader_message_decode(BYTES(reader->datagram, size), &reader->arena, &request);
    return error ? -EPROTO : reader_serve(reader, &request, fds);
}

static void reader_close(struct reader *reader)
{
    arena_close(&reader->arena);
    buf_close(&reader->mounts);
    buf_close(&reader->answer);
    free(reader);
}

int reader_run(int socket)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    int flags = fcntl(socket, F_GETFL);
    if (!reader || flags < 0 || fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) < 0) {
        free(reader);
        return -ENOMEM;
    }
    reader->socket = socket;
    arena_init(&reader->arena, ARENA_MAX);
    ssize_t n;
    int error = buf_reserve(&reader->answer, READER_MESSAGE_MAX); /* no copies of it are left */
    while (!error) {
        struct reader_fds fds;
        n = reader_receive(socket, reader->datagram, &fds);
        if (n <= 0) {
            error = (int)n;
            break;
        }
        error = reader_serve_datagram(reader, (size_t)n, &fds);
        reader_fds_close(&fds);
    }
    reader_close(reader);
    return error == -EPIPE ? 0 : error;
}
