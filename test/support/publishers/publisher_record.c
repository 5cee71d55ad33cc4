/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/publishers/publisher_record.h"
#include "context/context_layout.h"

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_LABELS 3

struct elastic_record { /* bytes: no field is aligned */
    uint8_t minor_version[2];
    uint8_t valid;
    uint8_t trace_present;
    uint8_t trace_flags;
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t root_id[8];
};

struct label_text {
    uint64_t size;
    const char *data;
};

struct label_set {
    struct {
        struct label_text key, value;
    } * labels;
    uint64_t count;
    uint64_t capacity;
};

struct labels {
    struct label_set set;
    struct {
        struct label_text key, value;
    } labels[N_LABELS];
    char trace_id[33], span_id[17], route[24];
};

struct publisher_records {
    enum publisher_abi abi;
    unsigned next; /* of the two that take turns */
    union {
        _Alignas(8) uint8_t otel[2][OTEL_THREAD_RECORD_MAX];
        volatile struct elastic_record elastic;
        struct labels labels[2];
    };
};

_Static_assert(sizeof(struct elastic_record) == 37, "Elastic's thread storage");

struct publisher_records *publisher_records_new(enum publisher_abi abi)
{
    struct publisher_records *records = calloc(1, sizeof(*records));
    if (!records)
        abort();
    records->abi = abi;
    return records;
}

static void add_attribute(struct otel_thread_record *record, uint8_t key, const char *value)
{
    size_t size = strlen(value);
    uint8_t *end = record->attributes + record->attributes_size;
    end[0] = key;
    end[1] = (uint8_t)size;
    memcpy(end + 2, value, size);
    record->attributes_size = (uint16_t)(record->attributes_size + 2 + size);
}

static void *otel_record(struct publisher_records *records, const struct publisher_span *span)
{
    struct otel_thread_record *record = (void *)records->otel[records->next ^= 1];
    memcpy(record->trace_id, span->trace_id, 16);
    memcpy(record->span_id, span->span_id, 8);
    record->valid = OTEL_THREAD_RECORD_VALID;
    record->trace_flags = 1;
    record->attributes_size = 0;
    add_attribute(record, 0, span->route);
    if (span->tenant[0])
        add_attribute(record, 1, span->tenant);
    return record;
}

static void copy_volatile(volatile uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[i];
}

/* In place: the ABI knows no other way. */
static void *elastic_record(struct publisher_records *records, const struct publisher_span *span)
{
    volatile struct elastic_record *record = &records->elastic;
    record->valid = 0;
    record->minor_version[0] = 1;
    record->trace_present = 1;
    record->trace_flags = 1;
    copy_volatile(record->trace_id, span->trace_id, 16);
    copy_volatile(record->span_id, span->span_id, 8);
    copy_volatile(record->root_id, span->root_id, 8);
    record->valid = 1;
    return (void *)record;
}

static const char *hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return text;
}

static struct label_text label_text(const char *text)
{
    return (struct label_text){strlen(text), text};
}

static void *label_record(struct publisher_records *records, const struct publisher_span *span)
{
    struct labels *labels = &records->labels[records->next ^= 1];
    hex(span->trace_id, 16, labels->trace_id);
    hex(span->span_id, 8, labels->span_id);
    strcpy(labels->route, span->route);
    const char *const pairs[N_LABELS][2] = {
        {"trace_id", labels->trace_id}, {"span_id", labels->span_id}, {"route", labels->route}};
    for (unsigned i = 0; i < N_LABELS; i++) {
        labels->labels[i].key = label_text(pairs[i][0]);
        labels->labels[i].value = label_text(pairs[i][1]);
    }
    labels->set = (struct label_set){(void *)labels->labels, N_LABELS, N_LABELS};
    return &labels->set;
}

static void show_to_obi(int map, const struct publisher_span *span)
{
    uint64_t key = (uint64_t)getpid() << 32 | (uint64_t)syscall(SYS_gettid);
    uint8_t value[24];
    union bpf_attr attributes = {.map_fd = (uint32_t)map, .key = (uint64_t)&key};
    if (!span) {
        syscall(SYS_bpf, BPF_MAP_DELETE_ELEM, &attributes, sizeof(attributes));
        return;
    }
    memcpy(value, span->trace_id, 16);
    memcpy(value + 16, span->span_id, 8);
    attributes.value = (uint64_t)value;
    syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attributes, sizeof(attributes));
}

void publisher_show(struct publisher_records *records, void *volatile *slot,
                    const struct publisher_span *span)
{
    if (records->abi == PUBLISHER_OBI)
        show_to_obi((int)(intptr_t)*slot, span);
    else if (!span)
        *slot = NULL;
    else if (records->abi == PUBLISHER_OTEL)
        *slot = otel_record(records, span);
    else if (records->abi == PUBLISHER_ELASTIC_V1)
        *slot = elastic_record(records, span);
    else
        *slot = label_record(records, span);
}
