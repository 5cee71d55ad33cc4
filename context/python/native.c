/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof_otel._native: writes the span that OpenTelemetry's API has as the current one of a
 * Python thread or task to the thread's context (spanprof_context.h). One file for CPython 3.10 to
 * 3.14: the limited API, and what every CPython exports beside it.
 *
 * A thread changes its span in two ways: the API attaches or detaches a context, or Python switches
 * the thread to another contextvars.Context, for a task of asyncio or a call of to_thread(). Python
 * 3.14 reports such a switch to a watcher. In 3.10 to 3.13 two hooks detect it: Context.run()
 * (context_run.c), and the imports of C code that enters contexts (import_slots.c).
 *
 * Whatever fails leaves the program as it is: nothing is published then.
 */
#include "context/python/native.h"
#include "context/spanprof_context.h"
#include <errno.h>
#include <string.h>

struct publisher publisher;

/* ---- a span's record ---- */

/* The low 64 bits of a Python int, then the others. */
static int id_word(PyObject *id, unsigned shift, uint64_t *word)
{
    PyObject *shifted = id, *count = NULL;
    if (shift) {
        count = PyLong_FromUnsignedLong(shift);
        shifted = count ? PyNumber_Rshift(id, count) : NULL;
        Py_XDECREF(count);
    }
    if (!shifted)
        return -1;
    *word = PyLong_AsUnsignedLongLongMask(shifted);
    if (shift)
        Py_DECREF(shifted);
    return PyErr_Occurred() ? -1 : 0;
}

static void put_word(uint8_t *at, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(word >> (56 - 8 * i));
}

/* SpanContext is a tuple: trace id, span id, is_remote, trace flags, ... */
static int record_make(PyObject *context, struct span_record *record)
{
    uint64_t high, low, span, flags;
    memset(record, 0, sizeof(*record));
    if (!PyTuple_Check(context) || PyTuple_Size(context) < 4)
        return 0;
    PyObject *trace = PyTuple_GetItem(context, 0);
    if (id_word(trace, 64, &high) || id_word(trace, 0, &low) ||
        id_word(PyTuple_GetItem(context, 1), 0, &span) ||
        id_word(PyTuple_GetItem(context, 3), 0, &flags))
        return -1;
    int remote = PyObject_IsTrue(PyTuple_GetItem(context, 2));
    if (remote || !(high | low) || !span) /* a remote parent is somebody else's span */
        return remote < 0 ? -1 : 0;
    put_word(record->trace_id, high);
    put_word(record->trace_id + 8, low);
    put_word(record->span_id, span);
    record->flags = (uint8_t)flags;
    record->set = 1;
    return 0;
}

static PyObject *span_context_of(PyObject *span)
{
    PyObject *context = PyObject_GetAttr(span, publisher.context_name);
    if (context)
        return context;
    PyErr_Clear();
    return PyObject_CallMethod(span, "get_span_context", NULL);
}

/* The record is kept as an attribute of the span, so that its ids are converted once. */
static int record_of(PyObject *span, struct span_record *record)
{
    PyObject *kept = PyObject_GetAttr(span, publisher.record_name);
    if (kept && PyBytes_Check(kept) && PyBytes_Size(kept) == sizeof(*record)) {
        memcpy(record, PyBytes_AsString(kept), sizeof(*record));
        Py_DECREF(kept);
        return 0;
    }
    Py_XDECREF(kept);
    PyErr_Clear();
    PyObject *context = span_context_of(span);
    int error = context ? record_make(context, record) : -1;
    Py_XDECREF(context);
    if (error)
        return error;
    kept = PyBytes_FromStringAndSize((const char *)record, sizeof(*record));
    if (!kept || PyObject_SetAttr(span, publisher.record_name, kept))
        PyErr_Clear(); /* a span class with slots: converted each time */
    Py_XDECREF(kept);
    return 0;
}

/* ---- publishing ---- */

/* The process context is published with the first span that has a Resource. */
static void meet_first(PyObject *span)
{
    PyObject *resource = PyObject_GetAttrString(span, "resource");
    if (!resource) {
        PyErr_Clear();
        return;
    }
    Py_DECREF(resource);
    PyObject *meet = publisher.meet;
    publisher.meet = NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(meet, span, NULL);
    Py_XDECREF(result);
    Py_DECREF(meet);
    if (!result)
        PyErr_Clear();
}

/* On a thread that is new to us: greenlets switch without a word unless they are asked to. */
static void meet_thread(void)
{
    static __thread unsigned met;
    if (met == publisher.generation)
        return;
    met = publisher.generation;
    PyObject *result =
        publisher.meet_thread ? PyObject_CallFunctionObjArgs(publisher.meet_thread, NULL) : NULL;
    Py_XDECREF(result);
    if (!result)
        PyErr_Clear();
}

/* The key is made by a module that is imported after the API has its runtime context. */
static bool find_span_key(void)
{
    PyObject *name = PyUnicode_FromString("opentelemetry.trace.propagation");
    PyObject *module = name ? PyImport_GetModule(name) : NULL;
    if (module)
        publisher.span_key = PyObject_GetAttrString(module, "_SPAN_KEY");
    Py_XDECREF(module);
    Py_XDECREF(name);
    PyErr_Clear();
    return publisher.span_key;
}

/* context: OpenTelemetry's, a dict; borrowed, may be NULL. */
static void publish(PyObject *context)
{
    struct span_record record = {.set = 0};
    if (publisher.state != PUBLISHER_ON || (!publisher.span_key && !find_span_key()))
        return;
    PyObject *span = context && PyDict_Check(context)
                         ? PyDict_GetItemWithError(context, publisher.span_key)
                         : NULL;
    if (span) {
        if (publisher.meet)
            meet_first(span);
        meet_thread();
        if (record_of(span, &record))
            PyErr_Clear();
    } else if (PyErr_Occurred()) {
        PyErr_Clear();
    }
    if (publisher.state != PUBLISHER_ON) /* it has just been found out that another publishes */
        return;
    if (record.set)
        (void)spanprof_context_set(record.trace_id, record.span_id, record.flags);
    else
        (void)spanprof_context_clear();
}

void publish_in(PyObject *contextvars_context)
{
    PyObject *type, *value, *traceback, *context = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (PySequence_Contains(contextvars_context, publisher.variable) == 1)
        context = PyObject_GetItem(contextvars_context, publisher.variable);
    PyErr_Clear();
    publish(context);
    Py_XDECREF(context);
    PyErr_Restore(type, value, traceback);
}

void publish_current(void)
{
    PyObject *type, *value, *traceback, *context = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContextVar_Get(publisher.variable, NULL, &context))
        PyErr_Clear();
    publish(context);
    Py_XDECREF(context);
    PyErr_Restore(type, value, traceback);
}

/* ---- the runtime context of OpenTelemetry's API ---- */

static PyObject *native_attach(PyObject *module, PyObject *context)
{
    (void)module;
    PyObject *token = PyContextVar_Set(publisher.variable, context);
    if (token)
        publish(context);
    return token;
}

static PyObject *native_detach(PyObject *module, PyObject *token)
{
    (void)module;
    int error = PyContextVar_Reset(publisher.variable, token);
    publish_current();
    if (error)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *native_get_current(PyObject *module, PyObject *unused)
{
    PyObject *context = NULL;
    (void)module, (void)unused;
    if (PyContextVar_Get(publisher.variable, NULL, &context))
        return NULL;
    if (!context)
        PyErr_SetString(PyExc_LookupError, "no context");
    return context;
}

/* ---- set up ---- */

/* configure(variable, meet, meet_thread) */
static PyObject *native_configure(PyObject *module, PyObject *arguments)
{
    PyObject *variable, *meet, *thread;
    (void)module;
    if (publisher.state != PUBLISHER_NEW) {
        PyErr_SetString(PyExc_RuntimeError, "configured before");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "OOO", &variable, &meet, &thread))
        return NULL;
    publisher.context_name = PyUnicode_InternFromString("_context");
    publisher.record_name = PyUnicode_InternFromString("_spanprof_record");
    if (!publisher.context_name || !publisher.record_name)
        return NULL;
    publisher.variable = Py_NewRef(variable);
    publisher.meet = Py_NewRef(meet);
    publisher.meet_thread = Py_NewRef(thread);
    publisher.generation = 1;
    publisher.state = PUBLISHER_ON;
    Py_RETURN_NONE;
}

/* again(): something was imported that threads have to know of. */
static PyObject *native_again(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    publisher.generation++;
    Py_RETURN_NONE;
}

#define RESOURCE_VALUE_MAX 4096

/* One (key, value) of texts; false: not one that can be published. */
static bool take_attribute(PyObject *item, struct spanprof_attribute *attribute)
{
    Py_ssize_t size;
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 2)
        return false;
    attribute->key = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(item, 0), &size);
    if (!attribute->key || size > 255)
        return false;
    attribute->value = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(item, 1), &size);
    return attribute->value && size <= RESOURCE_VALUE_MAX;
}

/* publish_resource(list of (key, value)): 0 or a negative errno, and then it is over. */
static PyObject *native_publish_resource(PyObject *module, PyObject *list)
{
    static struct spanprof_attribute attributes[SPANPROF_RESOURCE_ATTRIBUTES_MAX];
    size_t n = 0;
    (void)module;
    Py_ssize_t size = PyList_Check(list) ? PyList_Size(list) : 0;
    for (Py_ssize_t i = 0; i < size && n < SPANPROF_RESOURCE_ATTRIBUTES_MAX; i++) {
        if (take_attribute(PyList_GetItem(list, i), &attributes[n]))
            n++;
        PyErr_Clear();
    }
    int error = spanprof_context_publish(attributes, n);
    if (error) {
        publisher.state = PUBLISHER_OFF;
        spanprof_context_clear();
    }
    return PyLong_FromLong(error);
}

/* watch(): "watcher", "run" or None: how switches of contexts are told. */
static PyObject *native_watch(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    const char *how = context_watch() ? "watcher" : context_run_hook() ? "run" : NULL;
    return how ? PyUnicode_FromString(how) : Py_NewRef(Py_None);
}

/* rescan(): of libraries that were loaded since; how many imports were changed. */
static PyObject *native_rescan(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(publisher.watched == WATCHED_BY_RUN ? import_slots_hook() : 0);
}

static PyObject *native_off(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    publisher.state = PUBLISHER_OFF;
    spanprof_context_clear();
    Py_RETURN_NONE;
}

static PyObject *native_forked(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    spanprof_context_clear();
    if (publisher.state == PUBLISHER_ON && !publisher.meet) {
        if (spanprof_context_publish(NULL, 0))
            publisher.state = PUBLISHER_OFF;
        else
            publish_current();
    }
    Py_RETURN_NONE;
}

static PyObject *native_switched(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    publish_current();
    Py_RETURN_NONE;
}

/* current(): (trace id, span id, flags) as the thread has them now, for tests. */
static PyObject *native_current(PyObject *module, PyObject *unused)
{
    struct spanprof_context context;
    (void)module, (void)unused;
    spanprof_context_get(&context);
    return Py_BuildValue("(y#y#i)", (const char *)context.trace_id,
                         (Py_ssize_t)sizeof(context.trace_id), (const char *)context.span_id,
                         (Py_ssize_t)sizeof(context.span_id), (int)context.trace_flags);
}

static PyMethodDef methods[] = {
    {"attach", native_attach, METH_O, "attach(context) -> token"},
    {"detach", native_detach, METH_O, "detach(token)"},
    {"get_current", native_get_current, METH_NOARGS, "get_current() -> context"},
    {"configure", native_configure, METH_VARARGS, "once, before all others"},
    {"publish_resource", native_publish_resource, METH_O, "the process context"},
    {"again", native_again, METH_NOARGS, "each thread is met again"},
    {"watch", native_watch, METH_NOARGS, "switches are told from now on"},
    {"rescan", native_rescan, METH_NOARGS, "of libraries loaded since"},
    {"switched", native_switched, METH_VARARGS, "publishes the current span; takes anything"},
    {"forked", native_forked, METH_NOARGS, "in the child"},
    {"off", native_off, METH_NOARGS, "publishes nothing any more"},
    {"current", native_current, METH_NOARGS, "what the thread has, for tests"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "spanprof_otel._native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModule_Create(&definition);
}
