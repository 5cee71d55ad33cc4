/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the parts of spanprof_otel._native share. Thread: any that holds the GIL. One interpreter: a
 * second one in the process does not load the module again, and publishes nothing.
 */
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* Exported by every CPython since 3.7, and not in the limited API. */
PyAPI_FUNC(int) PyContextVar_Get(PyObject *variable, PyObject *initial, PyObject **value);
PyAPI_FUNC(PyObject *) PyContextVar_Set(PyObject *variable, PyObject *value);
PyAPI_FUNC(int) PyContextVar_Reset(PyObject *variable, PyObject *token);

struct span_record {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t flags;
    uint8_t set; /* 0: the span is not to be published */
};

enum publisher_state { PUBLISHER_NEW, PUBLISHER_ON, PUBLISHER_OFF };
enum watched { NOT_WATCHED, WATCHED_BY_WATCHER, WATCHED_BY_RUN };

struct publisher {
    enum publisher_state state;
    enum watched watched;
    PyObject *variable;    /* the ContextVar that holds OpenTelemetry's context */
    PyObject *span_key;    /* of the span in that context; NULL: not known yet */
    PyObject *meet;        /* called once, with the first span that has a Resource; then NULL */
    PyObject *meet_thread; /* called on each thread, once a generation */
    unsigned generation;
    PyObject *context_name; /* "_context" */
    PyObject *record_name;  /* "_spanprof_record" */
};

extern struct publisher publisher;

/* Publishes the span that is current now, or that would be in this contextvars.Context. Errors stay
 * inside, and an exception that is on its way is kept. */
void publish_current(void);
void publish_in(PyObject *contextvars_context);

/* 3.14: the interpreter tells. False: it cannot. */
bool context_watch(void);
/* Before: Context.run() is made to tell, and who enters contexts in C. False: it cannot be. */
bool context_run_hook(void);
/* The imports of PyContext_Enter() and PyContext_Exit() in all loaded libraries; how many. */
int import_slots_hook(void);
