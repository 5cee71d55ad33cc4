/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Finds and opens a file for the symbolizer. The process chose the path, so it is not trusted: only
 * regular, non-empty files, not on FUSE, inside the process's own root, without following magic
 * links. Nor is the symbolizer, which parses what is in such files: a file that not everybody may
 * read is opened only if the process has mapped it and it begins as an ELF file, or if it is the
 * process's own perf map.
 *
 * May hang for ever in a foreign file system. Thread: the reader's.
 */
#include "agent-bpf/reader_messages.h"

struct reader_file_wanted {
    uint32_t pid; /* in its root; 0 = in ours */
    enum reader_how how;
    const struct process_mapping *mapping;
};

/* Of one request: read for its first file. */
struct reader_mounts {
    bool known;
    int error;    /* of reading them */
    uint32_t pid; /* whose: that of the request, or 0 */
    struct buf text;
};

/* Fills the answer. *fd: the caller's; -1 without a descriptor. */
void reader_open_file(const struct reader_file_wanted *wanted, struct reader_mounts *mounts,
                      struct reader_file *file, int *fd);
