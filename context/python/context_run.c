/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How Python tells that a thread runs in another contextvars.Context.
 *
 * From 3.14 on there are watchers. Before, contexts are entered by Context.run(), which asyncio
 * calls for each step of a task, and to_thread() for a function: the C function behind that method
 * is replaced in its PyMethodDef, which the interpreter reads at each call, also in code that it
 * has specialised. The layout of a method descriptor is that of CPython 3.10 to 3.13; what is found
 * there is checked first.
 */
#include "context/python/native.h"
#include <dlfcn.h>
#include <string.h>

/* ---- 3.14 ---- */

typedef int (*watch_fn)(int event, PyObject *context);
typedef int (*add_watcher_fn)(watch_fn watch);

static int on_switch(int event, PyObject *context)
{
    (void)event, (void)context;
    publish_current();
    return 0;
}

bool context_watch(void)
{
    add_watcher_fn add;
    void *symbol = dlsym(RTLD_DEFAULT, "PyContext_AddWatcher");
    if (!symbol)
        return false;
    memcpy(&add, &symbol, sizeof(add));
    if (add(on_switch) < 0) {
        PyErr_Clear();
        return false;
    }
    publisher.watched = WATCHED_BY_WATCHER;
    return true;
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

static PyObject *run_and_tell(PyObject *self, PyObject *const *arguments, Py_ssize_t n,
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
    return method; /* the type is static, and keeps it */
}

bool context_run_hook(void)
{
    PyMethodDef *method = method_of_run();
    if (!method || !method->ml_name || strcmp(method->ml_name, "run") != 0 ||
        method->ml_flags != (METH_FASTCALL | METH_KEYWORDS))
        return false;
    run_fn replacement = run_and_tell;
    memcpy(&run, &method->ml_meth, sizeof(run));
    memcpy(&method->ml_meth, &replacement, sizeof(replacement));
    publisher.watched = WATCHED_BY_RUN;
    (void)import_slots_hook();
    return true;
}
