/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree is walked and the table asked, not the other way round: so an unknown key cannot slip
 * through. Defaults go through the same readers as written values; one that does not fit its own
 * range trips an assertion in the first test.
 */
#include "config/keys/bind.h"
#include "config/keys/format.h"
#include "config/keys/headers.h"
#include "config/yaml/value.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>

struct binding { /* one value on its way into its field */
    struct tree *tree;
    const struct config_key *key;
    const char *path;
    const struct node *node;
    void *settings;
};

static void *binding_field(const struct binding *b)
{
    return (char *)b->settings + b->key->offset;
}

static void refuse_type(const struct binding *b, const char *expected)
{
    const struct node *node = b->node;
    if (node->kind == NODE_SCALAR)
        diag_error(b->tree->diag, node->place, b->path, "expected %s, found %s %s\"%.60s\"",
                   expected, node_kind_name(node), node->plain ? "" : "in quotes, ", node->text);
    else
        diag_error(b->tree->diag, node->place, b->path, "expected %s, found %s", expected,
                   node_kind_name(node));
}

static void refuse_range(const struct binding *b, const char *found)
{
    char range[FORMAT_MAX];
    format_range(b->key, range);
    const char *unit = b->key->kind == KEY_MIB     ? " (in MiB)"
                       : b->key->kind == KEY_BYTES ? " (in bytes)"
                                                   : "";
    diag_error(b->tree->diag, b->node->place, b->path, "%.80s is out of range; write %s%s", found,
               range, unit);
}

const char *bind_text(const struct node *node)
{
    if (node->original)
        return node->original;
    if (node->kind != NODE_SCALAR || (node->plain && value_type(node->text) != VALUE_TEXT))
        return NULL;
    return node->text;
}

static void bind_bool(const struct binding *b)
{
    bool value;
    if (b->node->kind != NODE_SCALAR || !b->node->plain || value_parse_bool(b->node->text, &value))
        refuse_type(b, "true or false (without quotes)");
    else
        *(bool *)binding_field(b) = value;
}

/* Range, zero, power of two; false when reported. *value may become the default. */
static bool check_number(const struct binding *b, uint64_t *value)
{
    const struct config_key *key = b->key;
    if (*value == 0 && key->flags & KEY_ZERO_ALLOWED)
        return true;
    if (*value == 0 && key->flags & KEY_ZERO_IS_DEFAULT) {
        int error = key->kind == KEY_DURATION ? value_parse_duration(key->initial, value)
                                              : value_parse_count(key->initial, value);
        assert(!error);
    }
    if ((double)*value < key->min || (double)*value > key->max ||
        (key->flags & KEY_POWER_OF_TWO && *value & (*value - 1))) {
        bool bare = key->kind == KEY_DURATION && value_type(b->node->text) == VALUE_INT;
        refuse_range(b, bare ? diag_printf(b->tree->diag, "%.40s (nanoseconds, without a unit)",
                                           b->node->text)
                             : b->node->text);
        return false;
    }
    return true;
}

static void bind_number(const struct binding *b)
{
    uint64_t value = 0;
    const struct node *node = b->node;
    if (node->kind != NODE_SCALAR || !node->plain || value_type(node->text) != VALUE_INT) {
        refuse_type(b, "a whole number (without quotes)");
        return;
    }
    if (value_parse_count(node->text, &value)) { /* negative, or past 64 bits */
        refuse_range(b, node->text);
        return;
    }
    if (!check_number(b, &value))
        return;
    if (b->key->kind == KEY_COUNT)
        *(uint32_t *)binding_field(b) = (uint32_t)value;
    else
        *(uint64_t *)binding_field(b) = b->key->kind == KEY_MIB ? value << 20 : value;
}

static void bind_duration(const struct binding *b)
{
    uint64_t ns;
    int error = b->node->kind == NODE_SCALAR ? value_parse_duration(b->node->text, &ns) : -EINVAL;
    if (error == -ERANGE) {
        refuse_range(b, b->node->text);
    } else if (error) {
        refuse_type(b, "a duration like 500ms, 5s or 1h30m");
    } else if (check_number(b, &ns)) {
        *(uint64_t *)binding_field(b) = ns;
    }
}

static void bind_ratio(const struct binding *b)
{
    double value;
    const struct node *node = b->node;
    if (node->kind != NODE_SCALAR || !node->plain || value_parse_ratio(node->text, &value))
        refuse_type(b, "a number (without quotes)");
    else if (value < b->key->min || value > b->key->max)
        refuse_range(b, node->text);
    else
        *(double *)binding_field(b) = value;
}

static void bind_endpoint(const struct binding *b)
{
    const char *text = bind_text(b->node);
    if (!text) {
        refuse_type(b, "a text host:port, for example localhost:4317");
        return;
    }
    bool target = b->key->kind == KEY_TARGET;
    struct config_endpoint endpoint;
    const char *problem = b->key->flags & KEY_PATH_TOO && value_is_socket_path(text)
                              ? value_parse_socket_path(text, &endpoint)
                              : value_parse_endpoint(text, target, &endpoint);
    if (!problem && target && endpoint.port == 0 && endpoint.transport != CONFIG_UNIX)
        problem = "has port 0, where nothing can be sent; write host:port, for example "
                  "localhost:4317";
    ((struct config_endpoint *)binding_field(b))->port = 0; /* a wrong one clashes with no other */
    if (problem && strchr(text, '@'))                       /* may hold a password */
        diag_error(b->tree->diag, b->node->place, b->path,
                   "holds an @; an endpoint is host:port, credentials go to headers");
    else if (problem)
        diag_error(b->tree->diag, b->node->place, b->path, "\"%.80s\" %s", text, problem);
    else
        *(struct config_endpoint *)binding_field(b) = endpoint;
}

static void bind_url(const struct binding *b)
{
    const char *text = bind_text(b->node), *problem = NULL;
    struct config_url url = {.endpoint.set = true, .path = ""};
    *(struct config_url *)binding_field(b) = url; /* a wrong one is not missing too */
    if (!text) {
        refuse_type(b, "a URL, for example http://localhost:4318");
        return;
    }
    if (strchr(text, '@')) { /* may hold a password */
        diag_error(b->tree->diag, b->node->place, b->path, "holds an @; credentials go to headers");
        return;
    }
    problem = value_parse_url(text, &url);
    if (problem)
        diag_error(b->tree->diag, b->node->place, b->path, "\"%.80s\" %s", text, problem);
    else
        *(struct config_url *)binding_field(b) = url;
}

static void bind_choice(const struct binding *b)
{
    char range[FORMAT_MAX];
    const char *text = bind_text(b->node);
    const struct key_choice *choice = b->key->choices;
    if (!text && b->key->flags & KEY_NUMBERS_TOO && b->node->kind == NODE_SCALAR)
        text = b->node->text;
    while (text && choice->name && strcmp(choice->name, text) != 0)
        choice++;
    if (!text || !choice->name) {
        format_range(b->key, range);
        refuse_type(b, diag_printf(b->tree->diag, "one of %s", range));
    } else if (b->key->size == sizeof(bool)) {
        *(bool *)binding_field(b) = choice->value != 0;
    } else {
        assert(b->key->size == sizeof(int));
        *(int *)binding_field(b) = choice->value;
    }
}

static void bind_plain_text(const struct binding *b)
{
    const char *text = bind_text(b->node);
    if (!text) {
        refuse_type(b, "a text (numbers and true/false need quotes)");
        return;
    }
    size_t len = strlen(text);
    if ((double)len < b->key->min || (double)len > b->key->max) {
        refuse_range(b, len ? "this text" : "an empty text");
        return;
    }
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < 0x20 || text[i] == 0x7f) &&
            !(b->key->flags & KEY_LINES && strchr("\n\r\t", text[i]))) {
            diag_error(b->tree->diag, b->node->place, b->path,
                       "holds a control character; write one line of text");
            return;
        }
    *(const char **)binding_field(b) = text;
}

/* Takes over text; false when reported. */
static bool add_text(const struct binding *b, struct config_place place, const char *text)
{
    struct config_list *list = binding_field(b);
    const char *problem = NULL;
    if (!*text || strlen(text) > 255)
        problem = "is empty or longer than 255 bytes; leave it out";
    for (size_t i = 0; i < list->count && !problem; i++)
        if (strcmp(list->items[i], text) == 0)
            problem = "stands twice; keep one";
    if (!problem && list->count == CONFIG_LIST_MAX)
        problem = "is one too many; at most 64 items";
    if (problem) {
        diag_error(b->tree->diag, place, b->path, "\"%.60s\" %s", text, problem);
        return false;
    }
    list->items[list->count++] = text;
    return true;
}

static char *bind_trim(char *text)
{
    text += strspn(text, " \t");
    for (size_t len = strlen(text); len && strchr(" \t", text[len - 1]); len--)
        text[len - 1] = 0;
    return text;
}

static void split_texts(const struct binding *b, const char *text)
{
    char *copy = arena_dup(b->tree->arena, text, strlen(text) + 1), *item;
    if (!copy) {
        b->tree->diag->exhausted = true;
        return;
    }
    while (*text && (item = strsep(&copy, ",")))
        if (!add_text(b, b->node->place, bind_trim(item)))
            return;
}

static const char *bind_item(const struct config_key *key, const struct node *node)
{
    bool number = node->kind == NODE_SCALAR && value_type(node->text) == VALUE_INT;
    return number && key->flags & KEY_NUMBERS_TOO ? node->text : bind_text(node);
}

static void bind_texts(const struct binding *b)
{
    const struct node *node = b->node;
    struct config_list *list = binding_field(b);
    const char *text = node->kind == NODE_LIST ? NULL : bind_item(b->key, node);
    *list = (struct config_list){.count = 0};
    if (node->kind != NODE_LIST && !text) {
        refuse_type(b, "a list of texts like [a, b]");
        return;
    }
    if (text)
        split_texts(b, text);
    for (const struct node_entry *e = node->entries; e && node->kind == NODE_LIST; e = e->next) {
        struct binding item = *b;
        item.node = e->value;
        text = bind_item(b->key, e->value);
        if (!text && e->value->kind != NODE_BROKEN)
            refuse_type(&item, "a text (numbers and true/false need quotes)");
        if (!text || !add_text(b, e->value->place, text))
            return;
    }
}

static void bind_leaf(const struct binding *b)
{
    switch (b->key->kind) {
    case KEY_BOOL:
        return bind_bool(b);
    case KEY_COUNT:
    case KEY_BYTES:
    case KEY_MIB:
        return bind_number(b);
    case KEY_DURATION:
        return bind_duration(b);
    case KEY_RATIO:
        return bind_ratio(b);
    case KEY_LISTEN:
    case KEY_TARGET:
        return bind_endpoint(b);
    case KEY_URL:
        return bind_url(b);
    case KEY_CHOICE:
        return bind_choice(b);
    case KEY_TEXT:
        return bind_plain_text(b);
    case KEY_TEXTS:
        return bind_texts(b);
    case KEY_HEADERS:
        return headers_bind(b->tree, b->path, b->node, b->settings);
    case KEY_SECTION:
    case KEY_IGNORED:
    case KEY_BUILT:
        return;
    }
}

void bind_defaults(struct tree *tree, int owner, void *settings)
{
    size_t n_errors = tree->diag->n_errors;
    for (size_t i = 0; i < config_keys_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (key->owner != owner || !key->initial)
            continue;
        struct node node = {.kind = NODE_SCALAR, .text = key->initial, .plain = true};
        if (key->kind == KEY_TEXT)
            node.original = key->initial;
        bind_leaf(&(struct binding){tree, key, key->path, &node, settings});
    }
    assert(tree->diag->n_errors == n_errors);
    (void)n_errors;
}

/* Walks the sections below one owner. */
struct walk {
    struct tree *tree;
    int owner;
    void *settings;
};

static void bind_section(const struct walk *walk, const char *prefix, const char *path,
                         struct config_place place, const struct node *node);

/* A variable that is set but empty is an empty text for these, and nothing for the others. */
static bool wants_text(const struct config_key *key)
{
    return key->kind == KEY_LISTEN || key->kind == KEY_TARGET || key->kind == KEY_URL ||
           key->kind == KEY_CHOICE || key->kind == KEY_TEXT || key->kind == KEY_TEXTS;
}

static void bind_entry(const struct walk *walk, const char *prefix, const char *path,
                       const struct node_entry *entry)
{
    const struct config_key *key = keys_find(walk->owner, prefix, entry->key);
    const struct config_key *renamed = keys_find_renamed(walk->owner, prefix, entry->key);
    if (!key && !renamed) {
        bind_report_unknown(walk->tree, walk->owner, prefix, path, entry);
        return;
    }
    path = diag_path(walk->tree->diag, path, entry->key);
    if (!key) {
        key = renamed;
        diag_warn(walk->tree->diag, entry->place, path, "is the old name of \"%s\"",
                  keys_name(key));
    }
    const struct node *node = entry->value;
    if (key->kind == KEY_IGNORED) {
        diag_warn(walk->tree->diag, entry->place, path, "has no effect. %s", key->help);
        return;
    }
    if (key->kind == KEY_SECTION) {
        if (key->size)
            *(bool *)((char *)walk->settings + key->offset) = true;
        bind_section(walk, key->path, path, entry->place, node);
        return;
    }
    bool nothing = node->kind == NODE_NULL && !(node->original && wants_text(key));
    if (nothing && key->flags & KEY_REQUIRED)
        diag_error(walk->tree->diag, entry->place, path, "needs a value (%s)", format_type(key));
    if (!nothing && node->kind != NODE_BROKEN)
        bind_leaf(&(struct binding){walk->tree, key, path, node, walk->settings});
}

static void report_missing(const struct walk *walk, const char *prefix, const char *path,
                           struct config_place place, const struct node *node)
{
    const struct config_key *key = NULL;
    while ((key = keys_next(walk->owner, prefix, key)))
        if (key->flags & KEY_REQUIRED && !(node && tree_find(node, keys_name(key))))
            diag_error(walk->tree->diag, place, path,
                       "the key \"%s\" is missing; write its value (%s)", keys_name(key),
                       format_type(key));
}

static void bind_section(const struct walk *walk, const char *prefix, const char *path,
                         struct config_place place, const struct node *node)
{
    if (node && node->kind == NODE_BROKEN)
        return;
    if (node && node->kind != NODE_MAP && node->kind != NODE_NULL) {
        diag_error(walk->tree->diag, node->place, path, "expected a map of keys, found %s",
                   node_kind_name(node));
        return;
    }
    for (const struct node_entry *entry = node ? node->entries : NULL; entry; entry = entry->next)
        bind_entry(walk, prefix, path, entry);
    report_missing(walk, prefix, path, place, node);
}

void bind_settings(struct tree *tree, int owner, const char *path, struct config_place place,
                   const struct node *node, void *settings)
{
    bind_section(&(struct walk){tree, owner, settings}, "", path, place, node);
}
