/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Builder of one ExportProfilesServiceRequest with its dictionary: index 0 of each table is the
 * zero value, nothing twice, nothing unreferenced, one sample shape a profile, timestamps inside
 * the window. Source of the format: opentelemetry-proto 1.11, profiles/v1development. Thread: any,
 * one at a time.
 *
 * The interning verbs return an index >= 0 (into their table; 0 of the dictionary's tables = not
 * set), or negative errno: -ENOMEM, -EMSGSIZE when max_bytes would be passed, -EINVAL for a message
 * that is malformed. What they interned before an error stays, and counts in the size. Finish
 * leaves out interned entries that no sample uses. Indices are valid for this builder only. Invalid
 * UTF-8 is replaced (bytes_sanitize()).
 */
#include "base/buf.h"

struct otlp_profiles;

#define OTLP_PROFILES_BYTES_MAX    ((size_t)1 << 30) /* of max_bytes */
#define OTLP_PROFILES_VERSION_MAX  64                /* characters of a scope's version */
#define OTLP_PROFILES_LINES_MAX    64                /* of a location */
#define OTLP_PROFILES_BUILD_ID_MAX 64                /* bytes; a longer build id is left out */

enum otlp_profile_type { PROFILE_CPU, PROFILE_OFF_CPU, PROFILE_EVENTS, PROFILE_TYPE_COUNT };

struct otlp_mapping {
    uint64_t
        memory_start; /* ELF addresses, as the OTel eBPF profiler sends them; 0, 0 = not known */
    uint64_t memory_limit;
    uint64_t file_offset;
    struct bytes filename;
    struct bytes gnu_build_id; /* raw */
    struct bytes go_build_id;  /* text */
    const uint8_t *htlhash;    /* 16 bytes or NULL */
};

struct otlp_line {
    struct bytes function;    /* empty: no Line */
    struct bytes system_name; /* mangled; empty: the same, or not known */
    struct bytes file;
    int64_t line;       /* 0 = not known */
    int64_t column;     /* 0 = not known */
    int64_t start_line; /* of the function; 0 = not known */
};

struct otlp_location {
    struct bytes frame_type; /* profile.frame.type: "kernel", "native", ... */
    const char
        *truncated;  /* spanprof.frame.truncated: why the stack ends here; NULL: it does not */
    int32_t mapping; /* index; 0 = unknown */
    uint64_t address;
    /* Of what was inlined at the address innermost first, last of the function that was compiled.
     */
    const struct otlp_line *lines;
    size_t n_lines; /* at most OTLP_PROFILES_LINES_MAX */
};

struct otlp_sample {
    int32_t resource; /* from otlp_profiles_resource() */
    enum otlp_profile_type type;
    int32_t stack;
    int32_t link;              /* 0 = none */
    const int32_t *attributes; /* indices; of several with one key the first counts; borrowed */
    size_t n_attributes;
    uint64_t time_unix_ns;
    int64_t value; /* CPU: unused (each timestamp is one sample of period_ns); off-CPU: ns */
    uint64_t period_ns;
};

/* 0; -EMSGSIZE, -EINVAL: max_bytes too small or too large; -ENOMEM. */
int otlp_profiles_open(size_t max_bytes, struct otlp_profiles **profiles);
void otlp_profiles_close(struct otlp_profiles *profiles); /* NULL is fine */

/* A Resource message (attributes, ...), kept byte for byte; equal bytes give the same index.
 * Exception: string table indices in a foreign message are removed, since a receiver would look
 * them up in our table, or refuse the request. */
int32_t otlp_profiles_resource(struct otlp_profiles *profiles, struct bytes resource);
int32_t otlp_profiles_attribute_string(struct otlp_profiles *profiles, const char *key,
                                       struct bytes value);
int32_t otlp_profiles_attribute_int(struct otlp_profiles *profiles, const char *key, int64_t value);
/* A KeyValue message as it came (span or context attributes); its value is kept, in the shortest
 * encoding and without string table indices. 0: it has no key, and otlp_profiles_add() skips it. */
int32_t otlp_profiles_attribute(struct otlp_profiles *profiles, struct bytes key_value);
int32_t otlp_profiles_mapping(struct otlp_profiles *profiles, const struct otlp_mapping *mapping);
int32_t otlp_profiles_location(struct otlp_profiles *profiles,
                               const struct otlp_location *location);
int32_t otlp_profiles_stack(struct otlp_profiles *profiles, const int32_t *locations, size_t n);
int32_t otlp_profiles_link(struct otlp_profiles *profiles, const uint8_t trace_id[16],
                           const uint8_t span_id[8]);
/* 0; -ENOMEM; -EMSGSIZE: it would not fit (nothing was added): finish this request and begin the
 * next; if this one has no samples yet, it never will. Samples of the same identity (stack,
 * attributes, link) in one profile are merged. */
int otlp_profiles_add(struct otlp_profiles *profiles, const struct otlp_sample *sample);

uint64_t otlp_profiles_samples(const struct otlp_profiles *profiles);
/* Window [start, end) is widened in each profile to hold its timestamps. Appends the request to
 * out; the builder stays as it is. 0, BUF_FULL (not if out has room for max_bytes),
 * negative errno; on failure nothing was appended. Without samples: 0 and nothing. */
int otlp_profiles_finish(struct otlp_profiles *profiles, uint64_t start_unix_ns,
                         uint64_t end_unix_ns, const char *scope_version, struct buf *out);
