/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opens the file of a process's mapping. The process chose the path, so it is not trusted: only
 * regular, non-empty files, not on FUSE, inside the process's own root, without following magic
 * links; and only if it is the file that was mapped (device, inode and generation, else build id).
 * Opening does not block on a writer or a daemon, except in a race; then the supervisor ends the
 * symbolizer.
 * Symbolizer only.
 */
#include "agent-bpf/process_event.h"

struct safe_file {
    int fd; /* O_RDONLY, close-on-exec; the caller's */
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    uint64_t changed_ns; /* ctime: differs if the content does */
};

enum {
    SAFE_OPEN_REFUSED = 1,   /* not a file that may be read */
    SAFE_OPEN_DIFFERENT = 2, /* another file is at that path now */
};

/* 0, one of the above, or negative errno. */
int safe_open_mapping(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file);
/* A file by path below a directory descriptor, with the same care but no comparison. */
int safe_open_path(int root_fd, const char *path, struct safe_file *file);
/* The same, and a symbolic link anywhere in the path is an error (-ELOOP). */
int safe_open_plain(int root_fd, const char *path, struct safe_file *file);
