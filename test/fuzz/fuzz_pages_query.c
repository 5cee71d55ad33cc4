/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters as they come in an address: two bytes of what the route takes, then NAME=VALUE a line.
 * And the same bytes as Host and Authorization headers.
 */
#include "exporter/pages/pages_access.h"
#include "exporter/pages/pages_query.h"
#include <stdlib.h>

#define NOW UINT64_C(1795284000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct bytes text)
{
    if (!bytes_utf8_valid(text) || (text.len && memchr(text.data, 0, text.len)))
        abort();
}

static void check(const struct history_filter *filter)
{
    if (filter->n_attributes > HISTORY_ATTRIBUTES_MAX)
        abort();
    for (size_t i = 0; i < filter->n_attributes; i++)
        check_text(filter->attributes[i].value);
    check_text(filter->service);
    check_text(filter->span_name);
    check_text(filter->function);
    if (filter->to_unix_ns && filter->from_unix_ns >= filter->to_unix_ns)
        abort();
}

static size_t split(const uint8_t *at, size_t size, struct pages_parameter *parameters, size_t max)
{
    size_t n = 0;
    const uint8_t *end = at + size;
    while (at < end && n < max) {
        const uint8_t *line = memchr(at, '\n', (size_t)(end - at));
        line = line ? line : end;
        const uint8_t *equals = memchr(at, '=', (size_t)(line - at));
        equals = equals ? equals : line;
        const uint8_t *value = equals < line ? equals + 1 : line;
        parameters[n++] = (struct pages_parameter){BYTES(at, (size_t)(equals - at)),
                                                   BYTES(value, (size_t)(line - value))};
        at = line < end ? line + 1 : end;
    }
    return n;
}

static void try_door(const uint8_t *data, size_t size)
{
    static struct config_pages config = {.endpoint = {.host = "node1.example"}};
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    pages_access_knows_host(&config, text);
    if (pages_access_has_token("0123456789abcdef", text) && strlen(text) != 7 + 16)
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pages_parameter parameters[PAGES_PARAMETERS_MAX + 2];
    struct pages_query query;
    struct arena arena;
    char problem[256] = "";
    if (size < 2)
        return 0;
    try_door(data + 2, size - 2);
    arena_init(&arena, 1 << 20);
    size_t n = split(data + 2, size - 2, parameters, PAGES_PARAMETERS_MAX + 2);
    int outcome = pages_query_read(parameters, n, (unsigned)(data[0] | data[1] << 8), NOW, &arena,
                                   &query, problem);
    if (outcome == 0) {
        check(&query.filter);
        check(&query.base);
    } else if (!*problem) {
        abort(); /* there is plenty of memory: a sentence is due */
    }
    arena_close(&arena);
    return 0;
}
