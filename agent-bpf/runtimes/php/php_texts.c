/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/php/php_texts.h"
#include <errno.h>
#include <stdlib.h>

#define TYPE_AT     4 /* in a zend_string */
#define TYPE_MASK   0xf
#define TYPE_STRING 6
#define HASH_AT     8
#define LENGTH_AT   16
#define HEADER      24 /* its characters follow */
#define FIRST_READ  128
#define PAGE        4096
#define HASH_SEED   5381
#define HASH_TOP    (UINT64_C(1) << 63) /* is always set, so that no hash is 0 */

int php_texts_open(struct php_texts *texts, struct runtime_memory *memory, struct arena *arena)
{
    *texts = (struct php_texts){.memory = memory, .arena = arena};
    texts->of = arena_alloc(arena, PHP_TEXTS_MAX * sizeof(*texts->of));
    return texts->of ? 0 : -ENOMEM;
}

void php_texts_want(struct php_texts *texts, uint64_t address)
{
    if (address && texts->n < PHP_TEXTS_MAX)
        texts->of[texts->n++] = (struct php_text){.address = address};
}

static int compare(const void *a, const void *b)
{
    const struct php_text *one = a, *other = b;
    return (one->address > other->address) - (one->address < other->address);
}

static void texts_sort(struct php_texts *texts)
{
    size_t n = 0;
    qsort(texts->of, texts->n, sizeof(*texts->of), compare);
    for (size_t i = 0; i < texts->n; i++)
        if (!i || texts->of[i].address != texts->of[n - 1].address)
            texts->of[n++] = texts->of[i];
    texts->n = n;
}

/* To the end of the page, where reading fails only if there is nothing. */
static size_t first_size(uint64_t address)
{
    size_t size = PAGE - address % PAGE;
    return size > FIRST_READ ? FIRST_READ : size < HEADER ? HEADER : size;
}

/* Makes it the next range of a request. False: there is no room left in this one. */
static bool range_add(struct php_texts *texts, struct php_text *text, struct reader_range *range,
                      size_t *bytes)
{
    if (*bytes + text->size > READER_BYTES_MAX)
        return false;
    text->data = *bytes + text->size > texts->memory->bytes_left
                     ? NULL
                     : arena_alloc(texts->arena, text->size);
    if (!text->data) {
        text->error = -E2BIG;
        text->size = 0;
    }
    *range = (struct reader_range){
        .address = text->address, .out = text->data, .size = (uint32_t)text->size};
    *bytes += text->size;
    return true;
}

/* Those that are not done, from *next on, in one request. */
static int texts_request(struct php_texts *texts, size_t *next)
{
    struct reader_range ranges[READER_RANGES_MAX];
    struct php_text *of[READER_RANGES_MAX];
    size_t n = 0, bytes = 0;
    for (; *next < texts->n && n < READER_RANGES_MAX; ++*next) {
        struct php_text *text = &texts->of[*next];
        if (text->is_done)
            continue;
        if (!range_add(texts, text, &ranges[n], &bytes))
            break;
        if (!text->error)
            of[n++] = text;
        else
            text->is_done = true;
    }
    int error = n ? texts->memory->read(texts->memory->context, ranges, n) : 0;
    for (size_t i = 0; !error && i < n; i++)
        of[i]->error = ranges[i].error;
    return error;
}

/* As PHP hashes characters. */
static uint64_t hash_of(struct bytes bytes)
{
    uint64_t hash = HASH_SEED;
    for (size_t i = 0; i < bytes.len; i++)
        hash = hash * 33 + bytes.data[i];
    return hash | HASH_TOP;
}

static bool text_is_whole(struct php_text *text)
{
    uint32_t type;
    memcpy(&type, text->data + TYPE_AT, sizeof(type));
    memcpy(&text->hash, text->data + HASH_AT, sizeof(text->hash));
    memcpy(&text->length, text->data + LENGTH_AT, sizeof(text->length));
    if ((type & TYPE_MASK) != TYPE_STRING || text->length > PHP_TEXT_BYTES) {
        text->error = -EINVAL;
        return true;
    }
    if (HEADER + text->length > text->size) {
        text->size = HEADER + (size_t)text->length;
        return false;
    }
    text->bytes = BYTES(text->data + HEADER, (size_t)text->length);
    if (text->hash && text->hash != hash_of(text->bytes))
        text->error = -EINVAL;
    return true;
}

int php_texts_read(struct php_texts *texts)
{
    int error = 0;
    texts_sort(texts);
    for (size_t i = 0; i < texts->n; i++)
        texts->of[i].size = first_size(texts->of[i].address);
    for (int round = 0; !error && round < 2; round++) {
        for (size_t next = 0; !error && next < texts->n;)
            error = texts_request(texts, &next);
        for (size_t i = 0; !error && i < texts->n; i++) {
            struct php_text *text = &texts->of[i];
            if (!text->is_done)
                text->is_done = text->error || text_is_whole(text);
        }
    }
    for (size_t i = 0; i < texts->n; i++) /* another string was in its place meanwhile */
        if (!texts->of[i].is_done)
            texts->of[i].error = -EINVAL;
    return error;
}

const struct php_text *php_texts_find(const struct php_texts *texts, uint64_t address)
{
    const struct php_text key = {.address = address};
    return texts->n ? bsearch(&key, texts->of, texts->n, sizeof(key), compare) : NULL;
}
