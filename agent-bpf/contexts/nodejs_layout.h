/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a Node.js process says of the layout of its contexts, in attributes of its process context.
 * The draft of the schema has none of them: the layout of V8 is fixed, and the thread's variable
 * names the one offset that differs (context/context_layout.h). Writers from before name the
 * others, and what they name must be what the schema fixed later. Symbolizer only; pure. Writers
 * known: @datadog/pprof 5.17 and 5.18 (an owner), 5.19 (a slot), 5.20 (none). 5.16 names an owner
 * but not where the owner has the record: unsupported.
 */
#include "agent-bpf/record.h"
#include "base/bytes.h"

enum nodejs_offset {
    NODEJS_TAGGED_SIZE,
    NODEJS_MAP_TABLE,
    NODEJS_TABLE_HEADER,
    NODEJS_RECORD,
    NODEJS_WRAPPED,
    NODEJS_NATIVE,
    NODEJS_OFFSETS
};

struct nodejs_layout { /* zeroes: nothing is said */
    struct {
        bool given;
        bool usable; /* an integer */
        int64_t value;
    } offsets[NODEJS_OFFSETS];
};

enum { NODEJS_LAYOUT_UNSUPPORTED = 1 };

/* Takes an attribute if it is one of the layout's. number: NULL = its value is no integer. */
void nodejs_layout_put(struct nodejs_layout *layout, struct bytes key, const int64_t *number);

/* Fills nodejs_form, nodejs_slot and nodejs_owner. 0 or NODEJS_LAYOUT_UNSUPPORTED. */
int nodejs_layout_enter(const struct nodejs_layout *layout, struct context_variable *variable);
