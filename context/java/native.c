/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What spanprof.otel.Native declares: writes the span that OpenTelemetry's API has as the current
 * one of a Java thread to the thread's context (spanprof_context.h).
 *
 * A virtual thread takes its span along from carrier to carrier (virtual_hooks.c, or where that
 * fails virtual_threads.c).
 */
#include "context/java/native.h"
#include "context/spanprof_context.h"
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void span_record_publish(const struct span_record *record)
{
    (void)spanprof_context_set(record->trace_id, record->span_id, record->flags);
}

/* Ids are bytes in network order; in Java they are numbers. */
static void put_word(uint8_t *at, jlong number)
{
    uint64_t word = htobe64((uint64_t)number);
    memcpy(at, &word, sizeof(word));
}

static jlong word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return (jlong)be64toh(word);
}

static void record_make(struct span_record *record, jlong high, jlong low, jlong span, jbyte flags)
{
    put_word(record->trace_id, high);
    put_word(record->trace_id + 8, low);
    put_word(record->span_id, span);
    record->flags = (uint8_t)flags;
    record->set = 1;
}

/* ---- the thread ---- */

void JNICALL native_set(JNIEnv *env, jclass class, jlong high, jlong low, jlong span, jbyte flags)
{
    struct span_record record;
    (void)env, (void)class;
    record_make(&record, high, low, span, flags);
    span_record_publish(&record);
}

void JNICALL native_clear(JNIEnv *env, jclass class)
{
    (void)env, (void)class;
    (void)spanprof_context_clear();
}

static void JNICALL native_set_virtual(JNIEnv *env, jclass class, jlong high, jlong low, jlong span,
                                       jbyte flags)
{
    (void)env, (void)class;
    struct span_record *record = virtual_thread_record(true);
    if (!record) { /* it could not be taken along */
        (void)spanprof_context_clear();
        return;
    }
    record_make(record, high, low, span, flags);
    span_record_publish(record);
}

static void JNICALL native_clear_virtual(JNIEnv *env, jclass class)
{
    (void)env, (void)class;
    struct span_record *record = virtual_thread_record(false);
    if (record)
        record->set = 0;
    (void)spanprof_context_clear();
}

static void JNICALL native_current(JNIEnv *env, jclass class, jlongArray ids)
{
    struct spanprof_context context;
    (void)class;
    spanprof_context_get(&context);
    const jlong words[] = {word_at(context.trace_id), word_at(context.trace_id + 8),
                           word_at(context.span_id), context.trace_flags};
    (*env)->SetLongArrayRegion(env, ids, 0, sizeof(words) / sizeof(words[0]), words);
}

static jint JNICALL native_watch_virtual_threads(JNIEnv *env, jclass class)
{
    (void)class;
    return virtual_threads_watch(env);
}

static jint JNICALL native_hook_virtual_threads(JNIEnv *env, jclass class, jbyteArray mounted)
{
    (void)class;
    return virtual_hooks_open(env, mounted);
}

static void JNICALL native_take_along(JNIEnv *env, jclass class, jobject thread, jobject mounted)
{
    (void)class;
    virtual_hooks_take_along(env, thread, mounted);
}

/* ---- the process ---- */

struct texts {
    size_t n;
    char *text[2 * SPANPROF_RESOURCE_ATTRIBUTES_MAX];
};

static void texts_free(struct texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        free(texts->text[i]);
}

/* A copy that ends with a NUL, also if Java's array should not. */
static char *text_copy(JNIEnv *env, jbyteArray array)
{
    jsize length = array ? (*env)->GetArrayLength(env, array) : 0;
    char *text = malloc((size_t)length + 1);
    if (!text)
        return NULL;
    if (length)
        (*env)->GetByteArrayRegion(env, array, 0, length, (jbyte *)text);
    text[length] = '\0';
    return text;
}

static int texts_copy(JNIEnv *env, jobjectArray arrays, struct texts *texts)
{
    jsize n = (*env)->GetArrayLength(env, arrays);
    for (jsize i = 0; i < n && texts->n < sizeof(texts->text) / sizeof(texts->text[0]); i++) {
        jobject array = (*env)->GetObjectArrayElement(env, arrays, i);
        char *text = text_copy(env, array);
        (*env)->DeleteLocalRef(env, array);
        if (!text)
            return -ENOMEM;
        texts->text[texts->n++] = text;
    }
    return 0;
}

static jint JNICALL native_publish(JNIEnv *env, jclass class, jobjectArray arrays)
{
    struct spanprof_attribute attributes[SPANPROF_RESOURCE_ATTRIBUTES_MAX];
    __attribute__((cleanup(texts_free))) struct texts texts = {.n = 0};
    (void)class;
    int error = texts_copy(env, arrays, &texts);
    if (error)
        return error;
    for (size_t i = 0; i < texts.n / 2; i++)
        attributes[i] = (struct spanprof_attribute){texts.text[2 * i], texts.text[2 * i + 1]};
    return spanprof_context_publish(attributes, texts.n / 2);
}

/* ---- the library ---- */

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved)
{
    static const JNINativeMethod methods[] = {
        {"publish", "([[B)I", native_publish},
        {"set", "(JJJB)V", native_set},
        {"clear", "()V", native_clear},
        {"hookVirtualThreads", "([B)I", native_hook_virtual_threads},
        {"takeAlong", "(Ljava/lang/Thread;Ljava/lang/Object;)V", native_take_along},
        {"watchVirtualThreads", "()I", native_watch_virtual_threads},
        {"setVirtual", "(JJJB)V", native_set_virtual},
        {"clearVirtual", "()V", native_clear_virtual},
        {"current", "([J)V", native_current}};
    void *env;
    (void)reserved;
    if ((*vm)->GetEnv(vm, &env, JNI_VERSION_1_6))
        return JNI_ERR;
    JNIEnv *jni = env;
    jclass class = (*jni)->FindClass(jni, "spanprof/otel/Native");
    if (!class ||
        (*jni)->RegisterNatives(jni, class, methods, sizeof(methods) / sizeof(methods[0])))
        return JNI_ERR;
    return JNI_VERSION_1_6;
}
