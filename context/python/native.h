/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the parts of spanprof_otel._native share. Thread: any that holds the GIL. One interpreter of
 * a process publishes: the first one that loads the module.
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

/*
 * NEW --configure()--> WAITING --start(), with the first span--> ON --off(), a failed fork--> ENDED
 * NEW, WAITING --off(), a failure--> OFF
 *
 * ENDED: the hooks stay, and clear what the thread has published. OFF: there are no hooks.
 */
enum publisher_state {
    PUBLISHER_NEW,
    PUBLISHER_WAITING,
    PUBLISHER_ON,
    PUBLISHER_ENDED,
    PUBLISHER_OFF
};

struct publisher {
    enum publisher_state state;
    PyInterpreterState *interpreter; /* that has configured it */
    PyObject *variable;              /* the ContextVar that holds OpenTelemetry's context */
    PyObject *span_key;              /* of the span in that context; NULL: not known yet */
    PyObject *first_span;            /* called once, with the first span that has a Resource */
    PyObject *context_name;          /* "_context", an attribute of the SDK's spans */
    PyObject *record_name;           /* "_spanprof_record", an attribute that is added to spans */
};

extern struct publisher publisher;

/* native.c: publishes the span that is current now, or the one that is current in this
 * contextvars.Context. Errors stay inside; an exception that is set stays set. */
void publish_current(void);
void publish_in(PyObject *contextvars_context);

/* ---- span_record.c: the ids of a span ---- */

struct span_record {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t flags;
    uint8_t published; /* 0: a span that is remote or not valid */
};

/* -1: with an exception set. */
int span_record_get(PyObject *span, struct span_record *record);

/* ---- context_switch.c: which code runs when a thread changes its contextvars.Context ---- */

enum switch_source { SWITCH_NONE, SWITCH_WATCHER, SWITCH_RUN };

/* From now on each switch publishes. SWITCH_NONE: this interpreter has no way to see them. */
enum switch_source context_switch_watch(void);
/* asyncio: the module _asyncio. With SWITCH_RUN: eager tasks publish. */
void context_switch_hook_tasks(PyObject *asyncio);

/* ---- import_slots.c ---- */

/* Hooks the imports of PyContext_Enter() and PyContext_Exit() in all loaded libraries. */
void import_slots_hook(void);

/* ---- late_modules.c: extension modules that switch contexts or stacks themselves ---- */

void late_modules_start(enum switch_source source);
/* The module is about to be imported. */
void late_modules_expect(const char *name);
/* Before a span is published: this thread's switches are seen, also those of modules that were
 * imported since its last span. No exception is set, before and after. */
void late_modules_prepare_thread(void);
