/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three extension modules switch by themselves, and may be imported at any time after the first
 * span: _asyncio and uvloop enter contexts from C, greenlet switches stacks together with their
 * contexts. The import is seen before the module is loaded, so it is awaited: spans that are
 * published look for it until it is there, or AWAIT_NS have passed.
 *
 * greenlet reports switches to one trace function for each thread; a function that is there already
 * is called after ours.
 */
#include "context/python/native.h"
#include <string.h>
#include <time.h>

#define AWAIT_NS 10000000000

static const char *const names[] = {"_asyncio", "uvloop.loop", "greenlet._greenlet"};
#define NAMES (sizeof(names) / sizeof(names[0]))

static struct {
    unsigned generation; /* one more with each module that was loaded late; 0: not started */
    unsigned hooked;     /* the generation in which C code was hooked */
    unsigned awaited;    /* a bit for each of `names` */
    int64_t until_ns;
    enum switch_source source;
} late;

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void late_modules_start(enum switch_source source)
{
    late.source = source;
    late.generation = 1;
}

void late_modules_expect(const char *name)
{
    for (unsigned i = 0; i < NAMES; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        late.awaited |= 1U << i;
        late.until_ns = clock_ns() + AWAIT_NS;
    }
}

/* Borrowed; NULL: not loaded. PyImport_GetModule() would wait for an import that another thread is
 * at. */
static PyObject *module_find(const char *name)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module =
        modules && PyDict_Check(modules) ? PyDict_GetItemString(modules, name) : NULL;
    PyErr_Clear();
    return module;
}

static void awaited_look(void)
{
    for (unsigned i = 0; i < NAMES; i++) {
        if (!(late.awaited & 1U << i) || !module_find(names[i]))
            continue;
        late.awaited &= ~(1U << i);
        late.generation++;
    }
    if (clock_ns() > late.until_ns)
        late.awaited = 0;
}

/* ---- greenlets ---- */

static PyObject *on_greenlet(PyObject *next, PyObject *arguments)
{
    publish_current();
    if (next)
        return PyObject_CallObject(next, arguments);
    Py_RETURN_NONE;
}

static PyMethodDef greenlet_method = {"spanprof_greenlet_switch", on_greenlet, METH_VARARGS, NULL};

static bool is_ours(PyObject *trace)
{
    return PyObject_TypeCheck(trace, &PyCFunction_Type) &&
           PyCFunction_GetFunction(trace) == on_greenlet;
}

static void greenlet_trace(PyObject *module)
{
    PyObject *before = PyObject_CallMethod(module, "gettrace", NULL), *result = NULL;
    if (before && !is_ours(before)) {
        PyObject *trace =
            PyCFunction_NewEx(&greenlet_method, before == Py_None ? NULL : before, NULL);
        if (trace)
            result = PyObject_CallMethod(module, "settrace", "O", trace);
        Py_XDECREF(trace);
    }
    Py_XDECREF(result);
    Py_XDECREF(before);
    PyErr_Clear();
}

static void c_code_hook(void)
{
    PyObject *asyncio = module_find("_asyncio");
    if (asyncio)
        context_switch_hook_tasks(asyncio);
    import_slots_hook();
}

void late_modules_prepare_thread(void)
{
    static __thread unsigned prepared; /* the generation that this thread has seen */
    if (late.awaited)
        awaited_look();
    if (prepared == late.generation)
        return;
    prepared = late.generation;
    if (late.source == SWITCH_RUN && late.hooked != late.generation) {
        late.hooked = late.generation;
        c_code_hook();
    }
    PyObject *greenlet = module_find("greenlet._greenlet");
    if (greenlet)
        greenlet_trace(greenlet);
}
