/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines: the entry of a position is the number of positions with an entry up to it. For the first
 * 54 positions these numbers are in six words, nine of seven bits in each; behind them are blocks
 * of 512 positions: {number in front of the block; seven numbers of nine bits, in front of each
 * word; eight words with a bit for each position}. Source: iseq.c of Ruby 2.7 to 3.4.
 */
#include "agent-bpf/runtimes/ruby/ruby_function.h"
#include "base/utf8.h"

#define TABLE_NOW       54 /* positions in the first words */
#define TABLE_NOW_BYTES 48
#define BLOCK_POSITIONS 512
#define BLOCK_BYTES     80
#define ENTRIES_MAX     (1u << 24)
#define METHOD_TYPE     15 /* bits of a definition */
#define METHOD_ISEQ     0

enum { FUNCTION_ASK, FUNCTION_HEAD, FUNCTION_BODY, FUNCTION_TEXTS };
enum { METHOD_ASK, METHOD_HEAD, METHOD_VARIABLE, METHOD_DEFINITION, METHOD_NAMES };

void ruby_function_begin(struct ruby_function *function, const struct record_frame *frame)
{
    uint64_t iseq = frame->words[0] & RECORD_FRAME_MASK, method = frame->words[2];
    *function = (struct ruby_function){
        .frame = *frame, .is_c = !iseq, .step = RUBY_GOES_ON, .outcome = RUNTIME_FRAME_NAMED};
    function->method.value = method;
    function->method.step = ruby_is_object(method) ? RUBY_GOES_ON : RUBY_FAILED;
    if (iseq ? !ruby_is_object(iseq) : function->method.step == RUBY_FAILED)
        function->outcome = RUNTIME_FRAME_UNREADABLE;
}

/* ---- the method ---- */

static bool method_is_of(const struct ruby_function *function, const struct ruby_layout *layout)
{
    const uint64_t *definition = function->method.definition;
    return function->is_c || ((definition[0] & METHOD_TYPE) == METHOD_ISEQ &&
                              definition[1] == function->body[layout->body_local / 8]);
}

static enum ruby_step method_read(struct ruby_reads *reads, struct ruby_function *function,
                                  uint64_t address, uint64_t *out, unsigned next)
{
    if (!ruby_is_object(address))
        return RUBY_FAILED;
    ruby_reads_add(reads, address, out, RUBY_METHOD_BYTES, &function->method.error);
    function->method.at = next;
    return RUBY_GOES_ON;
}

/* A local environment has a method entry, or special variables with it. */
static enum ruby_step method_head(struct ruby_reads *reads, struct ruby_function *function)
{
    uint64_t *words = function->method.words;
    unsigned type = ruby_imemo_type(words[0]);
    if (type == RUBY_IMEMO_SVAR && function->method.at == METHOD_HEAD && !function->is_c)
        return method_read(reads, function, words[1], words, METHOD_VARIABLE);
    if (type != RUBY_IMEMO_METHOD)
        return RUBY_FAILED;
    return method_read(reads, function, words[2], function->method.definition, METHOD_DEFINITION);
}

static enum ruby_step method_names(struct ruby_reads *reads, struct ruby_function *function)
{
    enum ruby_step name = function->is_c ? ruby_name_step(reads, &function->name) : RUBY_DONE;
    enum ruby_step class = ruby_class_step(reads, &function->class);
    return name == RUBY_GOES_ON || class == RUBY_GOES_ON ? RUBY_GOES_ON : RUBY_DONE;
}

static enum ruby_step method_step(struct ruby_reads *reads, struct ruby_function *function)
{
    if (function->method.step != RUBY_GOES_ON)
        return function->method.step;
    if (function->method.at && function->method.at != METHOD_NAMES && function->method.error)
        return RUBY_FAILED;
    switch (function->method.at) {
    case METHOD_ASK:
        return method_read(reads, function, function->method.value, function->method.words,
                           METHOD_HEAD);
    case METHOD_HEAD:
    case METHOD_VARIABLE:
        return method_head(reads, function);
    case METHOD_DEFINITION:
        if (!method_is_of(function, reads->layout))
            return RUBY_FAILED;
        ruby_class_begin(&function->class, function->method.words[4]);
        if (function->is_c)
            ruby_name_begin(&function->name, function->method.definition[4]);
        function->method.at = METHOD_NAMES;
        return method_names(reads, function);
    default:
        return method_names(reads, function);
    }
}

/* ---- the sequence ---- */

static void body_read(struct ruby_reads *reads, struct ruby_function *function)
{
    ruby_reads_add(reads, function->head[RUBY_ISEQ_BODY / 8], function->body,
                   sizeof(function->body), &function->error);
}

static enum ruby_step texts_step(struct ruby_reads *reads, struct ruby_function *function)
{
    struct ruby_text *texts[] = {&function->label, &function->base, &function->path};
    enum ruby_step step = RUBY_DONE;
    for (size_t i = 0; i < 3; i++)
        if (ruby_text_step(reads, texts[i]) == RUBY_GOES_ON)
            step = RUBY_GOES_ON;
    return step;
}

static bool function_fail(struct ruby_function *function)
{
    function->outcome = RUNTIME_FRAME_UNREADABLE;
    function->step = RUBY_FAILED;
    return false;
}

static bool sequence_step(struct ruby_reads *reads, struct ruby_function *function)
{
    if (function->at && function->at != FUNCTION_TEXTS && function->error)
        return function_fail(function);
    switch (function->at++) {
    case FUNCTION_ASK:
        ruby_reads_add(reads, function->frame.words[0] & RECORD_FRAME_MASK, function->head,
                       sizeof(function->head), &function->error);
        return true;
    case FUNCTION_HEAD:
        if (ruby_imemo_type(function->head[0]) != RUBY_IMEMO_ISEQ ||
            !ruby_is_object(function->head[RUBY_ISEQ_BODY / 8]))
            return function_fail(function);
        body_read(reads, function);
        return true;
    case FUNCTION_BODY:
        ruby_text_begin(&function->label, function->body[RUBY_BODY_LABEL / 8]);
        ruby_text_begin(&function->base, function->body[RUBY_BODY_BASE / 8]);
        ruby_text_begin(&function->path, function->body[RUBY_BODY_PATH / 8]);
        break;
    default:
        break;
    }
    function->at = FUNCTION_TEXTS;
    enum ruby_step texts = texts_step(reads, function), method = method_step(reads, function);
    function->method.step = method;
    return texts == RUBY_GOES_ON || method == RUBY_GOES_ON;
}

bool ruby_function_step(struct ruby_reads *reads, struct ruby_function *function)
{
    bool goes_on;
    if (function->step != RUBY_GOES_ON || function->outcome != RUNTIME_FRAME_NAMED)
        return false;
    if (function->is_c) {
        function->method.step = method_step(reads, function);
        goes_on = function->method.step == RUBY_GOES_ON;
    } else {
        goes_on = sequence_step(reads, function);
    }
    if (!goes_on && function->step == RUBY_GOES_ON)
        function->step = RUBY_DONE;
    return goes_on;
}

/* ---- whether it is still the one of the tick ---- */

void ruby_function_again(struct ruby_reads *reads, struct ruby_function *function)
{
    if (function->outcome != RUNTIME_FRAME_NAMED)
        return;
    if (function->is_c) {
        ruby_reads_add(reads, function->method.value, function->method.words, RUBY_METHOD_BYTES,
                       &function->error);
        return;
    }
    ruby_reads_add(reads, function->frame.words[0] & RECORD_FRAME_MASK, function->head,
                   sizeof(function->head), &function->label_error);
    body_read(reads, function);
    ruby_reads_add(reads, function->body[RUBY_BODY_LABEL / 8], function->label_head,
                   sizeof(function->label_head), &function->label_error);
}

/* The label was read where the body said it was: that is a part of the identity. */
void ruby_function_verify(struct ruby_function *function)
{
    uint32_t identity = (uint32_t)(function->frame.words[1] >> 32);
    if (function->outcome != RUNTIME_FRAME_NAMED)
        return;
    if (function->error || function->label_error) {
        function->outcome = RUNTIME_FRAME_UNREADABLE;
        return;
    }
    uint32_t now = function->is_c ? ruby_method_identity(function->method.words)
                                  : ruby_identity(function->head[RUBY_ISEQ_BODY / 8],
                                                  function->body, function->label_head);
    bool has_name =
        function->is_c ? function->name.step == RUBY_DONE : function->label.step == RUBY_DONE;
    if (now != identity)
        function->outcome = RUNTIME_FRAME_STALE;
    else if (!has_name)
        function->outcome = RUNTIME_FRAME_UNREADABLE;
}

/* ---- its name ---- */

static struct bytes class_path(const struct ruby_reads *reads, const struct ruby_function *function)
{
    bool known = function->method.step == RUBY_DONE && function->class.step == RUBY_DONE;
    return known ? ruby_text_bytes(reads, &function->class.text) : BYTES(function, 0);
}

size_t ruby_function_text(const struct ruby_reads *reads, const struct ruby_function *function,
                          char *out)
{
    uint8_t joined[2 * RUBY_TEXT_MAX + 1];
    const struct ruby_text *text = function->is_c ? &function->name.text : &function->label;
    struct bytes label = ruby_text_bytes(reads, text);
    struct bytes base = function->is_c ? label : ruby_text_bytes(reads, &function->base);
    struct bytes path = class_path(reads, function);
    size_t before = label.len >= base.len ? label.len - base.len : 0, n = 0;
    bool ends = base.len && before + base.len == label.len &&
                !memcmp(label.data + before, base.data, base.len);
    if (!path.len || !ends)
        return bytes_sanitize(label, out, RUNTIME_NAME_MAX + 1);
    memcpy(joined, label.data, before);
    memcpy(joined + before, path.data, path.len);
    n = before + path.len;
    joined[n++] = function->class.of_singleton ? '.' : '#';
    memcpy(joined + n, base.data, base.len);
    return bytes_sanitize(BYTES(joined, n + base.len), out, RUNTIME_NAME_MAX + 1);
}

uint32_t ruby_function_first_line(const struct ruby_reads *reads,
                                  const struct ruby_function *function)
{
    uint64_t word = function->body[RUBY_BODY_LINE / 8];
    uint64_t line = reads->process->line_bytes == 4 ? (uint32_t)word : word >> 1;
    return !function->is_c && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* ---- a line ---- */

enum { LINE_ASK, LINE_BLOCK, LINE_ENTRY };

void ruby_line_begin(struct ruby_line *line, const struct record_frame *frame)
{
    uint32_t position = (uint32_t)frame->words[1];
    bool known = frame->words[0] & RECORD_FRAME_MASK && position != (uint32_t)RUBY_POSITION_NONE;
    *line = (struct ruby_line){.step = known ? RUBY_GOES_ON : RUBY_FAILED};
    line->position = position ? position - 1 : 0; /* it is behind what is executed */
}

static enum ruby_step line_read(struct ruby_reads *reads, struct ruby_line *line, uint64_t address,
                                void *out, size_t size, unsigned next)
{
    ruby_reads_add(reads, address, out, size, &line->error);
    line->at = next;
    return RUBY_GOES_ON;
}

static uint64_t line_rank(const struct ruby_line *line)
{
    uint32_t position = line->position;
    if (position < TABLE_NOW)
        return line->block[position / 9] >> 7 * (position % 9) & 0x7f;
    uint32_t bit = (position - TABLE_NOW) % BLOCK_POSITIONS, word = bit / 64;
    uint64_t before = word ? line->block[1] >> 9 * (word - 1) & 0x1ff : 0;
    uint64_t bits = line->block[2 + word] << (63 - bit % 64);
    return (uint32_t)line->block[0] + before + (uint64_t)__builtin_popcountll(bits);
}

static enum ruby_step line_block(struct ruby_reads *reads, const uint64_t *lines, uint64_t n,
                                 struct ruby_line *line)
{
    uint64_t table = lines[3];
    bool now = line->position < TABLE_NOW;
    if (n < 2)
        return n ? line_read(reads, line, lines[0], &line->line, 4, LINE_ENTRY) : RUBY_FAILED;
    if (now) /* a short table has fewer words */
        return line_read(reads, line, table + line->position / 9 * 8,
                         &line->block[line->position / 9], 8, LINE_BLOCK);
    uint64_t block = (line->position - TABLE_NOW) / BLOCK_POSITIONS;
    return line_read(reads, line, table + TABLE_NOW_BYTES + BLOCK_BYTES * block, line->block,
                     BLOCK_BYTES, LINE_BLOCK);
}

enum ruby_step ruby_line_step(struct ruby_reads *reads, const struct ruby_function *function,
                              struct ruby_line *line)
{
    const uint64_t *lines = &function->body[reads->layout->body_lines / 8];
    uint64_t n = (uint32_t)lines[2], rank;
    if (line->step != RUBY_GOES_ON)
        return line->step;
    if (function->step != RUBY_DONE || (line->at && line->error) || n > ENTRIES_MAX)
        return line->step = RUBY_FAILED;
    switch (line->at) {
    case LINE_ASK:
        return line->step = line_block(reads, lines, n, line);
    case LINE_BLOCK:
        rank = line_rank(line);
        if (!rank || rank > n)
            return line->step = RUBY_FAILED;
        return line->step =
                   line_read(reads, line, lines[0] + (rank - 1) * reads->layout->line_entry,
                             &line->line, 4, LINE_ENTRY);
    default:
        return line->step = line->line <= INT32_MAX ? RUBY_DONE : RUBY_FAILED;
    }
}
