/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Reads which spans the samples of another profiler's request name, by Links or by attributes; and
 * writes the known data of a span on its samples. All else stays byte for byte. Pure; thread: any.
 * Source of the format: opentelemetry-proto 1.11, profiles/v1development/profiles.proto.
 */
#include "base/arena.h"
#include "base/buf.h"

#define PROFILES_DECODED_MAX    (64u << 20) /* memory to read a request in */
#define PROFILES_ATTRIBUTES_MAX 64          /* of a sample that is looked at */
#define PROFILES_TEXT_MAX       256         /* bytes of a key or value; a longer one is none */
#define PROFILES_RESOURCE_MAX   65536       /* bytes of a Resource with its references resolved */
#define PROFILES_CONTEXTS_MAX                                                                      \
    4096 /* distinct spans of a request; the samples of others are alone */

enum profiles_links_outcome {
    PROFILES_LINKS_OK = 0,
    PROFILES_LINKS_MALFORMED = 1,
    PROFILES_LINKS_TOO_BIG = 2, /* it decodes to more than memory for it, or passes out's limit */
};

struct profiles_ids {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct profiles_context { /* has no padding: it is a key */
    struct profiles_ids ids;
    uint32_t resource; /* index into resources */
};

struct profiles_text { /* an attribute whose value is text */
    struct bytes key, value;
};

struct profiles_links {
    size_t n_samples;
    uint32_t *contexts_of; /* of each sample, in the request's order: index + 1; 0 = none */
    size_t n_contexts;
    struct profiles_context *contexts; /* distinct */
    size_t n_resources;
    /* Resource messages with the texts alone, references resolved; one that is larger than
     * PROFILES_RESOURCE_MAX is empty */
    struct bytes *resources;
    uint64_t n_passed_over; /* samples whose span is one too many */
    struct arena arena;     /* private: memory of all the above */
};

/* The ids that a sample without a Link has among its attributes; false: none. */
typedef bool profiles_ids_of(void *context, const struct profiles_text *texts, size_t n,
                             struct profiles_ids *ids);

/* Samples that have an attribute "span.name" were joined before and name no span; nor do those with
 * more attributes than PROFILES_ATTRIBUTES_MAX. links is to be
 * closed on any outcome. */
int profiles_links_read(struct bytes request, profiles_ids_of *ids_of, void *context,
                        struct profiles_links *links);
void profiles_links_close(struct profiles_links *links);

struct profiles_span { /* what samples get of their span */
    struct profiles_ids ids;
    struct bytes name;
    uint32_t kind;           /* enum otlp_span_kind */
    struct bytes attributes; /* each framed as Span field 9 */
};

/*
 * Appends the request with span.name, span.kind and the span's attributes on the samples of spans
 * that are known (those a sample has already stay as they are), and with a Link if the sample had
 * none. contexts_of: as above, n_samples of it; spans: by context, NULL = not known. Outcomes as
 * above; negative errno. On failure the bytes after out's former end are undefined.
 */
struct profiles_annotation {
    size_t n_samples;
    const uint32_t *contexts_of;
    size_t n_contexts;
    const struct profiles_span *const *spans;
};
int profiles_annotate(struct bytes request, const struct profiles_annotation *annotation,
                      struct buf *out);
