/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/reader/reader.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/files/proc_pid.h"
#include "agent-bpf/reader/reader_files.h"
#include "agent-bpf/reader_messages.h"
#include "base/fd.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define ARENA_MAX (256 * 1024) /* lists and paths of a request */

struct reader {
    int socket;
    struct arena arena;
    struct reader_mounts mounts;
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

/* ---- texts ---- */

struct text {
    uint64_t ticket;
    uint32_t pid;
    enum reader_text_kind kind;
};

static int reader_answer_text(struct reader *reader, const struct text *text, int error, size_t n,
                              bool more)
{
    return reader_answer(reader,
                         &(struct reader_message){.kind = READER_TEXT,
                                                  .ticket = text->ticket,
                                                  .text = {.kind = (uint8_t)text->kind,
                                                           .more = more,
                                                           .error = errno_of(error),
                                                           .text = BYTES(reader->memory, n)}},
                         NULL);
}

/* Until there is no more room or no more text. 0, or negative errno. */
static int fill_memory(struct reader *reader, int fd, size_t *n)
{
    *n = 0;
    while (*n < sizeof(reader->memory)) {
        ssize_t got = read(fd, reader->memory + *n, sizeof(reader->memory) - *n);
        if (got <= 0)
            return got < 0 ? -errno : 0;
        *n += (size_t)got;
    }
    return 0;
}

/* Passed on as it is read: a reader that hangs for ever is to be small. */
static int reader_read_text(struct reader *reader, const struct text *text, const char *path)
{
    size_t n = sizeof(reader->memory), total = 0;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = 0, failed = fd < 0 ? -errno : 0;
    while (!error && !failed && n == sizeof(reader->memory)) {
        failed = fill_memory(reader, fd, &n);
        total += n;
        if (!failed && total > PROC_MAPS_BYTES_MAX)
            failed = -E2BIG;
        if (!failed)
            error = reader_answer_text(reader, text, 0, n, n == sizeof(reader->memory));
    }
    return failed ? reader_answer_text(reader, text, failed, 0, false) : error;
}

static int reader_read_exe(struct reader *reader, const struct text *text)
{
    size_t n = 0;
    int error = proc_pid_link(text->pid, "exe", (char *)reader->memory, READER_PATH_MAX, &n);
    return reader_answer_text(reader, text, error, n, false);
}

static int reader_list_pids(struct reader *reader, const struct text *text)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return reader_answer_text(reader, text, -errno, 0, false);
    struct dirent *entry;
    size_t n = 0;
    int error = 0;
    while (!error && (entry = readdir(proc))) {
        size_t size = strlen(entry->d_name);
        if (strspn(entry->d_name, "0123456789") != size)
            continue;
        if (n + size + 1 > sizeof(reader->memory)) {
            error = reader_answer_text(reader, text, 0, n, true);
            n = 0;
        }
        memcpy(reader->memory + n, entry->d_name, size);
        reader->memory[n + size] = '\n';
        n += size + 1;
    }
    closedir(proc);
    return error ? error : reader_answer_text(reader, text, 0, n, false);
}

static int reader_answer_one(struct reader *reader, const struct text *text)
{
    static const char *const names[READER_TEXTS] = {[READER_MAPS] = "maps",
                                                    [READER_MOUNTS] = "mountinfo",
                                                    [READER_STAT] = "stat",
                                                    [READER_STATUS] = "status",
                                                    [READER_CGROUP] = "cgroup"};
    char path[48];
    switch (text->kind) {
    case READER_EXE:
        return reader_read_exe(reader, text);
    case READER_PIDS:
        return reader_list_pids(reader, text);
    case READER_KERNEL_NOTES:
        return reader_read_text(reader, text, "/sys/kernel/notes");
    default:
        assert(names[text->kind]);
        snprintf(path, sizeof(path), "/proc/%u/%s", text->pid, names[text->kind]);
        return reader_read_text(reader, text, path);
    }
}

static int reader_answer_texts(struct reader *reader, const struct reader_message *request)
{
    struct text text = {.ticket = request->ticket, .pid = request->text_wanted.pid};
    int error = 0;
    for (int kind = 0; !error && kind < READER_TEXTS; kind++) {
        text.kind = (enum reader_text_kind)kind;
        if (request->text_wanted.kinds & 1u << kind)
            error = reader_answer_one(reader, &text);
    }
    return error;
}

/* ---- files ---- */

static int reader_answer_file(struct reader *reader, uint64_t ticket,
                              const struct reader_file_wanted *wanted)
{
    struct reader_message answer = {.kind = READER_FILE, .ticket = ticket};
    _cleanup_fd_ int fd = -1;
    reader_open_file(wanted, &reader->mounts, &answer.file, &fd);
    struct reader_fds fds = {.n = 1, .fds = {fd}};
    return reader_answer(reader, &answer, fd < 0 ? NULL : &fds);
}

static int reader_answer_files(struct reader *reader, const struct reader_message *request)
{
    const struct reader_files_wanted *wanted = &request->files_wanted;
    int error = 0;
    reader->mounts.known = false;
    for (uint32_t i = 0; i < wanted->n && !error; i++)
        error = reader_answer_file(
            reader, request->ticket,
            &(struct reader_file_wanted){wanted->pid, wanted->how, &wanted->mappings[i]});
    return error;
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
    case READER_TEXT_WANTED:
        return reader_answer_texts(reader, request);
    case READER_FILES_WANTED:
        return reader_answer_files(reader, request);
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
    buf_close(&reader->mounts.text);
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
