/* SPDX-License-Identifier: Apache-2.0 */
/* What is printed is compared as it is printed; secrets, which are not, by themselves. */
#include "config/keys/components.h"
#include "config/keys/format.h"
#include "config/load/config_load.h"

static bool same_headers(const struct config_exporter_otlp *a, const struct config_exporter_otlp *b)
{
    bool same = a->n_headers == b->n_headers;
    for (size_t i = 0; same && i < a->n_headers; i++)
        same = strcmp(a->headers[i].name, b->headers[i].name) == 0 &&
               strcmp(a->headers[i].value, b->headers[i].value) == 0;
    return same;
}

static bool same_texts(const struct config_list *a, const struct config_list *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->items[i], b->items[i]) == 0;
    return same;
}

static bool same_secret(const struct config_key *key, const void *a, const void *b)
{
    if (key->kind == KEY_HEADERS)
        return same_headers(a, b);
    if (!(key->flags & KEY_SECRET))
        return true;
    if (key->kind == KEY_TEXTS)
        return same_texts(format_field(key, a), format_field(key, b));
    return strcmp(*(const char *const *)format_field(key, a),
                  *(const char *const *)format_field(key, b)) == 0;
}

static bool same_secrets(const struct config *a, const struct config *b, enum config_class class)
{
    bool same = components_count(a, class) == components_count(b, class);
    for (size_t i = 0; same && i < components_count(a, class); i++) {
        struct component_slot x = components_at(a, class, i), y = components_at(b, class, i);
        same = *x.type == *y.type;
        for (size_t k = 0; same && k < config_keys_count; k++)
            if (config_keys[k].owner == (int)*x.type)
                same = same_secret(&config_keys[k], x.settings, y.settings);
    }
    return same;
}

bool config_same(const struct config *a, const struct config *b)
{
    _cleanup_buf_ struct buf x = BUF_INIT(0), y = BUF_INIT(0);
    if (config_print(a, &x) || config_print(b, &y) || !bytes_equal(buf_bytes(&x), buf_bytes(&y)))
        return false;
    for (enum config_class class = 0; class < CLASSES; class ++)
        if (!same_secrets(a, b, class))
            return false;
    return true;
}
