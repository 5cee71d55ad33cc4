/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the kernel says of a file that is mapped: device and inode as in /proc/PID/maps and in the
 * events of mappings. On some file systems (btrfs, overlayfs) stat says another device.
 */
#include <stdint.h>

struct kernel_file {
    uint64_t device; /* makedev() */
    uint64_t inode;  /* 0: not known */
};

/* Maps a page of the file into this process for a moment. 0 or negative errno. Any thread. Waits
 * for the file's file system. */
int kernel_file_of(int fd, struct kernel_file *mapped);
