/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a builder holds, shared by the parts of otlp_profiles. Keys of tables are these structs as
 * they lie in memory, without padding; references in them are indices of the builder, which become
 * numbers when the request is encoded.
 */
#include "proto/otlp/otlp_profiles.h"
#include "proto/dedup_table.h"

enum { MAPPING_ATTRIBUTES = 3, LOCATION_ATTRIBUTES_MAX = 2 };

struct function_key {
    int32_t name;
    int32_t system_name;
    int32_t file;
    uint32_t start_line;
};

struct mapping_key {
    uint64_t start;
    uint64_t limit;
    uint64_t offset;
    int32_t file;
    int32_t attributes[MAPPING_ATTRIBUTES]; /* 0 = none */
};

struct location_key { /* then its lines */
    uint64_t address;
    int32_t mapping;
    int32_t n_lines;
    int32_t attributes[LOCATION_ATTRIBUTES_MAX]; /* 0 = none */
};

struct line_key {
    int64_t line;
    int32_t function;
    uint32_t column;
};

struct link_key {
    uint8_t trace_id[16];
    uint8_t span_id[8];
};

struct profile_key {
    uint64_t period;
    int32_t resource;
    int32_t type;
};

struct sample_key { /* then the attributes, rising */
    int32_t profile;
    int32_t stack;
    int32_t link;
};

/* Chains by index + 1; 0 ends them. In the order of coming. */
struct chain {
    uint32_t first;
    uint32_t last;
};

struct resource_data { /* beside the table of resources */
    struct chain profiles;
};

struct profile_data {
    struct chain samples;
    uint32_t next;
    uint64_t first_ns; /* of its timestamps */
    uint64_t last_ns;
};

struct sample_data {
    struct chain events;
    uint32_t next;
    uint32_t n_events;
};

struct event {
    uint64_t time_unix_ns;
    int64_t value;
    uint32_t next;
    uint32_t zero;
};

struct type_strings { /* indices of strings; period 0: no period type */
    int32_t type;
    int32_t unit;
    int32_t period_type;
    int32_t period_unit;
};

struct otlp_profiles {
    size_t max_bytes;
    size_t size_bound;
    uint8_t seed[16];
    struct type_strings types[PROFILE_TYPE_COUNT];
    struct profiles_table strings, attributes, functions, mappings, locations, stacks, links;
    struct profiles_table resources, profiles, samples;
    struct buf resource_data, profile_data, sample_data, events;
    uint32_t n_events;
    struct buf scratch; /* the key or value that is being made */
    struct buf text;    /* a string made valid */
};

/* Bound of a header: a tag of one byte and the length of what is less than 4 GiB. */
#define PROFILES_HEADER_BYTES ((size_t)6)

#define PROFILES_AT(buf, type, index) ((type *)(void *)(buf)->data + (index))

/* Field numbers of opentelemetry-proto 1.11, profiles/v1development. */
enum {
    REQUEST_RESOURCE_PROFILES = 1,
    REQUEST_DICTIONARY = 2,
    RESOURCE_PROFILES_RESOURCE = 1,
    RESOURCE_PROFILES_SCOPE_PROFILES = 2,
    SCOPE_PROFILES_SCOPE = 1,
    SCOPE_PROFILES_PROFILES = 2,
    SCOPE_NAME = 1,
    SCOPE_VERSION = 2,
    DICTIONARY_MAPPINGS = 1,
    DICTIONARY_LOCATIONS = 2,
    DICTIONARY_FUNCTIONS = 3,
    DICTIONARY_LINKS = 4,
    DICTIONARY_STRINGS = 5,
    DICTIONARY_ATTRIBUTES = 6,
    DICTIONARY_STACKS = 7,
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLES = 2,
    PROFILE_TIME = 3,
    PROFILE_DURATION = 4,
    PROFILE_PERIOD_TYPE = 5,
    PROFILE_PERIOD = 6,
    PROFILE_ID = 7,
    SAMPLE_STACK = 1,
    SAMPLE_ATTRIBUTES_FIELD = 2,
    SAMPLE_LINK = 3,
    SAMPLE_VALUES = 4,
    SAMPLE_TIMESTAMPS = 5,
    LINK_TRACE_ID = 1,
    LINK_SPAN_ID = 2,
    VALUE_TYPE_TYPE = 1,
    VALUE_TYPE_UNIT = 2,
    MAPPING_START = 1,
    MAPPING_LIMIT = 2,
    MAPPING_OFFSET = 3,
    MAPPING_FILENAME = 4,
    MAPPING_ATTRIBUTES_FIELD = 5,
    STACK_LOCATIONS = 1,
    LOCATION_MAPPING = 1,
    LOCATION_ADDRESS = 2,
    LOCATION_LINES = 3,
    LOCATION_ATTRIBUTES = 4,
    LINE_FUNCTION = 1,
    LINE_LINE = 2,
    LINE_COLUMN = 3,
    FUNCTION_NAME = 1,
    FUNCTION_SYSTEM_NAME = 2,
    FUNCTION_FILENAME = 3,
    FUNCTION_START_LINE = 4,
    ATTRIBUTE_KEY = 1,
    ATTRIBUTE_VALUE = 2,
};
