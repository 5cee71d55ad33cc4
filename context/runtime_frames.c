/* SPDX-License-Identifier: Apache-2.0 */
#include "context/runtime_frames.h"

#define STATE_ROW(symbol, id, text) [RUNTIME_FRAMES_##symbol] = #id,
const char *const runtime_frames_state_names[RUNTIME_FRAMES_STATES] = {
    RUNTIME_FRAMES_STATE_ROWS(STATE_ROW)};

#define TEXT_ROW(symbol, id, text) [RUNTIME_FRAMES_##symbol] = text,
const char *const runtime_frames_state_texts[RUNTIME_FRAMES_STATES] = {
    RUNTIME_FRAMES_STATE_ROWS(TEXT_ROW)};

#define SENTENCE_ROW(symbol, text, sentence) [RUNTIME_REFUSAL_##symbol] = sentence,
const char *const runtime_refusal_sentences[RUNTIME_REFUSALS] = {
    RUNTIME_REFUSAL_ROWS(SENTENCE_ROW)};

#define ENGINE_ROW(symbol, name, type, line, where) [RUNTIME_##symbol] = {name, type, line, where},
static const struct runtime_engine engines[RUNTIMES] = {RUNTIME_ENGINE_ROWS(ENGINE_ROW)};

const struct runtime_engine *runtime_engine(unsigned runtime)
{
    static const struct runtime_engine none = {"", "", "", ""};
    return runtime < RUNTIMES && engines[runtime].name ? &engines[runtime] : &none;
}
