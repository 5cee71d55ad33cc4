/* SPDX-License-Identifier: Apache-2.0 */
#include "context/publisher_state.h"

#define STATE_ROW(symbol, id) [PUBLISHER_##symbol] = #id,
const char *const publisher_state_names[PUBLISHER_STATES] = {PUBLISHER_STATE_ROWS(STATE_ROW)};

#define REASON_ROW(symbol, name, sentence) [CONTEXT_UNREADABLE_##symbol] = #name,
const char *const context_unreadable_names[CONTEXT_UNREADABLES] = {
    CONTEXT_UNREADABLE_ROWS(REASON_ROW)};
