/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Parses /proc/PID/maps, and finds in /proc/PID/mountinfo whether a file is on FUSE, where an
 * unprivileged daemon decides whether a read ever returns. Thread: the owner's. Limit:
 * PROC_MAPS_BYTES_MAX of text (-E2BIG).
 */
#include "base/buf.h"

#define PROC_MAPS_BYTES_MAX   (16u << 20)
#define PROC_MOUNTS_BYTES_MAX (4u << 20)

struct proc_map {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t inode; /* 0 = no file, or code that a compiler writes through another mapping of a
                       memfd: those are shared, which no loader's are */
    uint32_t device_major;
    uint32_t device_minor;
    bool readable;
    bool executable;
    struct bytes path; /* as printed (line breaks as \012); borrowed from the text; may be empty */
};

/* The next line of text; false at the end. A malformed line is skipped. */
bool proc_maps_next(struct bytes *text, struct proc_map *map);

/* The next one with code of another file than that of *map, which is zeroed at first. */
bool proc_maps_next_code(struct bytes *text, struct proc_map *map);

/* True: code of this file is mapped at this address, as it was. Pure. */
bool proc_maps_have_code(struct bytes maps, uint64_t start, uint64_t inode);

/* 0 or negative errno as proc_pid_read(). Replaces what text held. The process may hold the lock
 * that this needs: reader only (reader_client.h). */
int proc_maps_read(uint32_t pid, struct buf *text);

/* Mountinfo of a process; 0 = this one. 0 or negative errno. */
int proc_mounts_read(uint32_t pid, struct buf *text);

struct proc_mount {
    struct bytes type;
    struct bytes options; /* of the file system, as printed; borrowed from the text, as type is */
};

/* The mount with this id. Pure. */
bool proc_mounts_find(struct bytes mounts, uint64_t id, struct proc_mount *found);
/* True: the file of this device, or (device 0:0) at this path, is on FUSE.
 * mounts: text of mountinfo; path: as seen by its process. Pure. */
bool proc_mounts_fuse(struct bytes mounts, uint32_t major, uint32_t minor, struct bytes path);

/* True: reading [address, address + size) cannot block on a FUSE file system. All of it is mapped
 * readable: anonymous memory, a memfd, or a file that is not on FUSE. maps, mounts: texts. */
bool proc_maps_harmless(struct bytes maps, struct bytes mounts, uint64_t address, uint64_t size);
