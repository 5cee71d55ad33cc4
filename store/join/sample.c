/* SPDX-License-Identifier: Apache-2.0 */
/* Adjacent samples are similar: a field that equals the previous sample's costs one bit, and the
 * time is a difference. */
#include "store/join/sample.h"

enum part {
    PART_TRACE = 1 << 0,
    PART_SPAN = 1 << 1,
    PART_ROOT = 1 << 2,
    PART_ATTRIBUTES = 1 << 3,
    PART_TRUSTED = 1 << 4,
    PART_PERIOD = 1 << 5,  /* period differs from the previous sample's */
    PART_VALUE = 1 << 6,   /* value is not the period */
    PART_PROCESS = 1 << 7, /* process differs */
    PART_COMM = 1 << 8,    /* tid or comm differs */
    PART_KIND = 1 << 9,    /* kind, state or source differs */
    PART_ENDED = 1 << 10,
};

static uint64_t parts_of(const struct sample *sample, const struct sample *previous)
{
    uint64_t parts = 0;
    parts |= bytes_zero(sample->trace_id, 16) ? 0 : PART_TRACE;
    parts |= bytes_zero(sample->span_id, 8) ? 0 : PART_SPAN;
    parts |= bytes_zero(sample->local_root_id, 8) ? 0 : PART_ROOT;
    parts |= sample->attributes.len ? PART_ATTRIBUTES : 0;
    parts |= sample->flags_trusted ? PART_TRUSTED : 0;
    parts |= sample->ended ? PART_ENDED : 0;
    parts |= sample->period_ns != previous->period_ns ? PART_PERIOD : 0;
    parts |= sample->value_ns != sample->period_ns ? PART_VALUE : 0;
    parts |= sample->process != previous->process ? PART_PROCESS : 0;
    if (sample->tid != previous->tid || memcmp(sample->comm, previous->comm, SAMPLE_COMM) != 0)
        parts |= PART_COMM;
    if (sample->kind != previous->kind || sample->state != previous->state ||
        sample->context_source != previous->context_source ||
        sample->trace_flags != previous->trace_flags)
        parts |= PART_KIND;
    return parts;
}

static void put_kind(struct blob_writer *out, const struct sample *sample)
{
    uint8_t kind[4] = {sample->kind, sample->state, sample->context_source, sample->trace_flags};
    blob_put_fixed(out, kind, sizeof(kind));
}

static void put_comm(struct blob_writer *out, const struct sample *sample)
{
    blob_put_number(out, sample->tid);
    blob_put_bytes(out, BYTES(sample->comm, strnlen(sample->comm, SAMPLE_COMM)));
}

void sample_encode(struct blob_writer *out, const struct sample *sample,
                   const struct sample *previous)
{
    uint64_t parts = parts_of(sample, previous);
    blob_put_number(out, parts);
    blob_put_signed(out, (int64_t)(sample->time_unix_ns - previous->time_unix_ns));
    blob_put_number(out, (uint64_t)sample->stack);
    blob_put_number(out, sample->cpu);
    if (parts & PART_KIND)
        put_kind(out, sample);
    if (parts & PART_PERIOD)
        blob_put_number(out, sample->period_ns);
    if (parts & PART_VALUE)
        blob_put_number(out, sample->value_ns);
    if (parts & PART_PROCESS)
        blob_put_number(out, (uint64_t)sample->process);
    if (parts & PART_COMM)
        put_comm(out, sample);
    if (parts & PART_TRACE)
        blob_put_fixed(out, sample->trace_id, sizeof(sample->trace_id));
    if (parts & PART_SPAN)
        blob_put_fixed(out, sample->span_id, sizeof(sample->span_id));
    if (parts & PART_ROOT)
        blob_put_fixed(out, sample->local_root_id, sizeof(sample->local_root_id));
    if (parts & PART_ATTRIBUTES)
        blob_put_bytes(out, sample->attributes);
}

static void get_kind(struct blob_reader *in, struct sample *sample)
{
    uint8_t kind[4];
    blob_get_fixed(in, kind, sizeof(kind));
    sample->kind = kind[0];
    sample->state = kind[1];
    sample->context_source = kind[2];
    sample->trace_flags = kind[3];
}

static void get_comm(struct blob_reader *in, struct sample *sample)
{
    sample->tid = blob_get_number32(in);
    struct bytes comm = blob_get_bytes(in);
    if (comm.len > SAMPLE_COMM)
        in->bad = true;
    memset(sample->comm, 0, SAMPLE_COMM);
    if (comm.len && !in->bad)
        memcpy(sample->comm, comm.data, comm.len);
}

bool sample_decode(struct blob_reader *in, struct sample *sample, const struct sample *previous)
{
    *sample = *previous;
    uint64_t parts = blob_get_number(in);
    sample->time_unix_ns = previous->time_unix_ns + (uint64_t)blob_get_signed(in);
    sample->stack = (int64_t)blob_get_number(in);
    sample->cpu = blob_get_number32(in);
    if (parts & PART_KIND)
        get_kind(in, sample);
    if (parts & PART_PERIOD)
        sample->period_ns = blob_get_number(in);
    sample->value_ns = parts & PART_VALUE ? blob_get_number(in) : sample->period_ns;
    if (parts & PART_PROCESS)
        sample->process = (int64_t)blob_get_number(in);
    if (parts & PART_COMM)
        get_comm(in, sample);
    sample->flags_trusted = parts & PART_TRUSTED;
    sample->ended = parts & PART_ENDED;
    memset(sample->trace_id, 0, sizeof(sample->trace_id));
    memset(sample->span_id, 0, sizeof(sample->span_id));
    memset(sample->local_root_id, 0, sizeof(sample->local_root_id));
    if (parts & PART_TRACE)
        blob_get_fixed(in, sample->trace_id, sizeof(sample->trace_id));
    if (parts & PART_SPAN)
        blob_get_fixed(in, sample->span_id, sizeof(sample->span_id));
    if (parts & PART_ROOT)
        blob_get_fixed(in, sample->local_root_id, sizeof(sample->local_root_id));
    sample->attributes = parts & PART_ATTRIBUTES ? blob_get_bytes(in) : BYTES(NULL, 0);
    return !in->bad;
}
