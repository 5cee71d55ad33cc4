/* SPDX-License-Identifier: Apache-2.0 */
#include "context/runtime.h"

_Static_assert(RUNTIMES <= 16, "masks of runtimes are kept in 16 bits");

#define TEXTS_ROW(symbol, id, exports, line, where, by_hand, variable, mark)                       \
    [RUNTIME_##symbol] = {#id, exports, line, where, by_hand, variable, mark},
static const struct runtime_row rows[RUNTIMES] = {[RUNTIME_UNKNOWN] = {"", "", "", "", "", "", ""},
                                                  RUNTIME_ROWS(TEXTS_ROW)};

const struct runtime_row *runtime_row(unsigned runtime)
{
    return &rows[runtime < RUNTIMES ? runtime : RUNTIME_UNKNOWN];
}
