/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch of fibers must not run Ruby code: it could raise, allocate, or switch again. So the path
 * from the fiber to the ids is followed through instance variables:
 *
 *   Fiber @opentelemetry_context (API 1.5 on; before: a fiber-local variable), an Array of contexts
 *     last: Context @entries, a Hash
 *       [CURRENT_SPAN_KEY]: Span @context
 *         SpanContext @trace_id @span_id, binary Strings; @remote; @trace_flags
 *           TraceFlags @flags
 *
 * What is missing or of another type means: no span. spanprof_otel.rb compares the result with the
 * API's own once, before anything is published.
 *
 * rb_hash_lookup() would call the key's hash(), and each call ends with a look for interrupts: a
 * timeout could be raised there, before the span is published. Entries are few, so they are read in
 * turn.
 */
#include "context/ruby/native.h"
#include <string.h>

static VALUE span_key = Qnil;
static ID stack_name;
static bool stack_is_variable; /* of the Fiber; else fiber-local */
static ID id_entries, id_context, id_trace_id, id_span_id, id_remote, id_trace_flags, id_flags;

void current_span_configure(VALUE key, VALUE stack)
{
    if (NIL_P(span_key))
        rb_gc_register_address(&span_key);
    span_key = key;
    stack_name = rb_sym2id(stack);
    stack_is_variable = rb_id2name(stack_name)[0] == '@';
    id_entries = rb_intern("@entries");
    id_context = rb_intern("@context");
    id_trace_id = rb_intern("@trace_id");
    id_span_id = rb_intern("@span_id");
    id_remote = rb_intern("@remote");
    id_trace_flags = rb_intern("@trace_flags");
    id_flags = rb_intern("@flags");
}

/* Of an object of a class that is written in Ruby. */
static VALUE variable_of(VALUE object, ID name)
{
    return RB_TYPE_P(object, T_OBJECT) ? rb_ivar_get(object, name) : Qnil;
}

static VALUE current_entries(void)
{
    VALUE stack = stack_is_variable ? rb_ivar_get(rb_fiber_current(), stack_name)
                                    : rb_thread_local_aref(rb_thread_current(), stack_name);
    if (!RB_TYPE_P(stack, T_ARRAY) || RARRAY_LEN(stack) == 0)
        return Qnil;
    return variable_of(RARRAY_AREF(stack, RARRAY_LEN(stack) - 1), id_entries);
}

/* False: not an id, or all zero. */
static bool copy_id(VALUE id, uint8_t *to, long size)
{
    static const uint8_t zero[16];
    if (!RB_TYPE_P(id, T_STRING) || RSTRING_LEN(id) != size)
        return false;
    memcpy(to, RSTRING_PTR(id), (size_t)size);
    return memcmp(to, zero, (size_t)size) != 0;
}

struct search {
    VALUE key, found;
};

static int entry_compare(VALUE key, VALUE value, VALUE argument)
{
    struct search *search = (struct search *)argument;
    if (key != search->key)
        return ST_CONTINUE;
    search->found = value;
    return ST_STOP;
}

void current_span_read(struct span_record *record)
{
    record->set = 0;
    VALUE entries = current_entries();
    if (!RB_TYPE_P(entries, T_HASH))
        return;
    struct search search = {.key = span_key, .found = Qnil};
    rb_hash_foreach(entries, entry_compare, (VALUE)&search);
    VALUE context = variable_of(search.found, id_context);
    if (RTEST(variable_of(context, id_remote))) /* a remote parent is another process's span */
        return;
    if (!copy_id(variable_of(context, id_trace_id), record->trace_id, sizeof(record->trace_id)) ||
        !copy_id(variable_of(context, id_span_id), record->span_id, sizeof(record->span_id)))
        return;
    VALUE flags = variable_of(variable_of(context, id_trace_flags), id_flags);
    record->flags = FIXNUM_P(flags) ? (uint8_t)FIX2LONG(flags) : 0;
    record->set = 1;
}
