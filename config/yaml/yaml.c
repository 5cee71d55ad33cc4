/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anchors and aliases are refused rather than bounded: a configuration gains little by them, and
 * without them a text cannot unfold to more than it is.
 */
#include "config/yaml/yaml.h"
#include "config/yaml/value.h"
#include <yaml.h>

struct reader {
    yaml_parser_t parser;
    struct tree *tree;
    const struct yaml_input *input;
};

static struct config_place place_of(const struct reader *reader, const yaml_mark_t *mark)
{
    struct config_place place = reader->input->place;
    if (!reader->input->fixed) {
        place.line = mark->line + 1;
        place.column = mark->column + 1;
    }
    return place;
}

static int reader_refuse(struct reader *reader, const yaml_mark_t *mark, const char *what)
{
    if (!reader->input->quiet)
        diag_error(reader->tree->diag, place_of(reader, mark), "", "%s", what);
    return YAML_REFUSED;
}

/* libyaml gives an offset instead of a mark for bytes that are no text at all. */
static yaml_mark_t mark_of_offset(struct bytes text, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < text.len; i++) {
        mark.column++;
        if (text.data[i] == '\n') {
            mark.line++;
            mark.column = 0;
        }
    }
    return mark;
}

static int refuse_syntax(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "not readable";
    yaml_mark_t mark = parser->problem_mark;
    if (parser->error == YAML_READER_ERROR)
        mark = mark_of_offset(reader->input->text, parser->problem_offset);
    if (parser->error == YAML_MEMORY_ERROR)
        reader->tree->diag->exhausted = true;
    const char *context = "";
    if (parser->context && parser->context_mark.line != mark.line)
        context = diag_printf(reader->tree->diag, "%s that begins in line %zu: ", parser->context,
                              parser->context_mark.line + 1);
    const char *text = diag_printf(reader->tree->diag,
                                   "not YAML: %s%s; check indentation (spaces, no tabs), quotes "
                                   "and the colons after keys%s",
                                   context, problem,
                                   strstr(problem, "','") ? "; within { } and [ ] a ${...} "
                                                            "needs quotes"
                                                          : "");
    return reader_refuse(reader, &mark, text);
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
    if (!yaml_parser_parse(&reader->parser, event))
        return refuse_syntax(reader);
    return 0;
}

static int refuse_extras(struct reader *reader, const yaml_event_t *event,
                         const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        return reader_refuse(
            reader, &event->start_mark,
            "anchors (&name) are not supported; write the value where it is needed");
    if (tag)
        return reader_refuse(reader, &event->start_mark,
                             "tags (!name) are not supported; write the value without its tag");
    return 0;
}

static int read_text(struct reader *reader, const yaml_event_t *event, const char **text)
{
    size_t len = event->data.scalar.length;
    if (memchr(event->data.scalar.value, 0, len))
        return reader_refuse(reader, &event->start_mark, "a text holds a NUL character; remove it");
    *text = arena_dup(reader->tree->arena, event->data.scalar.value, len + 1);
    if (!*text)
        reader->tree->diag->exhausted = true;
    return *text ? 0 : YAML_REFUSED;
}

static int read_scalar(struct reader *reader, const yaml_event_t *event, struct node *node)
{
    int error = refuse_extras(reader, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (!error)
        error = read_text(reader, event, &node->text);
    if (error)
        return error;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->kind = node->plain && value_is_null(node->text) ? NODE_NULL : NODE_SCALAR;
    return 0;
}

static int read_node(struct reader *reader, const yaml_event_t *event, unsigned depth,
                     struct node **node);

static int read_list(struct reader *reader, struct node *list, unsigned depth)
{
    for (;;) {
        yaml_event_t event;
        int error = next_event(reader, &event);
        if (error)
            return error;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        struct node_entry entry = {.place = place_of(reader, &event.start_mark)};
        if (!end)
            error = read_node(reader, &event, depth, &entry.value);
        yaml_event_delete(&event);
        if (end || error)
            return error;
        if (tree_append(reader->tree, list, entry))
            return YAML_REFUSED;
    }
}

static int read_key(struct reader *reader, const yaml_event_t *event, const struct node *map,
                    const char **key)
{
    if (event->type != YAML_SCALAR_EVENT)
        return reader_refuse(reader, &event->start_mark,
                             event->type == YAML_ALIAS_EVENT
                                 ? "aliases (*name) are not supported; write the value out"
                                 : "a key is not a text; write key: value");
    int error = refuse_extras(reader, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (!error)
        error = read_text(reader, event, key);
    if (error)
        return error;
    const struct node_entry *twin = tree_find(map, *key);
    if (!twin)
        return 0;
    if (reader->input->fixed)
        return reader_refuse(reader, &event->start_mark, "a key stands twice in one map");
    const char *text = diag_printf(reader->tree->diag,
                                   "the key \"%.100s\" stands twice in this map (first in line "
                                   "%zu); keep one",
                                   *key, twin->place.line);
    return reader_refuse(reader, &event->start_mark, text);
}

static int read_map(struct reader *reader, struct node *map, unsigned depth)
{
    for (;;) {
        yaml_event_t event;
        int error = next_event(reader, &event);
        if (error)
            return error;
        bool end = event.type == YAML_MAPPING_END_EVENT;
        struct node_entry entry = {.place = place_of(reader, &event.start_mark)};
        if (!end)
            error = read_key(reader, &event, map, &entry.key);
        yaml_event_delete(&event);
        if (end || error)
            return error;
        error = next_event(reader, &event);
        if (error)
            return error;
        error = read_node(reader, &event, depth, &entry.value);
        yaml_event_delete(&event);
        if (error)
            return error;
        if (tree_append(reader->tree, map, entry))
            return YAML_REFUSED;
    }
}

static int read_collection(struct reader *reader, const yaml_event_t *event, unsigned depth,
                           struct node *node)
{
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    int error = list ? refuse_extras(reader, event, event->data.sequence_start.anchor,
                                     event->data.sequence_start.tag)
                     : refuse_extras(reader, event, event->data.mapping_start.anchor,
                                     event->data.mapping_start.tag);
    if (error)
        return error;
    if (depth == TREE_DEPTH_MAX)
        return reader_refuse(reader, &event->start_mark, "nested deeper than 32 levels");
    node->kind = list ? NODE_LIST : NODE_MAP;
    return list ? read_list(reader, node, depth + 1) : read_map(reader, node, depth + 1);
}

static int read_node(struct reader *reader, const yaml_event_t *event, unsigned depth,
                     struct node **node)
{
    if (event->type == YAML_ALIAS_EVENT)
        return reader_refuse(reader, &event->start_mark,
                             "aliases (*name) are not supported; write the value out");
    *node = tree_node(reader->tree, NODE_NULL, place_of(reader, &event->start_mark));
    if (!*node)
        return YAML_REFUSED;
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(reader, event, *node);
    return read_collection(reader, event, depth, *node);
}

/* The events of a stream around its one document. */
static int read_stream(struct reader *reader, struct node **root)
{
    for (;;) {
        yaml_event_t event;
        int error = next_event(reader, &event);
        if (error)
            return error;
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && *root)
            error = reader_refuse(reader, &event.start_mark,
                                  "a second document (---) begins; give each its own --config");
        else if (type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
                 type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT)
            error = read_node(reader, &event, 0, root);
        yaml_event_delete(&event);
        if (error || type == YAML_STREAM_END_EVENT)
            return error;
    }
}

int yaml_read(struct tree *tree, const struct yaml_input *input, struct node **root)
{
    struct reader reader = {.tree = tree, .input = input};
    *root = NULL;
    if (!yaml_parser_initialize(&reader.parser)) {
        tree->diag->exhausted = true;
        return YAML_REFUSED;
    }
    yaml_parser_set_input_string(&reader.parser, input->text.data, input->text.len);
    int error = read_stream(&reader, root);
    yaml_parser_delete(&reader.parser);
    if (error)
        *root = NULL;
    return error;
}
