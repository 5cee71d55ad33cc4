/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever comes between the symbolizer and the reader, which do not trust each other: decoded,
 * said again it is the same. */
#include "agent-bpf/reader_messages.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct reader_message message;
    arena_init(&arena, 64 * 1024);
    if (!reader_message_decode(BYTES(data, size), &arena, &message)) {
        _cleanup_buf_ struct buf again = BUF_INIT(READER_MESSAGE_MAX);
        assert(!reader_message_encode(&message, &again));
        assert(bytes_equal(buf_bytes(&again), BYTES(data, size)));
    }
    arena_close(&arena);
    return 0;
}
