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
#include "base/buf.h"
#include "base/clock.h"

#define READER_PATIENCE_NS (100 * NS_PER_MS)
#define READER_DEADLINE_NS (500 * NS_PER_MS)

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
/* /proc/PID/maps; replaces what text held. -E2BIG: longer than PROC_MAPS_BYTES_MAX. */
int reader_maps(uint32_t pid, struct buf *text);
/* An O_PATH descriptor of the file at this path, as safe_look_up(); or of the file that is mapped
 * there, as safe_look_up_mapped(). */
int reader_path(uint32_t pid, const char *path, bool plain, int *fd, enum file_place *place);
int reader_mapped(uint32_t pid, uint64_t start, uint64_t end, int *fd, enum file_place *place);
/* Copies size bytes of the file, found for this process, to a memfd. */
int reader_copy(uint32_t pid, int path_fd, int memory_fd, uint64_t size);
