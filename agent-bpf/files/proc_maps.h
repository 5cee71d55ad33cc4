/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * /proc/PID/maps as a table, and /proc/PID/mountinfo asked for one thing: is that file on FUSE,
 * where an unprivileged daemon decides whether a read ever returns? Thread: whoever holds it.
 * Limits: PROC_MAPS_BYTES_MAX of text (-E2BIG), lines as they come.
 */
#include "base/buf.h"

#define PROC_MAPS_BYTES_MAX   (16u << 20)
#define PROC_MOUNTS_BYTES_MAX (4u << 20)

struct proc_map {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t inode; /* 0 = no file */
    uint32_t device_major;
    uint32_t device_minor;
    bool readable;
    bool executable;
    struct bytes path; /* as printed (line breaks as \012); borrowed from the text; may be empty */
};

/* The next line of text; false at the end. A line that is not understood is left out. */
bool proc_maps_next(struct bytes *text, struct proc_map *map);

/* 0 or negative errno as proc_pid_read(). text is the caller's, and reused. */
int proc_maps_read(uint32_t pid, struct buf *text);

/* The mounts say that the file of this device, or (device 0:0) the one at this path, is on FUSE.
 * mounts: text of mountinfo; path: as seen by its process. Pure. */
bool proc_mounts_fuse(struct bytes mounts, uint32_t major, uint32_t minor, struct bytes path);

/* May [address, address + size) be read without asking a stranger's file system? All of it is
 * mapped readable, by memory without a file, a memfd, or a file that is not on FUSE. maps, mounts:
 * texts. */
bool proc_maps_harmless(struct bytes maps, struct bytes mounts, uint64_t address, uint64_t size);
