/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Opens the file of a process's mapping. The process chose the path, so it is not trusted: only
 * regular, non-empty files, not on FUSE, inside the process's own root, without following magic
 * links; and only if it is the file that was mapped (device, inode and generation, else build id).
 *
 * Nothing here waits for a foreign file system: what may wait is asked of the reader
 * (reader_client.h). Reading the descriptors waits for local disks alone: a file that lies
 * elsewhere (a server, or layers in a user namespace) is copied to memory. Outcome -EAGAIN: the
 * reader has not answered; try again later. Symbolizer only, but safe_look_up() also in the reader.
 */
#include "agent-bpf/process_event.h"
#include <stdbool.h>

#define SAFE_COPY_MAX (18u << 20) /* bytes of a file that is copied */

struct safe_file {
    int fd; /* O_RDONLY, close-on-exec; the caller's */
    bool is_copy;
    uint64_t device;
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
/* A local file by path in the root of a process (0: in ours), with the same care but no comparison.
 */
int safe_open_path(uint32_t pid, const char *path, struct safe_file *file);
/* The same, and a symbolic link anywhere in the path is an error (-ELOOP). */
int safe_open_plain(uint32_t pid, const char *path, struct safe_file *file);

enum safe_look_up {
    SAFE_LOOK_UP_PLAIN = 1,  /* a symbolic link anywhere in the path is an error (-ELOOP) */
    SAFE_LOOK_UP_CACHED = 2, /* -EAGAIN instead of asking a file system; without: it may hang */
};

/* The O_PATH descriptor of a file by path, as above. how: bits of enum safe_look_up. 0 or negative
 * errno. */
int safe_look_up(uint32_t pid, const char *path, unsigned how, int *fd);
/* Of the file that is mapped exactly there. May hang: reader only. */
int safe_look_up_mapped(uint32_t pid, uint64_t start, uint64_t end, int *fd);
