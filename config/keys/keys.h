/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The one table of what a configuration may say: components, their keys, and what the Collector has
 * that spanprof answers with a hint. Parser, checks, print-config and docs/configuration.md are
 * made from it. Thread: any; constant.
 */
#include "config/config.h"

enum config_class { CLASS_RECEIVER, CLASS_PROCESSOR, CLASS_EXPORTER, CLASS_EXTENSION, CLASSES };

/* Whose key it is: an enum config_type, or one of these. */
enum { OWNER_SERVICE = 100, OWNER_PIPELINE, OWNER_ROOT };

enum key_kind {
    KEY_SECTION,  /* a map of further keys; with a field: bool, true if it is there (even null) */
    KEY_BOOL,     /* bool */
    KEY_COUNT,    /* uint32_t */
    KEY_BYTES,    /* uint64_t */
    KEY_MIB,      /* uint64_t bytes, written in MiB */
    KEY_DURATION, /* uint64_t ns */
    KEY_RATIO,    /* double */
    KEY_LISTEN,   /* struct config_endpoint to listen on */
    KEY_TARGET,   /* struct config_endpoint to send to */
    KEY_URL,      /* struct config_url */
    KEY_CHOICE,   /* bool or enum: one of choices */
    KEY_TEXT,     /* const char * */
    KEY_TEXTS,    /* struct config_list */
    KEY_HEADERS,  /* n_headers and headers of struct config_exporter_otlp */
    KEY_IGNORED,  /* the Collector's, without effect here: a warning. The sentence says why */
    KEY_BUILT,    /* read by pipeline.c: components, ids, pipelines */
};

enum {
    KEY_REQUIRED = 1,
    KEY_ZERO_IS_DEFAULT = 2, /* the Collector writes 0 for "the library's default" */
    KEY_POWER_OF_TWO = 4,
    KEY_MAY_BE_EMPTY = 8,
    KEY_ZERO_ALLOWED = 16, /* 0 besides min..max */
    KEY_NUMBERS_TOO = 32,  /* texts that may be written as numbers */
    KEY_LINES = 64,        /* a text of several lines */
    KEY_SECRET = 128,      /* never printed */
    KEY_PATH_TOO = 256,    /* an endpoint that may be a Unix socket's path */
};

struct key_choice {
    const char *name; /* a list of these ends with NULL; the first name of a value is printed */
    int value;
};

struct config_key {
    int owner;
    const char *path; /* below the owner, dotted: tls.insecure. A section stands before its keys */
    enum key_kind kind;
    unsigned flags;
    size_t offset, size; /* of the field; size 0: none */
    const char *initial; /* the default, as it would be written; NULL: none */
    double min, max; /* numbers: in the unit written (durations: ns); texts: bytes; lists: items */
    const struct key_choice *choices;
    const char *help; /* one sentence or more, for the manual */
};

struct config_component {
    enum config_type type;
    enum config_class class;
    const char *name;
    const char *alias; /* an old name, warned about; NULL: none */
    unsigned signals;  /* 1 << enum config_signal; 0 for extensions */
    const char *stability;
    const char *help;
};

/* What a Collector configuration may hold and spanprof has not: said in words of help. */
struct config_hint {
    int owner;        /* of the key, or -1 - class for a component */
    const char *path; /* dotted key, or the component's type */
    const char *text;
};

extern const struct config_key config_keys[];
extern const size_t config_keys_count;
extern const struct config_component config_components[];
extern const size_t config_components_count;
extern const char *const config_class_names[CLASSES];    /* "receivers", ... */
extern const char *const config_class_singular[CLASSES]; /* "receiver", ... */

const struct config_component *keys_component(enum config_class class, const char *type);
const struct config_component *keys_component_of(enum config_type type);
/* The key `name` directly below the section `prefix` ("" for the owner itself); NULL. */
const struct config_key *keys_find(int owner, const char *prefix, const char *name);
/* The key directly below the owner that had this name before; NULL. */
const struct config_key *keys_find_renamed(int owner, const char *prefix, const char *old_name);
/* Walks the keys directly below prefix: start with NULL. */
const struct config_key *keys_next(int owner, const char *prefix, const struct config_key *key);
const char *keys_name(const struct config_key *key);  /* the last part of its path */
const char *keys_hint(int owner, const char *dotted); /* NULL if there is none */
