/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SpanprofOtel::Native: writes the span that OpenTelemetry's API has as the current one of a Ruby
 * thread's running fiber to the thread's context (spanprof_context.h). spanprof_otel.rb calls it
 * after each change of the API's stack of contexts, the interpreter after each switch (switches.c).
 *
 * Whatever fails leaves the program as it is: nothing is published then.
 */
#include "context/ruby/native.h"
#include "context/spanprof_context.h"
#include <errno.h>
#include <unistd.h>

enum publisher_state { PUBLISHER_NEW, PUBLISHER_MEETING, PUBLISHER_ON, PUBLISHER_OFF };

static enum publisher_state state;
static pid_t published_by;

void publish_record(const struct span_record *record)
{
    if (state != PUBLISHER_ON)
        return;
    switches_keep(record);
    if (record->set)
        (void)spanprof_context_set(record->trace_id, record->span_id, record->flags);
    else
        (void)spanprof_context_clear();
}

void publish_current(void)
{
    struct span_record record;
    if (state != PUBLISHER_ON)
        return;
    current_span_read(&record);
    publish_record(&record);
}

/* switched: the API's stack has changed. false: no span was seen yet, so the caller looks. */
static VALUE native_switched(VALUE module)
{
    (void)module;
    publish_current();
    return state == PUBLISHER_NEW ? Qfalse : Qtrue;
}

/* meet: true for one caller alone, who then configures, publishes the Resource and starts. */
static VALUE native_meet(VALUE module)
{
    (void)module;
    if (state != PUBLISHER_NEW)
        return Qfalse;
    state = PUBLISHER_MEETING;
    return Qtrue;
}

static VALUE native_configure(VALUE module, VALUE key, VALUE stack)
{
    (void)module;
    Check_Type(stack, T_SYMBOL);
    current_span_configure(key, stack);
    return Qnil;
}

static VALUE ids(const uint8_t *trace_id, const uint8_t *span_id, uint8_t flags)
{
    return rb_ary_new_from_args(3, rb_str_new((const char *)trace_id, 16),
                                rb_str_new((const char *)span_id, 8), INT2FIX(flags));
}

/* read: [trace id, span id, flags] of the current span, or nil. */
static VALUE native_read(VALUE module)
{
    struct span_record record;
    (void)module;
    current_span_read(&record);
    return record.set ? ids(record.trace_id, record.span_id, record.flags) : Qnil;
}

/* publish_resource([[key, value], ...]): Strings that spanprof_otel.rb has checked. 0 or a negative
 * errno. */
static VALUE native_publish_resource(VALUE module, VALUE list)
{
    struct spanprof_attribute attributes[SPANPROF_RESOURCE_ATTRIBUTES_MAX];
    size_t n = 0;
    (void)module;
    Check_Type(list, T_ARRAY);
    for (long i = 0; i < RARRAY_LEN(list) && n < SPANPROF_RESOURCE_ATTRIBUTES_MAX; i++) {
        VALUE pair = rb_ary_entry(list, i);
        Check_Type(pair, T_ARRAY);
        VALUE key = rb_ary_entry(pair, 0), value = rb_ary_entry(pair, 1);
        attributes[n].key = StringValueCStr(key);
        attributes[n++].value = StringValueCStr(value);
    }
    int error = spanprof_context_publish(attributes, n);
    RB_GC_GUARD(list);
    published_by = getpid();
    return INT2FIX(error);
}

/* start: the Resource is published. */
static VALUE native_start(VALUE module)
{
    (void)module;
    switches_watch();
    state = PUBLISHER_ON;
    publish_current();
    return Qnil;
}

static VALUE native_stop(VALUE module)
{
    (void)module;
    if (state == PUBLISHER_ON)
        (void)spanprof_context_clear();
    state = PUBLISHER_OFF;
    return Qnil;
}

/* forked: in the child, which may be told twice. */
static VALUE native_forked(VALUE module)
{
    (void)module;
    if (state != PUBLISHER_ON || published_by == getpid())
        return Qnil;
    published_by = getpid();
    spanprof_context_clear();
    if (spanprof_context_publish(NULL, 0))
        state = PUBLISHER_OFF;
    publish_current();
    return Qnil;
}

/* current: what the thread has, for tests. */
static VALUE native_current(VALUE module)
{
    struct spanprof_context context;
    (void)module;
    spanprof_context_get(&context);
    return ids(context.trace_id, context.span_id, context.trace_flags);
}

RUBY_FUNC_EXPORTED void Init_native(void);

void Init_native(void)
{
    VALUE native = rb_define_module_under(rb_define_module("SpanprofOtel"), "Native");
    rb_define_singleton_method(native, "switched", native_switched, 0);
    rb_define_singleton_method(native, "meet", native_meet, 0);
    rb_define_singleton_method(native, "configure", native_configure, 2);
    rb_define_singleton_method(native, "read", native_read, 0);
    rb_define_singleton_method(native, "publish_resource", native_publish_resource, 1);
    rb_define_singleton_method(native, "start", native_start, 0);
    rb_define_singleton_method(native, "stop", native_stop, 0);
    rb_define_singleton_method(native, "forked", native_forked, 0);
    rb_define_singleton_method(native, "current", native_current, 0);
}
