/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/files/reader_client.h"
#include "agent-bpf/files/proc_maps.h"
#include "agent-bpf/reader_messages.h"
#include "base/fd.h"
#include "base/stats.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>

STAT_COUNTER(requests, "spanprof_reader_requests_total",
             "Requests to the reader for memory and files of processes.");
STAT_LOSS(overdue_answers, "spanprof_reader_overdue_total",
          "Requests to the reader that had no answer within 500 ms.");
STAT_LOSS(refused, "spanprof_reader_busy_total",
          "Looks at a process put off because the reader was held by another one.");

#define REPEAT_NS (NS_PER_SEC / 4)
#define ARENA_MAX (64 * 1024)

enum reader_client_state {
    READER_NONE,
    READER_IDLE,
    READER_ASKED,   /* the answer is waited for */
    READER_LATE,    /* nobody waits for the answer any more */
    READER_OVERDUE, /* the supervisor was told */
};

static struct reader_client {
    enum reader_client_state state;
    struct reader_client_settings settings;
    int socket;
    uint64_t ticket; /* of the last request */
    uint32_t pid;    /* that it was about */
    uint32_t kinds;  /* of texts that were asked for */
    size_t n_files;  /* that were asked for and not answered yet */
    uint64_t asked_ns;
    uint64_t heard_ns; /* the last part of its answer; at first asked_ns */
    uint64_t told_ns;
    uint64_t unready_ns; /* when it was lost or late last; 0: never */
    struct buf request;
    struct arena arena; /* of the last answer */
    size_t length;      /* of the datagram received last */
    uint8_t datagram[READER_MESSAGE_MAX];
} client = {.socket = -1};

void reader_client_open(const struct reader_client_settings *settings)
{
    client.settings = settings ? *settings : (struct reader_client_settings){0};
    arena_init(&client.arena, ARENA_MAX);
}

void reader_client_close(void)
{
    fd_closep(&client.socket);
    client.state = READER_NONE;
    buf_close(&client.request);
    arena_close(&client.arena);
    client.settings = (struct reader_client_settings){0};
}

static bool is_under_way(void)
{
    return client.state >= READER_ASKED;
}

/* It ended, or is replaced. */
static void client_lose(void)
{
    bool lost = is_under_way();
    client.state = READER_NONE;
    fd_closep(&client.socket);
    if (!lost)
        return;
    client.unready_ns = clock_monotonic_ns();
    if (client.settings.lost)
        client.settings.lost(client.settings.context, client.pid);
}

void reader_client_attach(int socket)
{
    client_lose();
    client.socket = socket;
    client.state = socket >= 0 ? READER_IDLE : READER_NONE;
}

/* ---- answers ---- */

static bool is_last(const struct reader_message *answer)
{
    if (answer->kind == READER_FILE)
        return !client.n_files;
    return answer->kind != READER_TEXT ||
           (!answer->text.more && !(client.kinds >> answer->text.kind >> 1));
}

/* The next part of the answer, if it is there. -EAGAIN; -EPIPE: the reader is lost. */
static int client_receive(struct reader_message *answer, struct reader_fds *fds)
{
    ssize_t n = reader_receive(client.socket, client.datagram, fds);
    if (n == -EAGAIN)
        return -EAGAIN;
    arena_reset(&client.arena);
    client.length = n > 0 ? (size_t)n : 0;
    if (n <= 0 || reader_message_decode(BYTES(client.datagram, (size_t)n), &client.arena, answer) ||
        answer->ticket != client.ticket) {
        if (n > 0)
            reader_fds_close(fds);
        client_lose();
        return -EPIPE;
    }
    client.heard_ns = clock_monotonic_ns();
    if (answer->kind == READER_FILE && client.n_files)
        client.n_files--;
    if (is_last(answer))
        client.state = READER_IDLE;
    return 0;
}

/* Drops a late answer that has come meanwhile. */
static void client_drop_late(void)
{
    struct reader_message answer;
    struct reader_fds fds;
    while (client.state == READER_LATE || client.state == READER_OVERDUE) {
        if (client_receive(&answer, &fds))
            return;
        reader_fds_close(&fds);
    }
}

static void client_tell(uint64_t now_ns)
{
    if (client.state == READER_LATE) {
        stat_add(&overdue_answers, 1);
        client.state = READER_OVERDUE;
    }
    client.told_ns = now_ns;
    if (client.settings.overdue)
        client.settings.overdue(client.settings.context, client.asked_ns);
}

uint64_t reader_client_due(void)
{
    if (client.state == READER_OVERDUE)
        return client.told_ns + REPEAT_NS;
    return client.state == READER_LATE ? client.asked_ns + READER_DEADLINE_NS : UINT64_MAX;
}

void reader_client_poll(void)
{
    uint64_t now_ns = clock_monotonic_ns();
    client_drop_late();
    if (now_ns >= reader_client_due())
        client_tell(now_ns);
}

bool reader_client_is_ready(void)
{
    reader_client_poll();
    return client.state == READER_IDLE;
}

bool reader_client_is_expected(void)
{
    return client.unready_ns && !reader_client_is_ready() &&
           clock_monotonic_ns() - client.unready_ns < READER_EXPECTED_NS;
}

/* ---- requests ---- */

/* What is still to come of the answer is dropped. */
static void client_leave(void)
{
    client.state = READER_LATE;
    client.unready_ns = clock_monotonic_ns();
}

static int client_ask(struct reader_message *request, uint32_t pid, const struct reader_fds *fds)
{
    if (!reader_client_is_ready()) {
        stat_add(&refused, client.state != READER_NONE);
        return -EAGAIN;
    }
    request->ticket = ++client.ticket;
    buf_clear(&client.request);
    int error = reader_message_encode(request, &client.request);
    if (error)
        return error < 0 ? error : -E2BIG;
    stat_add(&requests, 1);
    client.pid = pid;
    client.asked_ns = client.heard_ns = clock_monotonic_ns();
    client.state = READER_ASKED;
    error = reader_send(client.socket, buf_bytes(&client.request), fds);
    if (!error)
        return 0;
    client_lose();
    return -EAGAIN;
}

/* The next part of the answer of this kind. A loss in between is tried again with another reader.
 */
static int client_wait(enum reader_kind kind, struct reader_message *answer, struct reader_fds *fds)
{
    for (;;) {
        assert(client.state == READER_ASKED);
        int error = client_receive(answer, fds);
        if (!error && answer->kind == kind)
            return 0;
        if (error != -EAGAIN) {
            if (!error)
                reader_fds_close(fds);
            client_lose();
            return -EAGAIN;
        }
        uint64_t now_ns = clock_monotonic_ns(), until_ns = client.heard_ns + READER_PATIENCE_NS;
        if (until_ns > client.asked_ns + READER_DEADLINE_NS)
            until_ns = client.asked_ns + READER_DEADLINE_NS;
        if (now_ns >= until_ns)
            break;
        struct pollfd wait = {.fd = client.socket, .events = POLLIN};
        (void)poll(&wait, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
    }
    client_leave();
    return -EAGAIN;
}

static int negative(uint32_t error)
{
    return error && error < 4096 ? -(int)error : error ? -EIO : 0;
}

static int client_call(struct reader_message *request, uint32_t pid, const struct reader_fds *sent,
                       enum reader_kind kind, struct reader_message *answer,
                       struct reader_fds *received)
{
    int error = client_ask(request, pid, sent);
    return error ? error : client_wait(kind, answer, received);
}

static int range_take(struct reader_range *range, const struct reader_content *content)
{
    if (content->error)
        return negative(content->error);
    if (content->data.len != range->size)
        return -EIO;
    if (range->size)
        memcpy(range->out, content->data.data, range->size);
    return 0;
}

int reader_memory(uint32_t pid, struct reader_range *ranges, size_t n)
{
    struct reader_span spans[READER_RANGES_MAX];
    struct reader_message answer;
    struct reader_fds fds;
    assert(n && n <= READER_RANGES_MAX);
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        spans[i] = (struct reader_span){ranges[i].address, ranges[i].size};
        total += ranges[i].size;
    }
    assert(total <= READER_BYTES_MAX);
    struct reader_message request = {
        .kind = READER_MEMORY_WANTED,
        .memory_wanted = {.pid = pid, .n = (uint32_t)n, .spans = spans}};
    int error = client_call(&request, pid, NULL, READER_MEMORY, &answer, &fds);
    if (error)
        return error;
    reader_fds_close(&fds);
    for (size_t i = 0; i < n; i++)
        ranges[i].error =
            i < answer.memory.n ? range_take(&ranges[i], &answer.memory.contents[i]) : -EIO;
    explicit_bzero(client.datagram, client.length); /* it may hold secrets of the process */
    return 0;
}

int reader_memory_one(uint32_t pid, uint64_t address, void *out, size_t size)
{
    struct reader_range range = {.address = address, .out = out, .size = (uint32_t)size};
    int error = reader_memory(pid, &range, 1);
    return error ? error : range.error;
}

/* -EIO: it was not asked for. */
static int text_take(const struct reader_text *part, struct buf *texts, int *outcomes)
{
    if (!(client.kinds & 1u << part->kind))
        return -EIO;
    if (part->error)
        outcomes[part->kind] = negative(part->error);
    else if (!outcomes[part->kind] && buf_append_bytes(&texts[part->kind], part->text))
        outcomes[part->kind] = -E2BIG;
    return 0;
}

int reader_proc_texts(uint32_t pid, uint32_t kinds, struct buf *texts, int *outcomes)
{
    struct reader_message answer,
        request = {.kind = READER_TEXT_WANTED, .text_wanted = {.pid = pid, .kinds = kinds}};
    struct reader_fds fds;
    for (int i = 0; i < READER_TEXTS; i++) {
        if (!(kinds & 1u << i))
            continue;
        buf_clear(&texts[i]);
        outcomes[i] = 0;
    }
    int error = client_ask(&request, pid, NULL);
    client.kinds = error ? client.kinds : kinds;
    while (!error) {
        error = client_wait(READER_TEXT, &answer, &fds);
        if (error)
            break;
        reader_fds_close(&fds);
        error = text_take(&answer.text, texts, outcomes);
        if (is_last(&answer))
            return error;
    }
    if (is_under_way())
        client_leave();
    return error;
}

int reader_proc_text(uint32_t pid, enum reader_text_kind kind, struct buf *text)
{
    struct buf texts[READER_TEXTS] = {0};
    int outcomes[READER_TEXTS];
    texts[kind] = *text;
    int error = reader_proc_texts(pid, 1u << kind, texts, outcomes);
    *text = texts[kind];
    return error ? error : outcomes[kind];
}

int reader_maps(uint32_t pid, struct buf *text)
{
    text->limit_bytes = PROC_MAPS_BYTES_MAX;
    return reader_proc_text(pid, READER_MAPS, text);
}

static int file_outcome(const struct reader_file *file, enum reader_how how,
                        const struct reader_fds *fds)
{
    bool with_fd = !file->error && how != READER_SOCKET;
    if (file->place >= FILE_PLACES || fds->n != with_fd)
        return -EIO;
    return file->error >= READER_OUTCOME ? (int)(file->error - READER_OUTCOME)
                                         : negative(file->error);
}

int reader_files(uint32_t pid, enum reader_how how, const struct process_mapping *mappings,
                 size_t n, reader_file_take *take, void *context)
{
    struct reader_message answer,
        request = {.kind = READER_FILES_WANTED,
                   .files_wanted = {.pid = pid,
                                    .how = (uint8_t)how,
                                    .n = (uint32_t)n,
                                    .mappings = (struct process_mapping *)mappings}};
    assert(n && n <= READER_FILES_MAX);
    int error = client_ask(&request, pid, NULL);
    client.n_files = error ? client.n_files : n;
    for (size_t i = 0; i < n && !error; i++) {
        struct reader_fds fds;
        error = client_wait(READER_FILE, &answer, &fds);
        if (error)
            break;
        struct reader_file file = answer.file;
        int outcome = file_outcome(&file, how, &fds);
        if (outcome)
            reader_fds_close(&fds);
        take(context, i, outcome, &file, fds.n ? fds.fds[0] : -1);
        client.asked_ns = client.heard_ns = clock_monotonic_ns(); /* the reader has not used that */
    }
    return error;
}

struct one_file {
    int outcome;
    struct reader_file *file;
    int *fd;
};

static void take_one(void *context, size_t index, int outcome, const struct reader_file *file,
                     int fd)
{
    struct one_file *one = context;
    (void)index;
    one->outcome = outcome;
    *one->file = *file;
    *one->fd = fd;
}

int reader_file(uint32_t pid, enum reader_how how, const struct process_mapping *mapping,
                struct reader_file *file, int *fd)
{
    struct one_file one = {.file = file, .fd = fd};
    *fd = -1;
    int error = reader_files(pid, how, mapping, 1, take_one, &one);
    return error ? error : one.outcome;
}

int reader_copy(uint32_t pid, int path_fd, int memory_fd, uint64_t size)
{
    const struct reader_fds sent = {.n = 2, .fds = {path_fd, memory_fd}};
    struct reader_message answer;
    struct reader_fds fds;
    for (uint64_t at = 0; at < size;) {
        uint64_t left = size - at;
        struct reader_message request = {
            .kind = READER_COPY_WANTED,
            .copy_wanted = {.offset = at,
                            .size = left < READER_COPY_MAX ? (uint32_t)left : READER_COPY_MAX}};
        int error = client_call(&request, pid, &sent, READER_COPIED, &answer, &fds);
        if (error)
            return error;
        reader_fds_close(&fds);
        if (answer.copied.error || answer.copied.size != request.copy_wanted.size)
            return answer.copied.error ? negative(answer.copied.error) : -EIO;
        at += answer.copied.size;
    }
    return 0;
}
