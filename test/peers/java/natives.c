/* SPDX-License-Identifier: Apache-2.0 */
/* The library of Natives.java, to be built without unwind tables: its frame pointer is a number. */
#include <jni.h>
#include <stdint.h>

JNIEXPORT jlong JNICALL Java_Natives_work(JNIEnv *env, jclass class, jint turns, jint kind);

/* kind: what is in the frame pointer: 0; no address of a frame; one far up the stack. */
static __attribute__((noinline)) int64_t inner(int32_t turns, int32_t kind)
{
    char here[16];
    int64_t sum = 0;
    uint64_t far = ((uint64_t)(uintptr_t)here & ~UINT64_C(15)) + 1024;
    register uint64_t pointer __asm__("rbp") = kind == 0 ? 0 : kind == 1 ? 12345 : far;
    for (int32_t i = 0; i < turns; i++) {
        __asm__ volatile("" : "+r"(pointer), "+r"(sum));
        sum += (int64_t)(sum >> 3 ^ i);
    }
    return sum + (int64_t)(pointer & 1);
}

jlong Java_Natives_work(JNIEnv *env, jclass class, jint turns, jint kind)
{
    (void)env;
    (void)class;
    return inner(turns, kind) + 1;
}
