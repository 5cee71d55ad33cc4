/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way for a JVM whose java.lang.VirtualThread is not as virtual_hooks.c expects it.
 *
 * A virtual thread runs on one carrier thread after another, each of which has its own thread
 * context. The record of the virtual thread lies in JVMTI's thread-local storage; HotSpot (21 and
 * later) reports mounts and unmounts as extension events:
 *
 *   mount     on the carrier, when the virtual thread is current: publish its record, or none
 *   unmount   on the carrier, while the virtual thread is still current: clear
 *   end       the record is freed
 *
 * Only this thread's own storage is looked up, which takes no lock. The callbacks neither allocate
 * nor call into Java.
 *
 * Headers of JDKs before 21 lack what is needed here: those numbers are of JVMTI's specification.
 */
#include "context/java/native.h"
#include "context/spanprof_context.h"
#include <jvmti.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_21         0x30150000
#define VIRTUAL_THREAD_END 88
#define EVENT_MIN          50
#define CAPABILITY_VIRTUAL 44 /* can_support_virtual_threads, as bit */

#define ID_MOUNT   "com.sun.hotspot.events.VirtualThreadMount"
#define ID_UNMOUNT "com.sun.hotspot.events.VirtualThreadUnmount"

static jvmtiEnv *jvmti; /* set once, before the first event */

struct span_record *virtual_thread_record(bool make)
{
    void *record = NULL;
    if ((*jvmti)->GetThreadLocalStorage(jvmti, NULL, &record) || record || !make)
        return record;
    record = calloc(1, sizeof(struct span_record));
    if (record && (*jvmti)->SetThreadLocalStorage(jvmti, NULL, record)) {
        free(record);
        return NULL;
    }
    return record;
}

/* ---- events ---- */

static void JNICALL on_mount(jvmtiEnv *env, ...)
{
    (void)env;
    const struct span_record *record = virtual_thread_record(false);
    if (record && record->set)
        span_record_publish(record);
    else
        (void)spanprof_context_clear();
}

static void JNICALL on_unmount(jvmtiEnv *env, ...)
{
    (void)env;
    (void)spanprof_context_clear();
}

static void JNICALL on_end(jvmtiEnv *env, JNIEnv *jni, jthread thread)
{
    (void)env, (void)jni, (void)thread;
    struct span_record *record = virtual_thread_record(false);
    (void)(*jvmti)->SetThreadLocalStorage(jvmti, NULL, NULL);
    (void)spanprof_context_clear();
    free(record);
}

/* ---- turning them on ---- */

static jvmtiError add_capability(void)
{
    jvmtiCapabilities wanted;
    memset(&wanted, 0, sizeof(wanted));
    ((uint8_t *)&wanted)[CAPABILITY_VIRTUAL / 8] = 1 << CAPABILITY_VIRTUAL % 8;
    return (*jvmti)->AddCapabilities(jvmti, &wanted);
}

static jvmtiError enable(jint event)
{
    return (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, (jvmtiEvent)event, NULL);
}

static jvmtiError watch_end(void)
{
    union {
        jvmtiEventCallbacks callbacks;
        void (*of_event[VIRTUAL_THREAD_END - EVENT_MIN + 1])(void);
    } events;
    memset(&events, 0, sizeof(events));
    events.of_event[VIRTUAL_THREAD_END - EVENT_MIN] = (void (*)(void))on_end;
    jvmtiError error = (*jvmti)->SetEventCallbacks(jvmti, &events.callbacks, (jint)sizeof(events));
    return error ? error : enable(VIRTUAL_THREAD_END);
}

static jvmtiError watch_switch(jint event, jvmtiExtensionEvent callback)
{
    jvmtiError error = event < 0 ? JVMTI_ERROR_NOT_AVAILABLE : JVMTI_ERROR_NONE;
    if (!error)
        error = (*jvmti)->SetExtensionEventCallback(jvmti, event, callback);
    return error ? error : enable(event);
}

static void event_free(jvmtiExtensionEventInfo *event)
{
    for (jint i = 0; i < event->param_count; i++)
        (*jvmti)->Deallocate(jvmti, (unsigned char *)event->params[i].name);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)event->params);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)event->short_description);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)event->id);
}

static jvmtiError watch_switches(void)
{
    jvmtiExtensionEventInfo *events = NULL;
    jint n = 0, mount = -1, unmount = -1;
    jvmtiError error = (*jvmti)->GetExtensionEvents(jvmti, &n, &events);
    if (error)
        return error;
    for (jint i = 0; i < n; i++) {
        if (!strcmp(events[i].id, ID_MOUNT))
            mount = events[i].extension_event_index;
        else if (!strcmp(events[i].id, ID_UNMOUNT))
            unmount = events[i].extension_event_index;
        event_free(&events[i]);
    }
    (*jvmti)->Deallocate(jvmti, (unsigned char *)events);
    error = watch_switch(unmount, on_unmount);
    return error ? error : watch_switch(mount, on_mount);
}

int virtual_threads_watch(JNIEnv *env)
{
    JavaVM *vm;
    void *found;
    if ((*env)->GetJavaVM(env, &vm) || (*vm)->GetEnv(vm, &found, VERSION_21))
        return JVMTI_ERROR_UNSUPPORTED_VERSION;
    jvmti = found;
    jvmtiError error = add_capability();
    if (!error)
        error = watch_end();
    if (!error)
        error = watch_switches();
    if (error)
        (*jvmti)->DisposeEnvironment(jvmti);
    return (int)error;
}
