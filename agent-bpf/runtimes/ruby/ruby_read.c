/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/ruby/ruby_read.h"
#include <errno.h>

void ruby_reads_run(struct ruby_reads *reads)
{
    if (reads->n && !reads->failed)
        reads->failed = reads->memory->read(reads->memory->context, reads->ranges, reads->n);
    for (size_t i = 0; i < reads->n; i++)
        *reads->errors[i] = reads->failed ? reads->failed : reads->ranges[i].error;
    reads->n = reads->bytes = 0;
}

void ruby_reads_add(struct ruby_reads *reads, uint64_t address, void *out, size_t size, int *error)
{
    if (reads->n == READER_RANGES_MAX || reads->bytes + size > READER_BYTES_MAX)
        ruby_reads_run(reads);
    *error = -EFAULT;
    reads->ranges[reads->n] =
        (struct reader_range){.address = address, .out = out, .size = (uint32_t)size};
    reads->errors[reads->n++] = error;
    reads->bytes += size;
}

/* ---- a text ---- */

enum { TEXT_ASK, TEXT_HEAD, TEXT_BODY };

void ruby_text_begin(struct ruby_text *text, uint64_t value)
{
    *text = (struct ruby_text){.step = ruby_is_object(value) ? RUBY_GOES_ON : RUBY_FAILED,
                               .value = value};
}

static enum ruby_step text_head(struct ruby_reads *reads, struct ruby_text *text)
{
    struct ruby_string *string = &text->string;
    if (text->error)
        return RUBY_FAILED;
    if (ruby_type(text->head[0]) == RUBY_T_ARRAY && !text->of_array) {
        if (ruby_array_element(text->head, text->value, 0) != text->value + 16)
            return RUBY_FAILED; /* one of two is embedded */
        ruby_text_begin(text, text->head[2]);
        text->of_array = true;
        return text->step;
    }
    if (!ruby_string_open(reads->layout, text->head, string))
        return RUBY_FAILED;
    string->length = string->length < RUBY_TEXT_MAX ? string->length : RUBY_TEXT_MAX;
    if (string->embedded && string->address + string->length <= RUBY_STRING_HEAD)
        return RUBY_DONE;
    uint64_t address = string->embedded ? text->value + string->address : string->address;
    text->body = arena_zalloc(reads->arena, (size_t)string->length + 1);
    if (!text->body)
        return RUBY_FAILED;
    ruby_reads_add(reads, address, text->body, (size_t)string->length, &text->error);
    text->at = TEXT_BODY;
    return RUBY_GOES_ON;
}

enum ruby_step ruby_text_step(struct ruby_reads *reads, struct ruby_text *text)
{
    if (text->step != RUBY_GOES_ON)
        return text->step;
    if (text->at == TEXT_HEAD)
        text->step = text_head(reads, text);
    else if (text->at == TEXT_BODY)
        text->step = text->error ? RUBY_FAILED : RUBY_DONE;
    if (text->step == RUBY_GOES_ON && text->at == TEXT_ASK) {
        ruby_reads_add(reads, text->value, text->head, sizeof(text->head), &text->error);
        text->at = TEXT_HEAD;
    }
    return text->step;
}

struct bytes ruby_text_bytes(const struct ruby_reads *reads, const struct ruby_text *text)
{
    (void)reads;
    if (text->step != RUBY_DONE)
        return BYTES(text->head, 0);
    const uint8_t *data =
        text->body ? text->body : (const uint8_t *)text->head + text->string.address;
    return BYTES(data, (size_t)text->string.length);
}

/* ---- the name of an identifier ---- */

enum { NAME_ASK, NAME_BLOCKS, NAME_BLOCK, NAME_ARRAY, NAME_VALUE, NAME_TEXT };

#define NAMES_A_BLOCK 512 /* each has two elements: name, symbol */

void ruby_name_begin(struct ruby_name *name, uint64_t id)
{
    *name = (struct ruby_name){.step = RUBY_GOES_ON, .number = ruby_identifier_number(id)};
}

static enum ruby_step name_read(struct ruby_reads *reads, struct ruby_name *name, uint64_t address,
                                void *out, size_t size)
{
    if (!ruby_is_object(address))
        return RUBY_FAILED;
    ruby_reads_add(reads, address, out, size, &name->error);
    name->at++;
    return RUBY_GOES_ON;
}

enum ruby_step ruby_name_step(struct ruby_reads *reads, struct ruby_name *name)
{
    uint64_t *words = name->words, number = name->number;
    if (name->step != RUBY_GOES_ON)
        return name->step;
    if (name->at && name->error)
        return name->step = RUBY_FAILED;
    switch (name->at) {
    case NAME_ASK:
        name->array = reads->process->symbols;
        return name->step = name_read(reads, name, name->array, words, RUBY_ARRAY_HEAD);
    case NAME_BLOCKS:
        name->element = ruby_array_element(words, name->array, number / NAMES_A_BLOCK);
        return name->step = name_read(reads, name, name->element, &name->array, 8);
    case NAME_BLOCK:
        return name->step = name_read(reads, name, name->array, words, RUBY_ARRAY_HEAD);
    case NAME_ARRAY:
        name->element = ruby_array_element(words, name->array, 2 * (number % NAMES_A_BLOCK));
        return name->step = name_read(reads, name, name->element, &name->element, 8);
    case NAME_VALUE:
        ruby_text_begin(&name->text, name->element);
        name->at++;
        break;
    default:
        break;
    }
    return name->step = ruby_text_step(reads, &name->text);
}

/* ---- the path of a class ---- */

enum { CLASS_ASK, CLASS_HEAD, CLASS_FIELDS, CLASS_TABLE, CLASS_ENTRIES, CLASS_TEXT };

void ruby_class_begin(struct ruby_class *class, uint64_t value)
{
    *class = (struct ruby_class){.step = ruby_is_object(value) ? RUBY_GOES_ON : RUBY_FAILED,
                                 .value = value};
}

static enum ruby_step class_read(struct ruby_reads *reads, struct ruby_class *class,
                                 uint64_t address, void *out, size_t size)
{
    if (!ruby_is_object(address))
        return RUBY_FAILED;
    ruby_reads_add(reads, address, out, size, &class->error);
    class->at++;
    return RUBY_GOES_ON;
}

/* From a singleton class to the class or module whose it is. Other objects have no path. */
static enum ruby_step class_attached(struct ruby_reads *reads, struct ruby_class *class,
                                     uint64_t attached)
{
    if (class->of_singleton || !ruby_is_object(attached))
        return RUBY_FAILED;
    ruby_class_begin(class, attached);
    class->of_singleton = true;
    return class_read(reads, class, class->value, class->words, sizeof(class->words));
}

static enum ruby_step class_text(struct ruby_reads *reads, struct ruby_class *class, uint64_t path)
{
    ruby_text_begin(&class->text, path);
    class->at = CLASS_TEXT;
    return ruby_text_step(reads, &class->text);
}

static enum ruby_step class_head(struct ruby_reads *reads, struct ruby_class *class)
{
    const struct ruby_layout *layout = reads->layout;
    const uint64_t *words = class->words;
    unsigned type = ruby_type(words[0]);
    if (type != RUBY_T_CLASS && type != RUBY_T_MODULE)
        return RUBY_FAILED;
    if (layout->class_variables)
        return class_read(reads, class, words[layout->class_fields / 8] + layout->class_variables,
                          &class->address, 8);
    if (!layout->class_path)
        return RUBY_FAILED;
    if (ruby_is_singleton(layout, words[0]))
        return class_attached(reads, class, words[layout->class_attached / 8]);
    return class_text(reads, class, words[layout->class_path / 8]);
}

static enum ruby_step class_variables(struct ruby_reads *reads, struct ruby_class *class)
{
    bool is_singleton = ruby_is_singleton(reads->layout, class->words[0]);
    uint64_t key = is_singleton ? reads->process->attached : reads->process->class_path;
    for (size_t i = 0; key && i < class->n; i++)
        if (class->entries[i][1] == key)
            return is_singleton ? class_attached(reads, class, class->entries[i][2])
                                : class_text(reads, class, class->entries[i][2]);
    return RUBY_FAILED;
}

enum ruby_step ruby_class_step(struct ruby_reads *reads, struct ruby_class *class)
{
    uint64_t table[RUBY_CLASS_BYTES / 8];
    if (class->step != RUBY_GOES_ON)
        return class->step;
    if (class->at && class->at != CLASS_TEXT && class->error)
        return class->step = RUBY_FAILED;
    switch (class->at) {
    case CLASS_ASK:
        return class->step =
                   class_read(reads, class, class->value, class->words, sizeof(class->words));
    case CLASS_HEAD:
        return class->step = class_head(reads, class);
    case CLASS_FIELDS:
        return class->step =
                   class_read(reads, class, class->address, class->entries, RUBY_TABLE_HEAD);
    case CLASS_TABLE:
        memcpy(table, class->entries, RUBY_TABLE_HEAD);
        class->n = table[5] < RUBY_VARIABLES_MAX ? (size_t)table[5] : RUBY_VARIABLES_MAX;
        return class->step =
                   class_read(reads, class, table[6], class->entries, class->n * RUBY_TABLE_ENTRY);
    case CLASS_ENTRIES:
        return class->step = class_variables(reads, class);
    default:
        return class->step = ruby_text_step(reads, &class->text);
    }
}
