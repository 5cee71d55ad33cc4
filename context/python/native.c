/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof_otel._native: writes the span that OpenTelemetry's API has as the current one of a
 * Python thread or task to the thread's context (spanprof_context.h). One file for CPython 3.10 and
 * later: it uses the limited API, and functions that every CPython exports beside it.
 *
 * A thread changes its span in two ways: the API attaches or detaches a context, which this module
 * does for it, or the thread changes its contextvars.Context (context_switch.c, import_slots.c,
 * late_modules.c).
 *
 * On any failure nothing is published, and the program runs as without this module. A process that
 * was forked has no process context. os.fork() calls forked(); a fork by C code, such as uWSGI's,
 * is seen by a page that the kernel fills with zeros in the child.
 */
#include "context/python/native.h"
#include "context/spanprof_context.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct publisher publisher;

/* ---- processes ---- */

static volatile uint8_t never_forked = 1; /* without such a page: forks by C code are not seen */
static volatile uint8_t *same_process = &never_forked;

static void process_page_open(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) < 0) {
        munmap(page, size);
        return;
    }
    same_process = page;
    *same_process = 1;
}

/* ---- publishing ---- */

static bool publisher_is(enum publisher_state state)
{
    return publisher.state == state && PyInterpreterState_Get() == publisher.interpreter;
}

static void publisher_end(void)
{
    bool began = publisher.state == PUBLISHER_ON || publisher.state == PUBLISHER_ENDED;
    publisher.state = began ? PUBLISHER_ENDED : PUBLISHER_OFF;
    (void)spanprof_context_clear();
}

static void process_republish(void)
{
    *same_process = 1;
    if (spanprof_context_publish(NULL, 0))
        publisher_end();
}

/* Whether a hook is to publish. Once the publisher has ended it touches no Python object: the
 * interpreter may be ending too. */
static bool publisher_begin(void)
{
    if (publisher.state == PUBLISHER_ENDED)
        (void)spanprof_context_clear();
    return publisher_is(PUBLISHER_ON);
}

/* The key is made by a module that is imported after the API has its runtime context. */
static bool span_key_find(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = modules && PyDict_Check(modules)
                           ? PyDict_GetItemString(modules, "opentelemetry.trace.propagation")
                           : NULL;
    if (module)
        publisher.span_key = PyObject_GetAttrString(module, "_SPAN_KEY");
    PyErr_Clear();
    return publisher.span_key;
}

/* context: OpenTelemetry's, a dict, or NULL; borrowed. A new reference; NULL: no span. */
static PyObject *span_of(PyObject *context)
{
    if (!context || !PyDict_Check(context) || (!publisher.span_key && !span_key_find()))
        return NULL;
    PyObject *span = PyDict_GetItemWithError(context, publisher.span_key);
    if (!span)
        PyErr_Clear();
    Py_XINCREF(span);
    return span;
}

/* No exception is set, before and after. */
static void publish(PyObject *context)
{
    struct span_record record = {.published = 0};
    if (!*same_process)
        process_republish();
    PyObject *span = span_of(context);
    if (span) {
        late_modules_prepare_thread();
        if (span_record_get(span, &record))
            PyErr_Clear();
        Py_DECREF(span);
    }
    if (record.published && publisher.state == PUBLISHER_ON)
        (void)spanprof_context_set(record.trace_id, record.span_id, record.flags);
    else
        (void)spanprof_context_clear();
}

void publish_in(PyObject *contextvars_context)
{
    PyObject *type, *value, *traceback, *context = NULL;
    if (!publisher_begin())
        return;
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
    if (!publisher_begin())
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContextVar_Get(publisher.variable, NULL, &context))
        PyErr_Clear();
    publish(context);
    Py_XDECREF(context);
    PyErr_Restore(type, value, traceback);
}

/* ---- the first span ---- */

/* -1: with an exception that a signal handler has raised, such as KeyboardInterrupt. */
static int span_has_resource(PyObject *span)
{
    PyObject *resource = PyObject_GetAttrString(span, "resource");
    Py_XDECREF(resource);
    if (resource || !PyErr_ExceptionMatches(PyExc_Exception))
        return resource ? 1 : -1;
    PyErr_Clear();
    return 0;
}

/* Calls first_span() with the first span that has a Resource. -1: as above. */
static int first_span_report(PyObject *context)
{
    PyObject *span = span_of(context);
    int outcome = span ? span_has_resource(span) : 0;
    PyObject *first_span = publisher.first_span; /* NULL: another thread has had the first one */
    if (outcome > 0 && first_span) {
        publisher.first_span = NULL;
        PyObject *result = PyObject_CallFunctionObjArgs(first_span, span, NULL);
        outcome = result ? 0 : -1;
        Py_XDECREF(result);
        Py_DECREF(first_span);
        if (outcome)
            publisher_end();
    }
    Py_XDECREF(span);
    return outcome < 0 ? -1 : 0;
}

/* The context is detached again, since its attach() raises. */
static void attach_undo(PyObject *token)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyContextVar_Reset(publisher.variable, token))
        PyErr_Clear();
    Py_DECREF(token);
    PyErr_Restore(type, value, traceback);
}

/* ---- the runtime context of OpenTelemetry's API ---- */

static PyObject *native_attach(PyObject *module, PyObject *context)
{
    (void)module;
    PyObject *token = PyContextVar_Set(publisher.variable, context);
    if (!token)
        return NULL;
    if (publisher_is(PUBLISHER_WAITING) && first_span_report(context)) {
        attach_undo(token);
        return NULL;
    }
    if (publisher_begin())
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

/* configure(variable, first_span) */
static PyObject *native_configure(PyObject *module, PyObject *arguments)
{
    PyObject *variable, *first_span;
    (void)module;
    if (publisher.state != PUBLISHER_NEW) {
        PyErr_SetString(PyExc_RuntimeError, "this process publishes already");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "OO", &variable, &first_span))
        return NULL;
    publisher.context_name = PyUnicode_InternFromString("_context");
    publisher.record_name = PyUnicode_InternFromString("_spanprof_record");
    if (!publisher.context_name || !publisher.record_name)
        return NULL;
    publisher.interpreter = PyInterpreterState_Get();
    publisher.variable = Py_NewRef(variable);
    publisher.first_span = Py_NewRef(first_span);
    publisher.state = PUBLISHER_WAITING;
    Py_RETURN_NONE;
}

#define RESOURCE_KEY_MAX   255
#define RESOURCE_VALUE_MAX 4096

/* NULL, without an exception: not a text, longer than `most` bytes, or not to be written as UTF-8
 * without a NUL. */
static const char *text_of(PyObject *object, Py_ssize_t most, Py_ssize_t *size)
{
    const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, size) : NULL;
    PyErr_Clear();
    return text && *size <= most && strlen(text) == (size_t)*size ? text : NULL;
}

/* The bytes that (key, value) takes of the Resource; 0: it cannot be published. */
static Py_ssize_t attribute_read(PyObject *pair, struct spanprof_attribute *attribute)
{
    Py_ssize_t key_size, value_size;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2)
        return 0;
    attribute->key = text_of(PyTuple_GetItem(pair, 0), RESOURCE_KEY_MAX, &key_size);
    attribute->value = text_of(PyTuple_GetItem(pair, 1), RESOURCE_VALUE_MAX, &value_size);
    return attribute->key && key_size && attribute->value ? 4 + key_size + value_size : 0;
}

/* Publishes the list of (key, value), in this order, as far as it fits. 0 or a negative errno. */
static int resource_publish(PyObject *list)
{
    static struct spanprof_attribute attributes[SPANPROF_RESOURCE_ATTRIBUTES_MAX];
    Py_ssize_t size = PyList_Check(list) ? PyList_Size(list) : 0;
    Py_ssize_t free_bytes = SPANPROF_RESOURCE_BYTES_MAX;
    size_t n = 0;
    for (Py_ssize_t i = 0; i < size && n < SPANPROF_RESOURCE_ATTRIBUTES_MAX; i++) {
        Py_ssize_t taken = attribute_read(PyList_GetItem(list, i), &attributes[n]);
        if (!taken || taken > free_bytes)
            continue;
        free_bytes -= taken;
        n++;
    }
    return spanprof_context_publish(attributes, n);
}

/* start(list of (key, value)): the process context, and from now on spans. How switches are seen:
 * "watcher" or "run". */
static PyObject *native_start(PyObject *module, PyObject *list)
{
    (void)module;
    int error = publisher.state == PUBLISHER_WAITING ? resource_publish(list) : -EPERM;
    if (error) {
        publisher_end();
        errno = -error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    enum switch_source source = context_switch_watch();
    if (source == SWITCH_NONE) {
        publisher_end();
        spanprof_context_withdraw();
        PyErr_SetString(PyExc_RuntimeError, "switches of contexts cannot be seen");
        return NULL;
    }
    late_modules_start(source);
    process_page_open();
    publisher.state = PUBLISHER_ON;
    return PyUnicode_FromString(source == SWITCH_WATCHER ? "watcher" : "run");
}

/* expect(name): of a module that is about to be imported. */
static PyObject *native_expect(PyObject *module, PyObject *name)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    (void)module;
    PyErr_Clear();
    if (text)
        late_modules_expect(text);
    Py_RETURN_NONE;
}

static PyObject *native_off(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    publisher_end();
    Py_RETURN_NONE;
}

/* withdraw(): off(), and the process context is gone. */
static PyObject *native_withdraw(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (publisher.state == PUBLISHER_ON)
        (void)spanprof_context_withdraw();
    publisher_end();
    Py_RETURN_NONE;
}

static PyObject *native_forked(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (publisher_is(PUBLISHER_ON) && !*same_process)
        process_republish();
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
    {"configure", native_configure, METH_VARARGS, "configure(variable, first_span), once"},
    {"start", native_start, METH_O, "start(attributes) -> how switches are seen"},
    {"expect", native_expect, METH_O, "expect(name): the module is about to be imported"},
    {"forked", native_forked, METH_NOARGS, "forked(): in the child"},
    {"off", native_off, METH_NOARGS, "off(): publishes nothing more"},
    {"withdraw", native_withdraw, METH_NOARGS, "withdraw(): another library publishes from now on"},
    {"current", native_current, METH_NOARGS, "current(): what this thread publishes, for tests"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "spanprof_otel._native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModule_Create(&definition);
}
