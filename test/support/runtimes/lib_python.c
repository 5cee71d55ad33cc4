/* SPDX-License-Identifier: Apache-2.0 */
/* What a CPython is recognised by, with an evaluation function of which the compiler moves unlikely
 * parts away. */
#include <stdint.h>

uint64_t _PyRuntime[512];
const uint32_t Py_Version = 0x030b05f0;
int PyCode_Type[128];

__attribute__((cold, noinline)) long unlikely(long value);
long _PyEval_EvalFrameDefault(const long *code, long n);

long unlikely(long value)
{
    return value * 3;
}

long _PyEval_EvalFrameDefault(const long *code, long n)
{
    long result = 0;
    for (long i = 0; i < n; i++) {
        if (code[i] < 0) {
            for (long j = code[i]; j < 0; j++)
                result += unlikely(j) ^ unlikely(result);
            result ^= unlikely(code[i]);
        }
        result = result * 31 + code[i];
    }
    return result;
}
