/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/*
 * The sources of contexts: who says which span a thread works for. One row for each. Everything
 * that differs by source is made from the row or is indexed by its number: the key in the
 * configuration, the mask of what is read, the label of metrics, the attribute
 * spanprof.context.source, the Status page. A new source is a row here, a reader for it
 * (agent-bpf/bpf/context.bpf.h; context_locate_ID() in agent-bpf/symbolizer/inspection_attach.c if
 * it has a variable) and a test.
 *
 * The columns:
 *   SYMBOL  the constant is CONTEXT_SYMBOL
 *   id      the name in metrics, attributes and pages, and in names of functions
 *   number  on the wire and on disk, so it never changes; also the precedence: of two variables
 * that have ids for a thread the lower number counts, and any variable before a map key
 * receivers::sampler::contexts::KEY switches the source on and off form    of the attributes that
 * come with the ids: enum context_form flags   1: the source has trace flags. 0 also where zeros
 * prove nothing: Datadog's writer for Node leaves them in records that were made before the trace
 * was decided on help    of the key
 *
 * Included by the BPF programs too: the first part is preprocessor and enums only.
 */

/* Read through a variable of the thread, which the symbolizer locates in each process. */
#define CONTEXT_VARIABLE_SOURCES(ROW)                                                              \
    ROW(OTEL_THREAD, otel_thread, 1, otel, CONTEXT_FORM_INDEXED, 1,                                \
        "Read OpenTelemetry process and thread contexts.")                                         \
    ROW(ELASTIC, elastic, 2, elastic, CONTEXT_FORM_NONE, 1,                                        \
        "Read the contexts that Elastic's agents publish for profilers.")                          \
    ROW(GO_LABELS, go_labels, 3, go_labels, CONTEXT_FORM_LABELS, 0,                                \
        "Read pprof labels of goroutines.")                                                        \
    ROW(CUSTOM_LABELS, custom_labels, 4, custom_labels, CONTEXT_FORM_LABELS, 0,                    \
        "Read labels of the custom-labels library.")                                               \
    ROW(OTEL_NODEJS, otel_nodejs, 6, otel_nodejs, CONTEXT_FORM_INDEXED, 0,                         \
        "Read OpenTelemetry contexts of Node.js, which follow its async contexts.")

/* Read from a BPF map that another program fills for all processes. */
#define CONTEXT_MAP_SOURCES(ROW)                                                                   \
    ROW(OBI, obi, 5, obi, CONTEXT_FORM_NONE, 0,                                                    \
        "Read the map of OpenTelemetry eBPF Instrumentation, if it exists.")

#define CONTEXT_SOURCE_ROWS(ROW) CONTEXT_VARIABLE_SOURCES(ROW) CONTEXT_MAP_SOURCES(ROW)

#define CONTEXT_ENUM_ROW(symbol, id, number, key, form, flags, help)  CONTEXT_##symbol = number,
#define CONTEXT_COUNT_ROW(symbol, id, number, key, form, flags, help) +1
enum context_source {
    CONTEXT_NONE = 0,
    CONTEXT_SOURCE_ROWS(CONTEXT_ENUM_ROW) CONTEXT_SOURCES = 1 CONTEXT_SOURCE_ROWS(CONTEXT_COUNT_ROW)
};
#undef CONTEXT_ENUM_ROW
#undef CONTEXT_COUNT_ROW

enum context_form {
    CONTEXT_FORM_NONE,    /* no attributes */
    CONTEXT_FORM_INDEXED, /* key index u8, length u8, bytes */
    CONTEXT_FORM_LABELS,  /* key length u8, value length u8, key, value */
};

#define CONTEXT_BIT(source) (1u << (source)) /* in masks of sources */
#define CONTEXT_LABEL_MAX   127              /* bytes of a label's key, and of its value */

/* Masks of all sources of one kind. */
#define CONTEXT_BIT_ROW(symbol, id, number, key, form, flags, help) | CONTEXT_BIT(number)
#define CONTEXT_MAP_BITS                                            (0u CONTEXT_MAP_SOURCES(CONTEXT_BIT_ROW))
#define CONTEXT_VARIABLE_BITS                                       (0u CONTEXT_VARIABLE_SOURCES(CONTEXT_BIT_ROW))

/* Sources whose records mean nothing without the process context; its schema says which it is. */
#define CONTEXT_OTEL_BITS (CONTEXT_BIT(CONTEXT_OTEL_THREAD) | CONTEXT_BIT(CONTEXT_OTEL_NODEJS))

#ifndef __bpf__
#include <stdbool.h>

/* By number; that of CONTEXT_NONE is "none". */
extern const char *const context_source_names[CONTEXT_SOURCES];

/* source: any number, also one that was read from disk or from the ring. */
const char *context_source_name(unsigned source); /* NULL: no source, or none that is known */
enum context_form context_source_form(unsigned source);
bool context_source_has_flags(unsigned source);
#endif
