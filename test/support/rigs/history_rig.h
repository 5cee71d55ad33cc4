/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A history whose truth is known: blocks and minutes put into a real store's file as
 * store/history/history_block.h has them, and a reader of it. Asserts with cmocka. Thread: one.
 */
#include "store/history/history_encode.h"
#include "store/history/history_minute.h"
#include "store/query/history_reader.h"
#include "store/history/history_samples.h"
#include "test/support/fixtures/store_fixture.h"

struct history_rig {
    struct fixture fixture;
    struct db *db; /* the reader's */
    struct history_reader *reader;
    struct arena arena; /* of answers */
    struct history_totals *totals;
    /* Of the block at hand: */
    struct history_block_span *spans;
    size_t n_spans, cap_spans;
    struct history_sample *samples;
    size_t n_samples, cap_samples;
    struct buf attributes;
    struct bytes *sample_attributes; /* each once */
    size_t n_sample_attributes, cap_sample_attributes;
    /* What is in no minute yet: */
    struct history_sample *unsummed;
    size_t n_unsummed, cap_unsummed;
};

#define RIG_HOST "node-7" /* where all of it was sampled */

struct history_rig *history_rig_open(void);
void history_rig_close(struct history_rig *rig);

struct rig_series {
    const char *resource, *service, *span_name, *thread, *container, *executable; /* NULL: "" */
    uint32_t pid;
    uint8_t span_kind, sample_kind;
};
int64_t history_rig_series(struct history_rig *rig, const struct rig_series *series);
int64_t history_rig_text(struct history_rig *rig, struct bytes text);

/* Added to the block at hand. attributes: framed, may be empty. */
void history_rig_span(struct history_rig *rig, const struct history_block_span *span,
                      struct bytes attributes);
/* context.span is found here: that of the ids, if it is in the block and `joined`. attributes: as
 * of a span, that of its span if it is not in the block. */
void history_rig_sample(struct history_rig *rig, const struct history_sample *sample,
                        struct bytes attributes);
void history_rig_block(struct history_rig *rig, uint64_t written_unix_ns);
/* All blocks so far. */
void history_rig_minutes(struct history_rig *rig, uint64_t written_unix_ns);
