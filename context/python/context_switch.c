/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a switch of a thread to another contextvars.Context is seen.
 *
 * Python 3.14 and later call a watcher. In 3.10 to 3.13 contexts are entered by Context.run(),
 * which asyncio calls for each step of a task, and to_thread() for a function. The C function
 * behind that method is replaced in its PyMethodDef, which the interpreter reads at each call, also
 * in code that it has specialised. The layout of a method descriptor is that of CPython 3.10
 * to 3.13; what is found there is checked first. Code in C that enters contexts is seen by
 * import_slots.c.
 */
#include "context/python/native.h"
#include <string.h>

/* ---- 3.14 ---- */

typedef int (*watch_fn)(int event, PyObject *context);

extern int PyContext_AddWatcher(watch_fn watch) __attribute__((weak)); /* NULL before 3.14 */

static int on_switch(int event, PyObject *context)
{
    (void)event, (void)context;
    publish_current();
    return 0;
}

/* Fails if the interpreter has eight watchers already. */
static bool watcher_add(void)
{
    bool added = PyContext_AddWatcher(on_switch) >= 0;
    PyErr_Clear();
    return added;
}

/* ---- 3.10 to 3.13 ---- */

typedef PyObject *(*run_fn)(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                            PyObject *names);

struct method_descriptor {
    PyObject head;
    PyTypeObject *type;
    PyObject *name, *qualified_name;
    PyMethodDef *method;
};

static run_fn run;

static PyObject *run_and_publish(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
                                 PyObject *names)
{
    publish_in(self);
    PyObject *result = run(self, arguments, n, names);
    publish_current();
    return result;
}

static PyMethodDef *method_of_run(void)
{
    PyObject *module = PyImport_ImportModule("contextvars");
    PyObject *type = module ? PyObject_GetAttrString(module, "Context") : NULL;
    PyObject *found = type ? PyObject_GetAttrString(type, "run") : NULL;
    PyMethodDef *method = NULL;
    if (found && PyObject_TypeCheck(found, &PyMethodDescr_Type))
        method = ((struct method_descriptor *)(void *)found)->method;
    Py_XDECREF(found);
    Py_XDECREF(type);
    Py_XDECREF(module);
    PyErr_Clear();
    return method; /* of a static type: it stays */
}

static bool run_hook(void)
{
    PyMethodDef *method = method_of_run();
    if (!method || !method->ml_name || strcmp(method->ml_name, "run") != 0 ||
        method->ml_flags != (METH_FASTCALL | METH_KEYWORDS))
        return false;
    run_fn replacement = run_and_publish;
    memcpy(&run, &method->ml_meth, sizeof(run));
    memcpy(&method->ml_meth, &replacement, sizeof(replacement));
    return true;
}

/* ---- 3.12 and 3.13: eager tasks ---- */

#define TP_INIT_AT 296 /* of PyTypeObject, in 64-bit builds */

typedef int (*init_fn)(PyObject *self, PyObject *arguments, PyObject *names);

static init_fn task_init;

static int task_init_and_publish(PyObject *self, PyObject *arguments, PyObject *names)
{
    int error = task_init(self, arguments, names);
    publish_current();
    return error;
}

void context_switch_hook_tasks(PyObject *asyncio)
{
    PyObject *type = PyObject_GetAttrString(asyncio, "Task");
    init_fn found, replacement = task_init_and_publish;
    void *slot =
        type && PyType_Check(type) && PyObject_HasAttrString(asyncio, "_register_eager_task")
            ? PyType_GetSlot((PyTypeObject *)type, Py_tp_init)
            : NULL;
    memcpy(&found, &slot, sizeof(found));
    if (found && found != replacement && !memcmp((char *)type + TP_INIT_AT, &slot, sizeof(slot))) {
        task_init = found;
        memcpy((char *)type + TP_INIT_AT, &replacement, sizeof(replacement));
    }
    Py_XDECREF(type);
    PyErr_Clear();
}

enum switch_source context_switch_watch(void)
{
    if (PyContext_AddWatcher)
        return watcher_add() ? SWITCH_WATCHER : SWITCH_NONE;
    return run_hook() ? SWITCH_RUN : SWITCH_NONE;
}
