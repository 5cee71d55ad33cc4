/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span's ids are Python ints. They are converted once: the record is kept as an attribute of the
 * span, so that a later switch to the span reads 26 bytes and allocates nothing. A span class that
 * takes no attributes is converted each time.
 */
#include "context/python/native.h"
#include <string.h>

/* 64 bits of a Python int, from bit `shift` on. */
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
static int record_convert(PyObject *context, struct span_record *record)
{
    uint64_t high, low, span, flags;
    if (!PyTuple_Check(context) || PyTuple_Size(context) < 4)
        return 0;
    PyObject *trace = PyTuple_GetItem(context, 0);
    if (id_word(trace, 64, &high) || id_word(trace, 0, &low) ||
        id_word(PyTuple_GetItem(context, 1), 0, &span) ||
        id_word(PyTuple_GetItem(context, 3), 0, &flags))
        return -1;
    int remote = PyObject_IsTrue(PyTuple_GetItem(context, 2));
    if (remote || !(high | low) || !span) /* a remote parent is another process's span */
        return remote < 0 ? -1 : 0;
    put_word(record->trace_id, high);
    put_word(record->trace_id + 8, low);
    put_word(record->span_id, span);
    record->flags = (uint8_t)flags;
    record->published = 1;
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

static bool record_read(PyObject *kept, struct span_record *record)
{
    if (!PyBytes_Check(kept) || PyBytes_Size(kept) != sizeof(*record))
        return false;
    memcpy(record, PyBytes_AsString(kept), sizeof(*record));
    return true;
}

static void record_keep(PyObject *span, const struct span_record *record)
{
    PyObject *kept = PyBytes_FromStringAndSize((const char *)record, sizeof(*record));
    if (!kept || PyObject_SetAttr(span, publisher.record_name, kept))
        PyErr_Clear();
    Py_XDECREF(kept);
}

int span_record_get(PyObject *span, struct span_record *record)
{
    PyObject *kept = PyObject_GetAttr(span, publisher.record_name);
    bool is_read = kept && record_read(kept, record);
    Py_XDECREF(kept);
    if (is_read)
        return 0;
    PyErr_Clear();
    memset(record, 0, sizeof(*record));
    PyObject *context = span_context_of(span);
    int error = context ? record_convert(context, record) : -1;
    Py_XDECREF(context);
    if (!error)
        record_keep(span, record);
    return error;
}
