/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTEL_RESOURCE_ATTRIBUTES is key=value pairs separated by commas, both percent-encoded if they
 * contain separators. By the specification one error makes the whole variable invalid: half of a
 * Resource may describe another one.
 */
#include "agent-bpf/contexts/environment.h"
#include "base/buf.h"
#include "context/runtime.h"
#include "proto/otlp/otlp_spans.h"
#include <errno.h>
#include <stdlib.h>

#define RESOURCE_ATTRIBUTES 1 /* field of Resource */

static const char *const platform_names[] = {"K_SERVICE", "CONTAINER_APP_NAME", "NOMAD_TASK_NAME",
                                             "AWS_LAMBDA_FUNCTION_NAME"};
#define PLATFORM_NAMES (sizeof(platform_names) / sizeof(*platform_names))

struct variables {
    struct bytes service_name;
    struct bytes attributes;
    struct bytes platform[PLATFORM_NAMES];
    struct bytes context; /* SPANPROF_CONTEXT */
    struct bytes switches[RUNTIMES];
};

/* Removes and returns the text before the separator, and removes the separator; all text if there
 * is none. */
static struct bytes take_until(struct bytes *text, uint8_t separator)
{
    const uint8_t *end = text->len ? memchr(text->data, separator, text->len) : NULL;
    struct bytes part = BYTES(text->data, end ? (size_t)(end - text->data) : text->len);
    size_t taken = part.len + (end ? 1 : 0);
    *text = BYTES(taken ? text->data + taken : text->data, text->len - taken);
    return part;
}

static struct bytes environment_trimmed(struct bytes text)
{
    while (text.len && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = BYTES(text.data + 1, text.len - 1);
    while (text.len && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static void take_variable(struct bytes name, struct bytes value, struct variables *variables)
{
    struct bytes *slot = NULL;
    if (bytes_is(name, "OTEL_SERVICE_NAME"))
        slot = &variables->service_name;
    else if (bytes_is(name, "OTEL_RESOURCE_ATTRIBUTES"))
        slot = &variables->attributes;
    else if (bytes_is(name, "SPANPROF_CONTEXT"))
        slot = &variables->context;
    for (size_t i = 0; !slot && i < PLATFORM_NAMES; i++)
        if (bytes_is(name, platform_names[i]))
            slot = &variables->platform[i];
    for (unsigned runtime = 0; !slot && runtime < RUNTIMES; runtime++)
        if (name.len && bytes_is(name, runtime_row(runtime)->variable))
            slot = &variables->switches[runtime];
    if (slot && !slot->data)
        *slot = value;
}

static void find_variables(struct bytes block, struct variables *variables)
{
    memset(variables, 0, sizeof(*variables));
    while (block.len && memchr(block.data, 0, block.len)) {
        struct bytes value = take_until(&block, 0);
        if (!value.len || !memchr(value.data, '=', value.len))
            continue;
        struct bytes name = take_until(&value, '=');
        take_variable(name, environment_trimmed(value), variables);
    }
}

/* %hh undone; false: malformed, too long, not UTF-8, or a NUL in it. size: of out. */
static bool percent_decode(struct bytes text, char *out, size_t size, size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '%') {
            if (text.len - i < 3 || !bytes_from_hex(BYTES(text.data + i + 1, 2), &c, 1))
                return false;
            i += 2;
        }
        if (!c || *len + 1 >= size)
            return false;
        out[(*len)++] = (char)c;
    }
    out[*len] = 0;
    return bytes_utf8_valid(BYTES(out, *len));
}

static int take_attribute(struct bytes pair, struct buf *out)
{
    char key[ENVIRONMENT_KEY_MAX + 1], value[ENVIRONMENT_TEXT_MAX + 1];
    size_t key_len, value_len;
    if (!memchr(pair.data, '=', pair.len))
        return ENVIRONMENT_MALFORMED;
    struct bytes name = environment_trimmed(take_until(&pair, '='));
    if (!percent_decode(name, key, sizeof(key), &key_len) || !key_len ||
        !percent_decode(environment_trimmed(pair), value, sizeof(value), &value_len))
        return ENVIRONMENT_MALFORMED;
    int error = otlp_attribute_string(out, RESOURCE_ATTRIBUTES, key, BYTES(value, value_len));
    return error == BUF_FULL ? ENVIRONMENT_MALFORMED : error;
}

static int read_attributes(struct bytes text, struct buf *out)
{
    for (unsigned n = 0; text.len;) {
        struct bytes pair = environment_trimmed(take_until(&text, ','));
        if (!pair.len) /* a comma too many is no fault of the others */
            continue;
        if (++n > ENVIRONMENT_ATTRIBUTES_MAX)
            return ENVIRONMENT_MALFORMED;
        int error = take_attribute(pair, out);
        if (error)
            return error;
    }
    return 0;
}

/* False: not usable; it becomes empty. */
static bool check_name(struct bytes *name)
{
    bool good = name->len <= ENVIRONMENT_TEXT_MAX && bytes_utf8_valid(*name);
    if (!good)
        *name = (struct bytes){0};
    return good;
}

static struct bytes platform_name(const struct variables *variables)
{
    for (size_t i = 0; i < PLATFORM_NAMES; i++)
        if (variables->platform[i].len)
            return variables->platform[i];
    return (struct bytes){0};
}

static unsigned switched_on(const struct variables *variables)
{
    unsigned on = 0;
    for (unsigned runtime = 0; runtime < RUNTIMES; runtime++) {
        struct bytes value = variables->switches[runtime];
        const char *mark = runtime_row(runtime)->mark;
        if (value.len && memmem(value.data, value.len, mark, strlen(mark)))
            on |= RUNTIME_BIT(runtime);
    }
    return on;
}

static struct bytes environment_copy(uint8_t **at, struct bytes text)
{
    struct bytes kept = BYTES(*at, text.len);
    if (text.len)
        memcpy(*at, text.data, text.len);
    *at += text.len;
    return kept;
}

/* variables: checked. */
static int environment_new(const struct variables *variables, struct bytes platform,
                           struct bytes attributes, struct environment **out)
{
    struct bytes service_name = variables->service_name;
    unsigned on = switched_on(variables);
    bool off = bytes_is(variables->context, "off");
    size_t size = sizeof(struct environment) + service_name.len + platform.len + attributes.len;
    if (size == sizeof(struct environment) && !on && !off)
        return 0;
    struct environment *environment = calloc(1, size);
    if (!environment)
        return -ENOMEM;
    uint8_t *at = (uint8_t *)(environment + 1);
    environment->size = size;
    environment->switched_on = on;
    environment->switched_off = off;
    environment->service_name = environment_copy(&at, service_name);
    environment->platform_name = environment_copy(&at, platform);
    environment->attributes = environment_copy(&at, attributes);
    *out = environment;
    return 0;
}

int environment_parse(struct bytes block, struct environment **environment)
{
    struct variables variables;
    _cleanup_buf_ struct buf attributes = BUF_INIT(ENVIRONMENT_BYTES_MAX);
    *environment = NULL;
    find_variables(block, &variables);
    struct bytes platform = platform_name(&variables);
    int outcome = read_attributes(variables.attributes, &attributes);
    if (outcome < 0)
        return outcome;
    if (outcome)
        buf_clear(&attributes);
    bool service_good = check_name(&variables.service_name), platform_good = check_name(&platform);
    if (!service_good || !platform_good)
        outcome = ENVIRONMENT_MALFORMED;
    int error = environment_new(&variables, platform, buf_bytes(&attributes), environment);
    return error ? error : outcome;
}
