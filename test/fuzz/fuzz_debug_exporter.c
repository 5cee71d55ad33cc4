/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of a stranger as the debug exporter shows it. The first byte chooses signal (bits 0 and
 * 2) and verbosity (bit 1). What is written is bounded, and printable line by line.
 */
#include "exporter/debug/debug_exporter.h"
#include "exporter/debug/debug_text.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (!size)
        return 0;
    enum signal signal = (data[0] & 1) | (data[0] & 4) >> 1;
    enum config_verbosity verbosity = data[0] & 2 ? VERBOSITY_DETAILED : VERBOSITY_NORMAL;
    if (debug_exporter_text(verbosity, signal, BYTES(data + 1, size - 1), &out) ||
        out.len > DEBUG_TEXT_MAX + 64)
        abort();
    for (size_t i = 0; i < out.len; i++)
        if (out.data[i] < ' ' && out.data[i] != '\n')
            abort();
    return 0;
}
