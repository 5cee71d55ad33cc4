/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A destination that is a file: the Collector's file exporter. One request is one record: a line of
 * OTLP/JSON; with format proto or with compression, its length (4 bytes, big-endian) and its bytes.
 * The service's own user opens, writes, rotates and removes the file, on this exporter's own
 * thread, so a hanging disk blocks nothing else. Thread: loop, except file_exporter_record().
 * Sources: the README of the Collector's fileexporter; file_backups.h.
 */
#include "base/loop.h"
#include "base/worker.h"
#include "config/config.h"
#include "proto/otlp/otlp_service.h"

struct file_exporter;
struct file_write;

/* Embedded by its owner, one running at a time. */
struct file_exporter_call {
    /* 0: written (see flush_interval). Negative errno: nothing was written; the caller passes the
     * same record again later. */
    void (*done)(struct file_exporter_call *call, int error);
    struct file_write *write; /* private */
};

/* 0 or negative errno. config is borrowed. The file is opened at once; a failure to open it is only
 * logged. */
int file_exporter_open(struct loop *loop, const struct config_exporter_file *config,
                       struct file_exporter **file);
/* Writes the records passed so far; waits for the disk. done() is not called after this. NULL is
 * fine. */
void file_exporter_close(struct file_exporter *file);

/* record: made by file_exporter_record(); copied. done() follows, never from within this call. 0,
 * or -ENOMEM. */
int file_exporter_write(struct file_exporter *file, struct file_exporter_call *call,
                        struct bytes record);
void file_exporter_cancel(struct file_exporter_call *call); /* no done(); also when not running */

/* Any thread: appends the record for a request. 0; -EBADMSG: not a request of this signal; -ENOMEM;
 * BUF_FULL from out. */
int file_exporter_record(const struct config_exporter_file *config, enum signal signal,
                         struct bytes request, struct buf *out);
