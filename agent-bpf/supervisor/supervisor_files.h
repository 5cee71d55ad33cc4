/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files that the service is given by the supervisor, certificates and their keys, since it has not
 * the right to read them. Another process reads them (supervisor_ask.h), so that a file system that
 * does not answer cannot hold the supervisor. Each is a sealed memfd that the service inherits.
 * They are read again at their interval; a changed file is sent to the service as a new memfd. The
 * supervisor only compares contents.
 *
 * Over a file that does not come within FILES_LIMIT_NS a process is lost. Until that one has ended,
 * nothing is asked for in the same directory, and what was read last stays in use.
 *
 * Limits: SUPERVISOR_FILES_MAX files of SUPERVISOR_FILE_BYTES_MAX; regular ones.
 * Thread: the supervisor's; supervisor_file_contents() any.
 */
#include "agent-bpf/supervisor/supervisor_ask.h"
#include "base/buf.h"
#include "base/clock.h"
#include <stdbool.h>

#define SUPERVISOR_FILES_MAX      144 /* three a protocol of a receiver and three an exporter */
#define SUPERVISOR_FILE_BYTES_MAX (1u << 20)
#define FILES_LIMIT_NS            (2 * NS_PER_SEC)

struct supervisor_file {
    const char *path;     /* the owner's; symbolic links are followed */
    uint64_t interval_ns; /* looked at again that often; 0: only when all are */
    int fd;               /* what was read last; -1: nothing yet */
    int error;            /* of the last look: 0 or negative errno; said once */
    /* private */
    uint64_t due_ns; /* 0: not planned yet */
    pid_t held_by;   /* the process that was lost over it, while it is there */
};

/* Reads all for the first time, in FILES_LIMIT_NS. Each has its fd then, or its error: -EFBIG,
 * -EINVAL (not a regular file), -ETIMEDOUT, other negative errno. What does not come in time, and
 * `before` (n_before, may be 0) has, is taken from there. */
void supervisor_files_open(struct supervisor_file *files, size_t n,
                           const struct supervisor_file *before, size_t n_before);
void supervisor_file_close(struct supervisor_file *file); /* again: no harm */
const char *supervisor_file_reason(int error);

/* Looks at them again, while the loop goes on. */
struct files_reading {
    struct supervisor_file *files;
    size_t n;
    void (*changed)(void *context, size_t i); /* files[i].fd has other contents */
    void *context;
    /* private */
    bool under_way;
    struct asking asking;
    size_t n_asked, n_answered;
    uint16_t asked[SUPERVISOR_FILES_MAX]; /* indexes */
};

void files_reading_all(struct files_reading *reading); /* all are due now */
/* When its fd is readable, and each second: takes what has come, and asks for what is due. */
void files_reading_tend(struct files_reading *reading, uint64_t now_ns);
int files_reading_fd(const struct files_reading *reading); /* -1: none */
void files_reading_close(struct files_reading *reading);
/* Appends. 0, BUF_FULL, negative errno. */
int supervisor_file_contents(int fd, struct buf *out);
