/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The symbolizer's end of the reader (reader_messages.h): what may never return is asked of that
 * process, and waited for READER_PATIENCE_NS at most. One request is under way at a time. If its
 * answer is late, further requests are refused (-EAGAIN) until it comes or the reader is replaced;
 * after READER_DEADLINE_NS the supervisor is told. One client per process, as for heartbeats.
 * Outcomes: 0; -EAGAIN: no answer now, so the caller tries again later; another negative errno: the
 * reader's. Thread: the symbolizer's loop.
 */
#include "agent-bpf/files/file_place.h"
#include "agent-bpf/reader_messages.h"
#include "base/buf.h"
#include "base/clock.h"

#define READER_PATIENCE_NS (100 * NS_PER_MS)
#define READER_DEADLINE_NS (500 * NS_PER_MS)
#define READER_EXPECTED_NS (2 * NS_PER_SEC)

struct reader_client_settings {
    /* The answer to a request of that time is overdue; repeated while it is. */
    void (*overdue)(void *context, uint64_t asked_ns);
    /* The reader was replaced or has ended while it looked at this process. */
    void (*lost)(void *context, uint32_t pid);
    void *context;
};

/* Settings NULL: no request is made any more. */
void reader_client_open(const struct reader_client_settings *settings);
void reader_client_close(void);
/* Another reader; the socket (non-blocking) is the client's. -1: there is none. */
void reader_client_attach(int socket);
/* True: a request can be made. */
bool reader_client_is_ready(void);
/* True: it can not, but soon will: the reader was lost or is late, for READER_EXPECTED_NS at most.
 */
bool reader_client_is_expected(void);
/* Late answers and deadlines: to be called at this time. UINT64_MAX: need not be. */
uint64_t reader_client_due(void);
void reader_client_poll(void);

struct reader_range {
    uint64_t address;
    void *out;
    uint32_t size;
    int error; /* 0, or negative errno: -EFAULT if not all of it is mapped */
};

/* Memory of a process, in the order of the ranges: at most READER_RANGES_MAX with READER_BYTES_MAX
 * bytes in all. 0: each range has its outcome. */
int reader_memory(uint32_t pid, struct reader_range *ranges, size_t n);
/* Exactly size bytes of its memory. */
int reader_memory_one(uint32_t pid, uint64_t address, void *out, size_t size);
/* A text of /proc; replaces what text held. -E2BIG: longer than its limit. -ENOENT, -ESRCH: the
 * process is gone. */
int reader_proc_text(uint32_t pid, enum reader_text_kind kind, struct buf *text);
/* Several, in one request: kinds are bits 1 << enum reader_text_kind, by which both arrays are
 * indexed. 0: each has its outcome. */
int reader_proc_texts(uint32_t pid, uint32_t kinds, struct buf *texts, int *outcomes);
/* /proc/PID/maps, of PROC_MAPS_BYTES_MAX. */
int reader_maps(uint32_t pid, struct buf *text);
/* A file as reader_messages.h says. *fd: the caller's; -1 after an error or for a socket. Outcomes:
 * also those of safe_open.h. */
int reader_file(uint32_t pid, enum reader_how how, const struct process_mapping *mapping,
                struct reader_file *file, int *fd);
/* A file of several, in their order. fd: take()'s own; -1 after an error. Makes no request: the
 * reader opens the next file meanwhile. */
typedef void reader_file_take(void *context, size_t index, int outcome,
                              const struct reader_file *file, int fd);
/* Up to READER_FILES_MAX files in one request. -EAGAIN, -E2BIG: not all were taken. */
int reader_files(uint32_t pid, enum reader_how how, const struct process_mapping *mappings,
                 size_t n, reader_file_take *take, void *context);
/* Copies size bytes of the file, found for this process, to a memfd. */
int reader_copy(uint32_t pid, int path_fd, int memory_fd, uint64_t size);
