/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Appends records to a file, each whole or not at all, and rotates the file. Thread: the file
 * exporter's; blocks on disk. Other programs may move or remove the file at any time; the writer
 * then creates a new one. A partial record that an earlier run left at the end stays apart from new
 * ones: a cut line gets its newline, and a file of length-prefixed records that does not end with a
 * whole record is rotated away.
 * Errors: negative errno; the file then holds nothing of the record. -ENOTSUP: not a regular file.
 */
#include "config/config.h"

struct file_writer {
    const struct config_exporter_file *config; /* borrowed */
    int fd;                                    /* -1: not open */
    uint64_t size;
    uint64_t rotated_unix_ns; /* the time in the last backup's name */
    bool begun;               /* an older file was truncated, if that was wanted */
    bool unsynced;            /* something was written since the last fdatasync() */
};

void file_writer_init(struct file_writer *writer, const struct config_exporter_file *config);
int file_writer_open(
    struct file_writer *writer); /* optional: finds errors early; the first write opens, too */
/* record: includes its newline or length. Also syncs if flush_interval is 0. */
int file_writer_write(struct file_writer *writer, struct bytes record);
int file_writer_sync(struct file_writer *writer); /* if there is something to sync */
void file_writer_close(struct file_writer *writer);

/* True if records carry their length (4 bytes, big-endian), false if each is a line. */
bool file_writer_is_framed(const struct config_exporter_file *config);
