/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image is struct config with an offset in place of each text, and then the texts. It goes from
 * one execution of this program to another, so the layout is the same at both ends; what it says is
 * checked all the same, by the table of keys: the process that wrote it parses what people write.
 */
#include "config/keys/components.h"
#include "config/keys/format.h"
#include "config/load/config_load.h"
#include "base/arena.h"
#include <errno.h>
#include <stdlib.h>

/* ---- all texts ---- */

/* In an image *text is an offset. Nonzero ends the walk. */
typedef int (*text_fn)(void *context, const char **text, bool secret);

static int image_list(struct config_list *list, bool secret, text_fn visit, void *context)
{
    int error = list->count > CONFIG_LIST_MAX ? -EINVAL : 0;
    for (size_t i = 0; !error && i < list->count; i++)
        error = visit(context, &list->items[i], secret);
    for (size_t i = list->count; !error && i <= CONFIG_LIST_MAX; i++)
        list->items[i] = NULL;
    return error;
}

static int image_headers(struct config_exporter_otlp *exporter, text_fn visit, void *context)
{
    int error = exporter->n_headers > CONFIG_LIST_MAX ? -EINVAL : 0;
    for (size_t i = 0; !error && i < exporter->n_headers; i++) {
        error = visit(context, &exporter->headers[i].name, false);
        error = error ? error : visit(context, &exporter->headers[i].value, true);
    }
    return error;
}

static int image_key(const struct config_key *key, void *settings, text_fn visit, void *context)
{
    void *field = (void *)format_field(key, settings);
    switch (key->kind) {
    case KEY_TEXT:
        return visit(context, field, key->flags & KEY_SECRET);
    case KEY_URL:
        return visit(context, &((struct config_url *)field)->path, false);
    case KEY_TEXTS:
        return image_list(field, key->flags & KEY_SECRET, visit, context);
    case KEY_HEADERS:
        return image_headers(settings, visit, context);
    default:
        return 0;
    }
}

static int image_keys(int owner, void *settings, text_fn visit, void *context)
{
    int error = 0;
    for (size_t k = 0; !error && k < config_keys_count; k++)
        if (config_keys[k].owner == owner)
            error = image_key(&config_keys[k], settings, visit, context);
    return error;
}

static int image_texts(struct config *config, text_fn visit, void *context)
{
    int error = image_keys(OWNER_SERVICE, &config->service, visit, context);
    for (size_t i = 0; !error && i < config->n_warnings; i++)
        error = visit(context, &config->warnings[i], false);
    for (enum config_class class = 0; !error && class < CLASSES; class ++)
        for (size_t i = 0; !error && i < components_count(config, class); i++) {
            struct component_slot slot = components_at(config, class, i);
            error = image_keys((int)*slot.type, slot.settings, visit, context);
        }
    return error;
}

/* ---- out ---- */

struct packing {
    struct buf *out;
    enum config_secrets secrets;
};

static int text_pack(void *context, const char **text, bool secret)
{
    const struct packing *packing = context;
    if (!*text)
        return 0;
    const char *packed = secret && packing->secrets == CONFIG_WITHOUT_SECRETS ? "" : *text;
    *text = (const char *)packing->out->len; /* an offset */
    return buf_append(packing->out, packed, strlen(packed) + 1);
}

int config_pack(const struct config *config, enum config_secrets secrets, struct buf *out)
{
    struct config *image = malloc(sizeof(*image));
    if (!image)
        return -ENOMEM;
    memcpy(image, config, sizeof(*image));
    image->memory = NULL;
    if (secrets == CONFIG_WITHOUT_SECRETS)
        image->n_warnings = 0;
    buf_clear(out);
    int error = buf_append(out, image, sizeof(*image));
    if (!error)
        error = image_texts(image, text_pack, &(struct packing){out, secrets});
    if (!error)
        memcpy(out->data, image, sizeof(*image));
    free(image);
    return error;
}

/* ---- in ---- */

static bool choice_is_valid(const struct config_key *key, const void *field)
{
    const struct key_choice *choice = key->choices;
    if (key->size == sizeof(bool))
        return *(const uint8_t *)field <= 1;
    while (choice->name && choice->value != *(const int *)field)
        choice++;
    return choice->name;
}

static bool endpoint_is_valid(const struct config_endpoint *endpoint)
{
    return memchr(endpoint->host, 0, sizeof(endpoint->host)) &&
           (unsigned)endpoint->scheme <= CONFIG_SCHEME_HTTPS &&
           (unsigned)endpoint->transport <= CONFIG_UNIX;
}

/* 0 stands for a value that was never set, too. */
static bool number_is_valid(const struct config_key *key, uint64_t value)
{
    if (key->kind == KEY_MIB)
        value >>= 20;
    return value ? (double)value >= key->min && (double)value <= key->max &&
                       (!(key->flags & KEY_POWER_OF_TWO) || !(value & (value - 1)))
                 : key->flags & KEY_ZERO_ALLOWED || !key->initial || key->min <= 0;
}

static bool ratio_is_valid(const struct config_key *key, double value)
{
    return value >= key->min && value <= key->max;
}

static bool value_is_valid(const struct config_key *key, const void *settings)
{
    const void *field = format_field(key, settings);
    if (!key->size)
        return true;
    switch (key->kind) {
    case KEY_BOOL:
        return *(const uint8_t *)field <= 1;
    case KEY_SECTION:
        return *(const uint8_t *)field <= 1;
    case KEY_COUNT:
        return number_is_valid(key, *(const uint32_t *)field);
    case KEY_BYTES:
    case KEY_MIB:
    case KEY_DURATION:
        return number_is_valid(key, *(const uint64_t *)field);
    case KEY_RATIO:
        return ratio_is_valid(key, *(const double *)field);
    case KEY_CHOICE:
        return choice_is_valid(key, field);
    case KEY_LISTEN:
    case KEY_TARGET:
        return endpoint_is_valid(field);
    case KEY_URL:
        return endpoint_is_valid(&((const struct config_url *)field)->endpoint);
    default:
        return true;
    }
}

static bool values_are_valid(int owner, const void *settings)
{
    for (size_t k = 0; k < config_keys_count; k++)
        if (config_keys[k].owner == owner && !value_is_valid(&config_keys[k], settings))
            return false;
    return true;
}

static bool component_is_valid(const struct config *config, enum config_class class, size_t i)
{
    struct component_slot slot = components_at(config, class, i);
    const struct config_component *component = keys_component_of(*slot.type);
    return component && component->class == class && memchr(slot.id, 0, CONFIG_NAME_MAX) &&
           *(const uint8_t *)slot.used <= 1 && values_are_valid((int)*slot.type, slot.settings) &&
           (*slot.type != CONFIG_EXTENSION_PAGES ||
            endpoint_is_valid(&((const struct config_pages *)slot.settings)->socket_endpoint));
}

static bool indices_are_valid(const uint32_t *indices, size_t n, size_t limit)
{
    if (n > CONFIG_COMPONENTS_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (indices[i] >= limit)
            return false;
    return true;
}

static bool pipeline_is_valid(const struct config *config, const struct config_pipeline *pipeline)
{
    return memchr(pipeline->id, 0, CONFIG_NAME_MAX) &&
           (unsigned)pipeline->signal < CONFIG_SIGNALS &&
           indices_are_valid(pipeline->receivers, pipeline->n_receivers, config->n_receivers) &&
           indices_are_valid(pipeline->processors, pipeline->n_processors, config->n_processors) &&
           indices_are_valid(pipeline->exporters, pipeline->n_exporters, config->n_exporters);
}

static bool image_is_valid(const struct config *config)
{
    if (config->n_pipelines > CONFIG_COMPONENTS_MAX || config->n_warnings > CONFIG_WARNINGS_MAX ||
        !values_are_valid(OWNER_SERVICE, &config->service))
        return false;
    for (enum config_class class = 0; class < CLASSES; class ++) {
        if (components_count(config, class) > CONFIG_COMPONENTS_MAX)
            return false;
        for (size_t i = 0; i < components_count(config, class); i++)
            if (!component_is_valid(config, class, i))
                return false;
    }
    for (size_t i = 0; i < config->n_pipelines; i++)
        if (!pipeline_is_valid(config, &config->pipelines[i]))
            return false;
    return config_find_extension(config, CONFIG_EXTENSION_SQLITE_STORAGE);
}

static int text_unpack(void *context, const char **text, bool secret)
{
    const struct bytes *image = context;
    uintptr_t offset = (uintptr_t)*text;
    (void)secret;
    if (!offset)
        return 0;
    if (offset < sizeof(struct config) || offset >= image->len)
        return -EINVAL;
    *text = (const char *)image->data + offset;
    return 0;
}

static int image_open(struct bytes image, struct config *config)
{
    memcpy(config, image.data, sizeof(*config));
    config->memory = NULL;
    if (!image_is_valid(config))
        return -EINVAL;
    struct arena *arena = calloc(1, sizeof(*arena));
    config->memory = arena;
    if (!arena)
        return -ENOMEM;
    arena_init(arena, 2 * CONFIG_IMAGE_MAX);
    const void *texts = arena_dup(arena, image.data, image.len);
    struct bytes copy = BYTES(texts, image.len);
    return texts ? image_texts(config, text_unpack, &copy) : -ENOMEM;
}

int config_unpack(struct bytes image, struct config **out)
{
    *out = NULL;
    if (image.len < sizeof(struct config) || image.len > CONFIG_IMAGE_MAX ||
        (image.len > sizeof(struct config) && image.data[image.len - 1]))
        return -EINVAL;
    struct config *config = calloc(1, sizeof(*config));
    if (!config)
        return -ENOMEM;
    int error = image_open(image, config);
    if (error)
        config_close(config);
    else
        *out = config;
    return error;
}
