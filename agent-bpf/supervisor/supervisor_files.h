/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files that the supervisor has the right to read and the service has not, certificates and their
 * keys: each is held as a sealed memfd that the service inherits. They are looked at again in their
 * interval; what has changed is sent to the service as a new memfd. The supervisor looks into none.
 *
 * Limits: SUPERVISOR_FILES_MAX files of SUPERVISOR_FILE_BYTES_MAX; regular ones.
 * Thread: the supervisor's; supervisor_file_contents() any.
 */
#include "base/buf.h"
#include <stdbool.h>

#define SUPERVISOR_FILES_MAX      144 /* three a protocol of a receiver and three an exporter */
#define SUPERVISOR_FILE_BYTES_MAX (1u << 20)

struct supervisor_file {
    const char *path;     /* the owner's; symbolic links are followed */
    uint64_t interval_ns; /* looked at again that often; 0: only when all are */
    int fd;               /* what was read last */
    /* private */
    uint64_t due_ns;
    bool failing; /* said once */
};

/* Reads it for the first time. 0, -EFBIG, -EINVAL (not a regular file), other negative errno. */
int supervisor_file_open(struct supervisor_file *file);
void supervisor_file_close(struct supervisor_file *file); /* again: no harm */
/* Those that are due, or all. changed(): files[i].fd has other contents. */
void supervisor_files_poll(struct supervisor_file *files, size_t n, bool all, uint64_t now_ns,
                           void (*changed)(void *context, size_t i), void *context);
/* Appends. 0, BUF_FULL, negative errno. */
int supervisor_file_contents(int fd, struct buf *out);
