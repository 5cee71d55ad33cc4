/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * On what kind of file system an opened file lies: whether reading it may wait for somebody else.
 * Thread: any. file_place() waits for nobody. file_place_asking() may wait for ever: reader only.
 */
#include "base/buf.h"

enum file_place {
    FILE_PLACE_UNKNOWN, /* its mount is not among those of the process */
    FILE_PLACE_LOCAL,   /* the kernel and a disk of this machine answer */
    FILE_PLACE_FOREIGN, /* a server, or layers that cannot be told: read by the reader alone */
    FILE_PLACE_FUSE,    /* a process answers, if it likes: not read at all */
    FILE_PLACES
};

/* pid: the process whose mounts these are and in whose root the file was found; 0 = this process.
 * mounts: text of its mountinfo. fd: also O_PATH. */
enum file_place file_place(int fd, uint32_t pid, struct bytes mounts);

/* What that takes of a process, held by someone who will not be allowed to look into it later. */
struct file_view {
    int root_fd;
    int node_root_fd; /* our own */
    bool is_ours;     /* root of our user namespace has mounted what it sees */
    struct buf mounts, node_mounts;
};
/* process_fd: its folder in /proc. 0 or negative errno; to be closed in either case. */
int file_view_open(int process_fd, uint32_t pid, struct file_view *view);
void file_view_close(struct file_view *view);
enum file_place file_place_viewed(int fd, const struct file_view *view);

/* The same, and for an unknown mount by what the file system says of itself. */
enum file_place file_place_asking(int fd, uint32_t pid, struct bytes mounts);
