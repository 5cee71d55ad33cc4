/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the parts of the library for Java share. Thread: any of the JVM. Nothing is thrown and
 * nothing is called in Java.
 */
#include <jni.h>
#include <stdbool.h>
#include <stdint.h>

/* A span, as spanprof_context_set() takes it. */
struct span_record {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    uint8_t flags;
    uint8_t set; /* 0: no span */
};

/* The calling thread now works on this span. */
void span_record_publish(const struct span_record *record);

/* Of Java's classes: see spanprof.otel.Native. */
void JNICALL native_set(JNIEnv *env, jclass class, jlong high, jlong low, jlong span, jbyte flags);
void JNICALL native_clear(JNIEnv *env, jclass class);

/* The cheap way for virtual threads. mounted: the class file of spanprof.boot.Mounted. 0, or an
 * error: then this way cannot be gone, and nothing has changed. */
int virtual_hooks_open(JNIEnv *env, jbyteArray mounted);

/* From now on the span in `mounted` goes where this virtual thread goes. Once a thread, on it. */
void virtual_hooks_take_along(JNIEnv *env, jobject thread, jobject mounted);

/* The other way: from now on mounts and unmounts of virtual threads are seen. 0, or an error: then
 * they are not, and nothing below may be called. */
int virtual_threads_watch(JNIEnv *env);

/* Of the virtual thread that is mounted here; NULL: it has none, or there is no memory. */
struct span_record *virtual_thread_record(bool make);
