/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/contexts/refusal.h"
#include <stdbool.h>
#include <string.h>

static enum publisher_state refusal_named(struct bytes word)
{
    static const enum publisher_state refusals[] = {PUBLISHER_NO_LIBRARY, PUBLISHER_VERSION,
                                                    PUBLISHER_TAKEN, PUBLISHER_FAILED};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (bytes_is(word, publisher_state_names[refusals[i]]))
            return refusals[i];
    return PUBLISHER_NONE;
}

enum publisher_state refusal_find(struct bytes maps)
{
    static const char name[] = PUBLISHER_REFUSAL;
    const uint8_t *end = maps.data + maps.len, *at = maps.data;
    while (maps.len && (at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1))) {
        bool begins =
            at > maps.data && (at[-1] == '/' || at[-1] == ':'); /* /memfd:NAME (deleted) */
        const uint8_t *word = at += sizeof(name) - 1;
        if (!begins)
            continue;
        while (at < end && *at != '\n' && *at != ' ')
            at++;
        enum publisher_state refusal = refusal_named(BYTES(word, (size_t)(at - word)));
        if (refusal != PUBLISHER_NONE)
            return refusal;
    }
    return PUBLISHER_NONE;
}
