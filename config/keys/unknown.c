/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message about an unknown key (bind.h): most are typing errors or belong to the Collector, and
 * both deserve a better answer than "no".
 */
#include "config/keys/bind.h"
#include <stdio.h>

#define WORD_MAX 64

static size_t unknown_least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Levenshtein distance; words longer than WORD_MAX are far from everything. */
static size_t unknown_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return WORD_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];
            row[j] = unknown_least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

static const char *unknown_nearest(int owner, const char *prefix, const char *word)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2; /* farther is no typing error */
    const struct config_key *key = NULL;
    while ((key = keys_next(owner, prefix, key))) {
        size_t d = unknown_distance(word, keys_name(key));
        if (d < best_distance) {
            best_distance = d;
            best = keys_name(key);
        }
    }
    return best;
}

void bind_report_unknown(struct tree *tree, int owner, const char *prefix, const char *path,
                         const struct node_entry *entry)
{
    char list[512], dotted[256];
    size_t len = 0;
    const struct config_key *key = NULL;
    list[0] = 0;
    while ((key = keys_next(owner, prefix, key)) && len < sizeof(list))
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "",
                                keys_name(key));
    snprintf(dotted, sizeof(dotted), "%.120s%s%.120s", prefix, *prefix ? "." : "", entry->key);
    const char *hint = keys_hint(owner, dotted);
    const char *near = hint ? NULL : unknown_nearest(owner, prefix, entry->key);
    diag_error(tree->diag, entry->place, path, "unknown key \"%.80s\"; %s%s%s%skeys here: %s",
               entry->key, hint ? hint : "", hint ? "; " : "", near ? "did you mean " : "",
               near ? diag_printf(tree->diag, "\"%s\"? ", near) : "", list);
}
