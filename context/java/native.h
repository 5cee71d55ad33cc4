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

/* From now on mounts and unmounts of virtual threads are seen. 0, or an error: then they are not,
 * and nothing else of this file may be called. */
int virtual_threads_watch(JNIEnv *env);

/* Of the virtual thread that is mounted here; NULL: it has none, or there is no memory. */
struct span_record *virtual_thread_record(bool make);
