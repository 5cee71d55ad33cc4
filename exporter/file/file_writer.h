/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Records to the end of a file, whole or not at all; rotation. Thread: the one of the file
 * exporter; blocks on disk.
 * The file may be moved or removed by others at any time: then it is made anew. What an earlier run
 * left unfinished at its end is fenced off: a cut line gets its end, a file of length-prefixed
 * records that does not end with one is rotated away.
 * Errors: negative errno; nothing of the record is in the file then. -ENOTSUP: no regular file.
 */
#include "config/config.h"

struct file_writer {
    const struct config_exporter_file *config; /* borrowed */
    int fd;                                    /* -1: not open */
    uint64_t size;
    uint64_t rotated_unix_ns; /* in the name of the last backup */
    bool begun;               /* an older file was truncated, if that was wanted */
    bool unsynced;            /* something was written since the last fdatasync() */
};

void file_writer_init(struct file_writer *writer, const struct config_exporter_file *config);
int file_writer_open(
    struct file_writer *writer); /* to find errors early; else the first write does */
/* record: with its line end or length. Synced too if flush_interval is 0. */
int file_writer_write(struct file_writer *writer, struct bytes record);
int file_writer_sync(struct file_writer *writer); /* if there is something to sync */
void file_writer_close(struct file_writer *writer);

/* True if records carry their length (4 bytes, big-endian), false if each is a line. */
bool file_writer_is_framed(const struct config_exporter_file *config);
