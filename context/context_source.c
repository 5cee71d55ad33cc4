/* SPDX-License-Identifier: Apache-2.0 */
#include "context/context_source.h"
#include <stddef.h>

_Static_assert(CONTEXT_SOURCES <= 8, "masks of sources are kept in bytes");
#define NUMBER_ROW(symbol, id, number, key, form, flags, help)                                     \
    _Static_assert((number) < CONTEXT_SOURCES, "the numbers have no gap");
CONTEXT_SOURCE_ROWS(NUMBER_ROW)

#define NAME_ROW(symbol, id, number, key, form, flags, help) [CONTEXT_##symbol] = #id,
const char *const context_source_names[CONTEXT_SOURCES] = {[CONTEXT_NONE] = "none",
                                                           CONTEXT_SOURCE_ROWS(NAME_ROW)};

#define FORM_ROW(symbol, id, number, key, form, flags, help) [CONTEXT_##symbol] = form,
static const enum context_form forms[CONTEXT_SOURCES] = {CONTEXT_SOURCE_ROWS(FORM_ROW)};

#define FLAGS_ROW(symbol, id, number, key, form, flags, help) [CONTEXT_##symbol] = flags,
static const bool has_flags[CONTEXT_SOURCES] = {CONTEXT_SOURCE_ROWS(FLAGS_ROW)};

const char *context_source_name(unsigned source)
{
    return source != CONTEXT_NONE && source < CONTEXT_SOURCES ? context_source_names[source] : NULL;
}

enum context_form context_source_form(unsigned source)
{
    return source < CONTEXT_SOURCES ? forms[source] : CONTEXT_FORM_NONE;
}

bool context_source_has_flags(unsigned source)
{
    return source < CONTEXT_SOURCES && has_flags[source];
}
