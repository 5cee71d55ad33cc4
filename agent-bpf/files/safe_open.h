/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opens the file behind a stranger's mapping, whose path that stranger chose: only regular,
 * non-empty files, not on FUSE, inside the process's own root, without following magic links; and
 * only if it is the file that was mapped (device, inode and generation, else build id). Opening
 * never waits for a writer or a daemon, but for races that the symbolizer's watch-dog ends.
 * Symbolizer only.
 */
#include "agent-bpf/process_event.h"

struct safe_file {
    int fd; /* O_RDONLY, close-on-exec; the caller's */
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    uint64_t changed_ns; /* ctime, tells contents apart */
};

enum {
    SAFE_OPEN_REFUSED = 1,   /* not a file to be read */
    SAFE_OPEN_DIFFERENT = 2, /* there is another file at that path by now */
};

/* 0, one of the above, or negative errno. */
int safe_open_mapping(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file);
/* A file by path below a directory descriptor, with the same care but no comparison. */
int safe_open_path(int root_fd, const char *path, struct safe_file *file);
/* Likewise, through no symbolic link at all (-ELOOP). */
int safe_open_plain(int root_fd, const char *path, struct safe_file *file);
