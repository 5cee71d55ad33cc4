/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Files that the keeper has the right to read and the service has not, certificates and their keys:
 * each is held as a sealed memfd that the service inherits. They are looked at again in their
 * interval; what has changed is sent to the service as a new memfd. The keeper looks into none.
 *
 * Limits: KEEPER_FILES_MAX files of KEEPER_FILE_BYTES_MAX; regular ones.
 * Thread: the keeper's; keeper_file_contents() any.
 */
#include "base/buf.h"
#include <stdbool.h>

#define KEEPER_FILES_MAX      144 /* three a protocol of a receiver and three an exporter */
#define KEEPER_FILE_BYTES_MAX (1u << 20)

struct keeper_file {
    const char *path;     /* the owner's; symbolic links are followed */
    uint64_t interval_ns; /* looked at again that often; 0: only when all are */
    int fd;               /* what was read last */
    /* private */
    uint64_t due_ns;
    bool failing; /* said once */
};

/* Reads it for the first time. 0, -EFBIG, -EINVAL (not a regular file), other negative errno. */
int keeper_file_open(struct keeper_file *file);
void keeper_file_close(struct keeper_file *file); /* again: no harm */
/* Those that are due, or all. changed(): files[i].fd has other contents. */
void keeper_files_poll(struct keeper_file *files, size_t n, bool all, uint64_t now_ns,
                       void (*changed)(void *context, size_t i), void *context);
/* Appends. 0, BUF_FULL, negative errno. */
int keeper_file_contents(int fd, struct buf *out);
