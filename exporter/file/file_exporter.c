/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/file/file_exporter.h"
#include "base/clock.h"
#include "base/log.h"
#include "exporter/file/file_writer.h"
#include "proto/codec.h"
#include "proto/otlp/otlp_json.h"
#include "proto/otlp/otlp_schema.h"
#include "proto/pb.h"
#include <endian.h>
#include <errno.h>
#include <stdlib.h>

#define UPKEEP_AGAIN_NS (100 * NS_PER_MS)

/* One record per signal, plus the flush timer's job, plus cancelled records. */
enum { QUEUE_LIMIT = 4 * SIGNAL_COUNT };

struct file_exporter {
    struct loop *loop;
    struct worker *worker;
    struct file_writer writer; /* the worker's */
    struct timer flush;
    struct job upkeep; /* opens or syncs */
    bool upkeeping;
};

struct file_write {
    struct job job;
    struct file_exporter *file;
    struct file_exporter_call *call; /* NULL: cancelled */
    struct buf record;
};

/* ---- opening early, flushing late ---- */

static int upkeep_run(struct job *job)
{
    struct file_exporter *file = container_of(job, struct file_exporter, upkeep);
    return file->writer.fd < 0 && !file->writer.begun ? file_writer_open(&file->writer)
                                                      : file_writer_sync(&file->writer);
}

static void upkeep_done(struct job *job, int error)
{
    struct file_exporter *file = container_of(job, struct file_exporter, upkeep);
    file->upkeeping = false;
    if (error)
        log_warn("file", "%s: %s%s", file->writer.config->path, strerror(-error),
                 error == -EACCES
                     ? "; it must be writable for the user that spanprof's service runs as"
                     : "");
}

static void file_exporter_upkeep(struct file_exporter *file)
{
    if (!file->upkeeping && worker_submit(file->worker, &file->upkeep) == 0)
        file->upkeeping = true;
    else
        timer_start(file->loop, &file->flush, UPKEEP_AGAIN_NS);
}

static void on_flush(struct timer *timer)
{
    file_exporter_upkeep(container_of(timer, struct file_exporter, flush));
}

/* ---- writing ---- */

static int write_run(struct job *job)
{
    struct file_write *write = container_of(job, struct file_write, job);
    return file_writer_write(&write->file->writer, buf_bytes(&write->record));
}

static void write_done(struct job *job, int error)
{
    struct file_write *write = container_of(job, struct file_write, job);
    struct file_exporter *file = write->file;
    struct file_exporter_call *call = write->call;
    uint64_t interval_ns = file->writer.config->flush_interval_ns;
    buf_close(&write->record);
    free(write);
    if (!error && interval_ns && !file->flush.due_ns)
        timer_start(file->loop, &file->flush, interval_ns);
    if (!call)
        return;
    call->write = NULL;
    call->done(call, error);
}

int file_exporter_write(struct file_exporter *file, struct file_exporter_call *call,
                        struct bytes record)
{
    LOOP_THREAD(file->loop);
    struct file_write *write = calloc(1, sizeof(*write));
    if (!write)
        return -ENOMEM;
    *write = (struct file_write){
        .job = {.run = write_run, .done = write_done}, .file = file, .call = call};
    if (buf_append_bytes(&write->record, record) || worker_submit(file->worker, &write->job)) {
        buf_close(&write->record);
        free(write);
        return -ENOMEM;
    }
    call->write = write;
    return 0;
}

void file_exporter_cancel(struct file_exporter_call *call)
{
    if (!call->write)
        return;
    LOOP_THREAD(call->write->file->loop);
    call->write->call = NULL;
    call->write = NULL;
}

/* ---- records ---- */

static int config_exporter_file_encode(const struct config_exporter_file *config,
                                       enum signal signal, struct bytes request, struct buf *out)
{
    if (config->format == CONFIG_FILE_PROTO) {
        bool whole = pb_check(otlp_schema_request(signal), request) != PB_MALFORMED;
        return whole ? buf_append_bytes(out, request) : -EBADMSG;
    }
    int outcome = otlp_json_write(otlp_schema_request(signal), request, out);
    return outcome == OTLP_JSON_MALFORMED ? -EBADMSG : outcome;
}

static int config_exporter_file_frame(const struct config_exporter_file *config,
                                      struct bytes encoded, struct buf *out)
{
    size_t start = out->len;
    uint32_t length = 0;
    int error = buf_append(out, &length, sizeof(length));
    if (!error)
        error = config->zstd ? codec_zstd(encoded, out) : buf_append_bytes(out, encoded);
    if (error)
        return error;
    length = htobe32((uint32_t)(out->len - start - sizeof(length)));
    memcpy(out->data + start, &length, sizeof(length));
    return 0;
}

int file_exporter_record(const struct config_exporter_file *config, enum signal signal,
                         struct bytes request, struct buf *out)
{
    size_t start = out->len;
    _cleanup_buf_ struct buf encoded = BUF_INIT(UINT32_MAX);
    int error;
    if (file_writer_is_framed(config)) {
        error = config_exporter_file_encode(config, signal, request, &encoded);
        error = error ? error : config_exporter_file_frame(config, buf_bytes(&encoded), out);
    } else {
        error = config_exporter_file_encode(config, signal, request, out);
        error = error ? error : buf_append(out, "\n", 1);
    }
    if (error)
        out->len = start;
    return error;
}

/* ---- life ---- */

int file_exporter_open(struct loop *loop, const struct config_exporter_file *config,
                       struct file_exporter **filep)
{
    LOOP_THREAD(loop);
    struct file_exporter *file = calloc(1, sizeof(*file));
    if (!file)
        return -ENOMEM;
    *file = (struct file_exporter){.loop = loop,
                                   .flush = {.fire = on_flush},
                                   .upkeep = {.run = upkeep_run, .done = upkeep_done}};
    file_writer_init(&file->writer, config);
    int error = worker_open(
        &file->worker, loop,
        &(struct worker_ops){.name = "file", .queue_limit = QUEUE_LIMIT, .batch_limit = 1});
    if (error) {
        free(file);
        return error;
    }
    file_exporter_upkeep(file);
    *filep = file;
    return 0;
}

void file_exporter_close(struct file_exporter *file)
{
    if (!file)
        return;
    LOOP_THREAD(file->loop);
    worker_close(file->worker);
    timer_stop(&file->flush);
    file_writer_close(&file->writer);
    free(file);
}
