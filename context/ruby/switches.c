/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter reports each switch of fibers, after it, in the fiber that runs now; and each
 * begin and end of a thread. Before 3.3 a native thread that has served one Ruby thread serves the
 * next one, so what the first has left there is removed.
 *
 * With M:N threads (3.3 and later, RUBY_MN_THREADS=1) a Ruby thread continues on any native thread.
 * "Resumed" is reported on that thread, perhaps without the GVL: nothing of Ruby may be touched
 * there. So each Ruby thread has a copy of what it publishes in memory of ours.
 */
#include "context/ruby/native.h"
#include "context/spanprof_context.h"
#include <ruby/debug.h>
#include <ruby/thread.h>
#include <stdlib.h>

#define HAVE_THREAD_SPECIFIC (RUBY_API_VERSION_CODE >= 30300)

static void fiber_switched(rb_event_flag_t event, VALUE data, VALUE self, ID method, VALUE class)
{
    (void)event, (void)data, (void)self, (void)method, (void)class;
    publish_current();
}

static void thread_changed(rb_event_flag_t event, VALUE data, VALUE self, ID method, VALUE class)
{
    static const struct span_record none;
    (void)event, (void)data, (void)self, (void)method, (void)class;
    publish_record(&none);
}

#if HAVE_THREAD_SPECIFIC
static bool threads_move;
static rb_internal_thread_specific_key_t kept_key;

static void thread_resumed(rb_event_flag_t event, const rb_internal_thread_event_data_t *data,
                           void *unused)
{
    const struct span_record *kept = rb_internal_thread_specific_get(data->thread, kept_key);
    (void)event, (void)unused;
    if (kept && kept->set)
        (void)spanprof_context_set(kept->trace_id, kept->span_id, kept->flags);
    else
        (void)spanprof_context_clear();
}

static void thread_exited(rb_event_flag_t event, const rb_internal_thread_event_data_t *data,
                          void *unused)
{
    (void)event, (void)unused;
    free(rb_internal_thread_specific_get(data->thread, kept_key));
    rb_internal_thread_specific_set(data->thread, kept_key, NULL);
    (void)spanprof_context_clear();
}

/* RUBY_MN_THREADS is read as the interpreter reads it. */
static void threads_watch(void)
{
    const char *mn_threads = getenv("RUBY_MN_THREADS");
    if (!mn_threads || !atoi(mn_threads))
        return;
    kept_key = rb_internal_thread_specific_key_create();
    rb_internal_thread_add_event_hook(thread_resumed, RUBY_INTERNAL_THREAD_EVENT_RESUMED, NULL);
    rb_internal_thread_add_event_hook(thread_exited, RUBY_INTERNAL_THREAD_EVENT_EXITED, NULL);
    threads_move = true;
}

void switches_keep(const struct span_record *record)
{
    if (!threads_move)
        return;
    VALUE thread = rb_thread_current();
    struct span_record *kept = rb_internal_thread_specific_get(thread, kept_key);
    if (!kept && record->set) { /* the thread's first span */
        kept = calloc(1, sizeof(*kept));
        rb_internal_thread_specific_set(thread, kept_key, kept);
    }
    if (kept)
        *kept = *record;
}
#else
static void threads_watch(void)
{
}

void switches_keep(const struct span_record *record)
{
    (void)record;
}
#endif

void switches_watch(void)
{
    threads_watch();
    rb_add_event_hook(fiber_switched, RUBY_EVENT_FIBER_SWITCH, Qnil);
    rb_add_event_hook(thread_changed, RUBY_EVENT_THREAD_BEGIN | RUBY_EVENT_THREAD_END, Qnil);
}
