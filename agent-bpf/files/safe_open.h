/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opens the file of a process's mapping, by the reader (reader_files.h), and only if it is the file
 * that was mapped: by device, inode and generation, of which the kernel tells. What is in the file
 * proves nothing.
 *
 * Reading the descriptors waits for local disks alone: a file that lies elsewhere (a server, or
 * layers in a user namespace) is copied to memory. Outcome -EAGAIN: the reader has not answered;
 * try again later. Thread: the symbolizer's loop.
 */
#include "agent-bpf/process_event.h"
#include <stdbool.h>

#define SAFE_COPY_MAX (18u << 20) /* bytes of a file that is copied */

struct safe_file {
    int fd; /* O_RDONLY, close-on-exec; the caller's */
    bool is_copy;
    bool is_on_overlay; /* that root has mounted: nobody else chooses its inode numbers */
    uint64_t device;    /* as a mapping shows it, if the file was compared with one */
    uint64_t inode;
    uint64_t size;
    uint64_t changed_ns; /* ctime: differs if the content does */
};

enum {
    SAFE_OPEN_REFUSED = 1,   /* not a file that may be read */
    SAFE_OPEN_DIFFERENT = 2, /* another file is at that path now */
    SAFE_OPEN_TOO_LARGE = 3, /* to be copied */
};

/* 0, one of the above, or negative errno. */
int safe_open_mapping(uint32_t pid, const struct process_mapping *mapping, struct safe_file *file);
/* Local files of mappings in one request, in their order; file->fd is take()'s own. Of the others
 * nothing is said: safe_open_mapping() does. take() makes no request of the reader. */
typedef void safe_open_take(void *context, size_t index, const struct safe_file *file);
void safe_open_ahead(uint32_t pid, const struct process_mapping *mappings, size_t n,
                     safe_open_take *take, void *context);
/* A local file by path in the root of a process (0: in ours), with the same care but no comparison.
 */
int safe_open_path(uint32_t pid, const char *path, struct safe_file *file);
/* The same, and a symbolic link anywhere in the path is an error (-ELOOP). */
int safe_open_plain(uint32_t pid, const char *path, struct safe_file *file);
