/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtual thread runs on one carrier thread after another, each of which has its own thread
 * context. Its span lies in an object of spanprof.boot.Mounted, which stands in the thread's field
 * runContinuation before what was there. java.lang.VirtualThread is changed once, so that its
 * methods mount() and unmount() begin with calls of that class (class_patch.c):
 *
 *   mount     on the carrier: publish the thread's span if it has one
 *   unmount   on the carrier: clear if it has one
 *
 * A thread that never had a span costs a look into the field. JVMTI's own events of this kind
 * (virtual_threads.c) cost some six times as much: with the capability that they need, the JVM
 * takes a slow path at each mount and unmount, of every virtual thread.
 *
 * The class file is seen for as long as the JVM lives: who changes the class later begins with the
 * file as it was.
 */
#include "context/java/class_patch.h"
#include "context/java/native.h"
#include <assert.h>
#include <jvmti.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_21     0x30150000
#define VIRTUAL_THREAD "java/lang/VirtualThread"
#define MOUNTED        "spanprof/boot/Mounted"
#define RUNNABLE       "Ljava/lang/Runnable;"

static jvmtiEnv *jvmti;           /* set once, before the first event */
static atomic_bool is_patched;    /* as the JVM got it last */
static jfieldID run_continuation; /* of a virtual thread */
static jfieldID continuation;     /* of Mounted */

/* ---- the class file ---- */

static void patch(jint size, const unsigned char *file, jint *new_size, unsigned char **new_file)
{
    static const struct class_patch wanted = {
        .field = "runContinuation",
        .field_type = RUNNABLE,
        .hooks = MOUNTED,
        .methods = {{"mount", "mounting"}, {"unmount", "unmounting"}}};
    size_t patched_size;
    uint8_t *patched = class_patch(&wanted, file, (size_t)size, &patched_size);
    atomic_store(&is_patched, false);
    if (patched && !(*jvmti)->Allocate(jvmti, (jlong)patched_size, new_file)) {
        memcpy(*new_file, patched, patched_size);
        *new_size = (jint)patched_size;
        atomic_store(&is_patched, true);
    }
    free(patched);
}

static void JNICALL on_class_file(jvmtiEnv *env, JNIEnv *jni, jclass class, jobject loader,
                                  const char *name, jobject domain, jint size,
                                  const unsigned char *file, jint *new_size,
                                  unsigned char **new_file)
{
    (void)env, (void)jni, (void)class, (void)domain;
    if (!loader && name && !strcmp(name, VIRTUAL_THREAD))
        patch(size, file, new_size, new_file);
}

/* ---- turning them on ---- */

/* The JVM does not run Java's code while an exception is pending. */
static bool failed(JNIEnv *env)
{
    bool is_pending = (*env)->ExceptionCheck(env);
    if (is_pending)
        (*env)->ExceptionClear(env);
    return is_pending;
}

/* In the boot loader; NULL: it cannot be there. */
static jclass define_mounted(JNIEnv *env, jbyteArray file)
{
    static const JNINativeMethod methods[] = {{"set", "(JJJB)V", native_set},
                                              {"clear", "()V", native_clear}};
    jsize size = (*env)->GetArrayLength(env, file);
    jbyte *bytes = (*env)->GetByteArrayElements(env, file, NULL);
    if (!bytes)
        return NULL;
    jclass class = (*env)->DefineClass(env, MOUNTED, NULL, bytes, size);
    (*env)->ReleaseByteArrayElements(env, file, bytes, JNI_ABORT);
    if (!class)
        return NULL;
    /* Initializes the class, too. */
    if ((*env)->RegisterNatives(env, class, methods, sizeof(methods) / sizeof(methods[0])) ||
        !(*env)->GetStaticMethodID(env, class, "mounting", "(" RUNNABLE ")V"))
        return NULL;
    continuation = (*env)->GetFieldID(env, class, "continuation", RUNNABLE);
    return continuation ? class : NULL;
}

static jvmtiError environment_open(JNIEnv *env)
{
    JavaVM *vm;
    void *found;
    jvmtiCapabilities wanted;
    const jvmtiEventCallbacks callbacks = {.ClassFileLoadHook = on_class_file};
    if ((*env)->GetJavaVM(env, &vm) || (*vm)->GetEnv(vm, &found, VERSION_21))
        return JVMTI_ERROR_UNSUPPORTED_VERSION;
    jvmti = found;
    memset(&wanted, 0, sizeof(wanted));
    wanted.can_retransform_classes = 1;
    jvmtiError error = (*jvmti)->AddCapabilities(jvmti, &wanted);
    if (!error)
        error = (*jvmti)->SetEventCallbacks(jvmti, &callbacks, (jint)sizeof(callbacks));
    return error ? error
                 : (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE,
                                                      JVMTI_EVENT_CLASS_FILE_LOAD_HOOK, NULL);
}

static jvmtiError retransform(JNIEnv *env, jclass class, jclass mounted)
{
    jobject module = (*env)->GetModule(env, class), boot = (*env)->GetModule(env, mounted);
    if (!module || !boot)
        return JVMTI_ERROR_INVALID_MODULE;
    jvmtiError error = (*jvmti)->AddModuleReads(jvmti, module, boot);
    if (!error)
        error = (*jvmti)->RetransformClasses(jvmti, 1, &class);
    return !error && !atomic_load(&is_patched) ? JVMTI_ERROR_INVALID_CLASS_FORMAT : error;
}

/* Pending exceptions are the caller's. */
static jvmtiError hooks_open(JNIEnv *env, jbyteArray file)
{
    jclass class = (*env)->FindClass(env, VIRTUAL_THREAD);
    if (!class)
        return JVMTI_ERROR_INVALID_CLASS;
    run_continuation = (*env)->GetFieldID(env, class, "runContinuation", RUNNABLE);
    jclass mounted = run_continuation ? define_mounted(env, file) : NULL;
    if (!mounted)
        return JVMTI_ERROR_INVALID_CLASS;
    jvmtiError error = environment_open(env);
    return error ? error : retransform(env, class, mounted);
}

int virtual_hooks_open(JNIEnv *env, jbyteArray mounted)
{
    jvmtiError error = hooks_open(env, mounted);
    if (failed(env) && !error)
        error = JVMTI_ERROR_INTERNAL;
    if (error && jvmti) {
        (*jvmti)->DisposeEnvironment(jvmti);
        jvmti = NULL;
    }
    return (int)error;
}

void virtual_hooks_take_along(JNIEnv *env, jobject thread, jobject mounted)
{
    assert(run_continuation && continuation);
    jobject inner = (*env)->GetObjectField(env, thread, run_continuation);
    (*env)->SetObjectField(env, mounted, continuation, inner);
    (*env)->SetObjectField(env, thread, run_continuation, mounted);
    (*env)->DeleteLocalRef(env, inner);
}
