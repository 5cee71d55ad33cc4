/* SPDX-License-Identifier: Apache-2.0 */
/* A symbol's name, as long as symbols.h reads them. */
#include "agent-bpf/symbols/demangle.h"
#include "agent-bpf/symbols/symbols.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[SYMBOLS_NAME_MAX], out[129];
    size = size < sizeof(name) ? size : sizeof(name) - 1;
    memcpy(name, data, size);
    name[size] = 0;
    if (demangle(name, out, sizeof(out)))
        assert(*out && strlen(out) < sizeof(out));
    return 0;
}
