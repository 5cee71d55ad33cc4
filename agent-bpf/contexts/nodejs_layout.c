/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is entered is read at each tick, so offsets are checked here: words of an object, and not
 * far from its start.
 */
#include "agent-bpf/contexts/nodejs_layout.h"
#include "context/context_layout.h"

#define SLOT_MIN 24 /* behind what every object of V8 begins with */
#define SLOT_MAX 248

static const struct {
    const char *key;
    int64_t fixed; /* the only value that it may have; 0 = others too */
} offsets[NODEJS_OFFSETS] = {
    [NODEJS_TAGGED_SIZE] = {OTEL_NODEJS_TAGGED_SIZE_KEY, OTEL_NODEJS_TAGGED_SIZE},
    [NODEJS_MAP_TABLE] = {OTEL_NODEJS_MAP_TABLE_KEY, OTEL_NODEJS_MAP_TABLE},
    [NODEJS_TABLE_HEADER] = {OTEL_NODEJS_TABLE_HEADER_KEY, OTEL_NODEJS_TABLE_HEADER},
    [NODEJS_RECORD] = {OTEL_NODEJS_RECORD_KEY, 0},
    [NODEJS_WRAPPED] = {OTEL_NODEJS_WRAPPED_KEY, 0},
    [NODEJS_NATIVE] = {OTEL_NODEJS_NATIVE_KEY, 0},
};

void nodejs_layout_put(struct nodejs_layout *layout, struct bytes key, const int64_t *number)
{
    for (unsigned i = 0; i < NODEJS_OFFSETS; i++) {
        if (!bytes_is(key, offsets[i].key))
            continue;
        layout->offsets[i].given = true;
        layout->offsets[i].usable = number != NULL;
        layout->offsets[i].value = number ? *number : 0;
    }
}

static bool offset_fits(const struct nodejs_layout *layout, enum nodejs_offset which)
{
    int64_t value = layout->offsets[which].value, fixed = offsets[which].fixed;
    if (!layout->offsets[which].given)
        return true;
    if (!layout->offsets[which].usable)
        return false;
    return fixed ? value == fixed : value >= 0 && value <= SLOT_MAX && value % 8 == 0;
}

int nodejs_layout_enter(const struct nodejs_layout *layout, struct context_variable *variable)
{
    bool record = layout->offsets[NODEJS_RECORD].given;
    bool wrapped = layout->offsets[NODEJS_WRAPPED].given;
    bool native = layout->offsets[NODEJS_NATIVE].given;
    for (enum nodejs_offset i = 0; i < NODEJS_OFFSETS; i++)
        if (!offset_fits(layout, i))
            return NODEJS_LAYOUT_UNSUPPORTED;
    if (wrapped != native || (record && wrapped))
        return NODEJS_LAYOUT_UNSUPPORTED;
    int64_t slot = layout->offsets[record ? NODEJS_RECORD : NODEJS_WRAPPED].value;
    if ((record || wrapped) && slot < SLOT_MIN)
        return NODEJS_LAYOUT_UNSUPPORTED;
    variable->nodejs_form = record    ? NODEJS_SLOT
                            : wrapped ? NODEJS_SLOT_OF_OWNER
                                      : NODEJS_SLOT_IN_VARIABLE;
    variable->nodejs_slot = (uint16_t)slot;
    variable->nodejs_owner = (uint16_t)layout->offsets[NODEJS_NATIVE].value;
    return 0;
}
