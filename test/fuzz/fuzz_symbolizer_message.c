/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the symbolizer sends: decoded, said again it is the same, and the process table stands
 * it.
 */
#include "agent-bpf/process/symbolizer_client.h"
#include "agent-bpf/process/process.h"
#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void say_again(const struct symbolizer_message *message, struct bytes datagram)
{
    _cleanup_buf_ struct buf again = BUF_INIT(SYMBOLIZER_MESSAGE_MAX);
    assert(!symbolizer_message_encode(message, &again));
    assert(bytes_equal(buf_bytes(&again), datagram));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct symbolizer_queue queue;
    static struct process_table *table;
    static unsigned runs;
    if (table && ++runs % 1000 == 0) {
        process_table_close(table);
        table = NULL;
    }
    if (!table) {
        symbolizer_queue_init(&queue); /* empty: taken in each run */
        if (process_table_open(&queue, &table))
            abort();
    }
    struct arena arena;
    struct symbolizer_message message;
    arena_init(&arena, 256 * 1024);
    if (!symbolizer_message_decode(BYTES(data, size), &arena, &message))
        say_again(&message, BYTES(data, size));
    arena_close(&arena);
    struct symbolizer_answer *answer;
    if (!symbolizer_answer_make(BYTES(data, size), &answer)) {
        process_table_answer(table, &answer->message);
        if (answer->message.kind == SYMBOLIZER_EVENT)
            process_table_apply(table, &answer->message.event);
        symbolizer_answer_free(answer);
    }
    struct process_place place;
    struct process_details details;
    process_table_sampled(table, 10, 1, 1000);
    process_table_resolve(table, 10, 1000, 0x1000, &place);
    if (!process_table_details(table, 10, 1000, &details))
        assert(details.runtime < RUNTIMES && details.publisher < PUBLISHER_STATES &&
               details.unreadable < CONTEXT_UNREADABLES);
    struct list requests = LIST_INIT(requests);
    process_table_request_changed(table);
    symbolizer_queue_take(&queue, &requests);
    symbolizer_requests_free(&requests);
    process_table_expire(table, 1000 + runs * UINT64_C(1000000));
    return 0;
}
