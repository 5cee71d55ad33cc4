/* SPDX-License-Identifier: Apache-2.0 */
/* The table of base/limits.h, evaluated for a configuration: `spanprof limits`. */
#include "base/limits.h"
#include "config/keys/components.h"
#include "config/keys/format.h"
#include "config/load/config_load.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const titles[LIMITS] = {
    [LIMIT_SERVICE] = "service",
    [LIMIT_SYMBOLIZER] = "symbolizer",
    [LIMIT_SUPERVISOR] = "supervisor",
    [LIMIT_KERNEL] = "BPF maps and perf buffers",
    [LIMIT_DISK] = "disk",
};

/* ---- the value of a row ---- */

static uint64_t key_value(const struct component_slot *slot, const char *path)
{
    for (size_t i = 0; i < config_keys_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->owner != (int)*slot->type || strcmp(key->path, path) != 0)
            continue;
        const void *field = format_field(key, slot->settings);
        assert(key->size == sizeof(uint64_t) || key->size == sizeof(uint32_t));
        return key->size == sizeof(uint64_t) ? *(const uint64_t *)field : *(const uint32_t *)field;
    }
    assert(false); /* a row names a key that there is */
    return 0;
}

static bool is_of_type(const struct component_slot *slot, const char *type, size_t len)
{
    const struct config_component *component = keys_component_of(*slot->type);
    return *slot->used && strlen(component->name) == len && memcmp(component->name, type, len) == 0;
}

static uint64_t count_component(const struct limit *limit, const struct component_slot *slot,
                                const char *path)
{
    return limit->bytes + (path ? key_value(slot, path) * limit->percent / 100 : 0);
}

static uint64_t count_by_type(const struct limit *limit, const struct config *config)
{
    const char *type = limit->key ? limit->key : limit->of;
    const char *colons = limit->key ? strstr(limit->key, "::") : NULL;
    size_t len = colons ? (size_t)(colons - type) : strlen(type);
    uint64_t sum = 0;
    for (enum config_class class = CLASS_RECEIVER; class < CLASSES; class ++)
        for (size_t i = 0; i < components_count(config, class); i++) {
            struct component_slot slot = components_at(config, class, i);
            if (is_of_type(&slot, type, len))
                sum += count_component(limit, &slot, colons ? colons + 2 : NULL);
        }
    return sum;
}

static uint64_t count_limit(const struct limit *limit, const struct config *config)
{
    if (limit->count)
        return limit->count(config);
    return limit->key || limit->of ? count_by_type(limit, config) : limit->bytes;
}

/* ---- the table ---- */

struct row {
    const struct limit *limit;
    uint64_t bytes;
};

static int larger_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->limit->of_whom != y->limit->of_whom)
        return x->limit->of_whom < y->limit->of_whom ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return strcmp(x->limit->what, y->limit->what);
}

static int print_row(struct buf *out, uint64_t bytes, const char *what, const char *key)
{
    return buf_printf(out, "%14llu  %-64s  %s\n", (unsigned long long)bytes, what, key ? key : "");
}

static int print_group(struct buf *out, const struct row *rows, size_t n, enum limit_of of_whom,
                       uint64_t *sum)
{
    int error = buf_printf(out, "%s\n", titles[of_whom]);
    *sum = 0;
    for (size_t i = 0; i < n && !error; i++) {
        if (rows[i].limit->of_whom != of_whom || !rows[i].bytes)
            continue;
        *sum += rows[i].bytes;
        error = print_row(out, rows[i].bytes, rows[i].limit->what, rows[i].limit->key);
    }
    if (!error)
        error = print_row(out, *sum, of_whom == LIMIT_SERVICE ? "= service" : "= together", NULL);
    return error ? error : buf_printf(out, "\n");
}

static int print_rows(struct buf *out, const struct row *rows, size_t n)
{
    uint64_t sum, memory = 0;
    int error = 0;
    for (enum limit_of of_whom = LIMIT_SERVICE; of_whom < LIMITS && !error; of_whom++) {
        error = print_group(out, rows, n, of_whom, &sum);
        memory += of_whom == LIMIT_DISK ? 0 : sum;
    }
    return error ? error : print_row(out, memory, "= memory of all processes and the kernel", NULL);
}

int config_print_limits(const struct config *config, struct buf *out)
{
    size_t n;
    const struct limit *limits = limits_all(&n);
    struct row *rows = calloc(n + 1, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        rows[i] = (struct row){&limits[i], count_limit(&limits[i], config)};
    qsort(rows, n, sizeof(*rows), larger_first);
    int error = print_rows(out, rows, n);
    free(rows);
    return error;
}
