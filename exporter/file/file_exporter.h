/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A destination that is a file: the Collector's file exporter. A request is one record: a line of
 * OTLP/JSON; with format proto or with compression its length (4 bytes, big-endian) and bytes.
 * The file is opened, written, rotated and removed by the service's own user, on a thread of this
 * exporter: a disk that hangs holds up nobody else. Thread: loop, but for file_exporter_record().
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
    /* 0: written (see flush_interval). Negative errno: nothing was; the same record, later. */
    void (*done)(struct file_exporter_call *call, int error);
    struct file_write *write; /* private */
};

/* 0 or negative errno. config is borrowed. Whether the file can be opened is tried at once, and
 * said in the log if not. */
int file_exporter_open(struct loop *loop, const struct config_exporter_file *config,
                       struct file_exporter **file);
/* Writes what was handed over; waits for the disk. Calls are not done() any more. NULL is fine. */
void file_exporter_close(struct file_exporter *file);

/* record: of file_exporter_record(); copied. done() follows, never from within this call. 0, or
 * -ENOMEM. */
int file_exporter_write(struct file_exporter *file, struct file_exporter_call *call,
                        struct bytes record);
void file_exporter_cancel(struct file_exporter_call *call); /* no done(); also when not running */

/* Any thread: appends the record of a request. 0; -EBADMSG: it is none; -ENOMEM, BUF_FULL of out.
 */
int file_exporter_record(const struct config_exporter_file *config, enum signal signal,
                         struct bytes request, struct buf *out);
