/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is printed can be read again: print-config's output is a configuration with the same meaning
 * (but for redacted headers and keys), and a test holds it to that.
 */
#include "config/keys/format.h"
#include "config/yaml/value.h"
#include <assert.h>
#include <stdio.h>

static void format_number(const struct config_key *key, double value, char out[FORMAT_MAX])
{
    if (key->kind == KEY_DURATION)
        value_format_duration((uint64_t)value, out);
    else
        snprintf(out, FORMAT_MAX, "%.10g", value);
}

static void format_choices(const struct key_choice *choices, char out[FORMAT_MAX])
{
    size_t len = 0;
    out[0] = 0;
    for (; choices->name && len < FORMAT_MAX; choices++)
        len +=
            (size_t)snprintf(out + len, FORMAT_MAX - len, "%s%s", len ? ", " : "", choices->name);
}

void format_range(const struct config_key *key, char out[FORMAT_MAX])
{
    char min[FORMAT_MAX], max[FORMAT_MAX];
    out[0] = 0;
    if (key->kind == KEY_CHOICE) {
        format_choices(key->choices, out);
        return;
    }
    if (key->min >= key->max)
        return;
    format_number(key, key->min, min);
    format_number(key, key->max, max);
    const char *zero = key->flags & (KEY_ZERO_IS_DEFAULT | KEY_ZERO_ALLOWED) ? "0, or " : "";
    const char *power = key->flags & KEY_POWER_OF_TWO ? ", a power of two" : "";
    if (key->kind == KEY_TEXT)
        snprintf(out, FORMAT_MAX, "%.100s to %.100s bytes", min, max);
    else if (key->kind == KEY_TEXTS || key->kind == KEY_HEADERS)
        snprintf(out, FORMAT_MAX, "at most %.100s", max);
    else
        snprintf(out, FORMAT_MAX, "%s%.80s to %.80s%s", zero, min, max, power);
}

const char *format_type(const struct config_key *key)
{
    static const char *const names[] = {
        [KEY_SECTION] = "map",       [KEY_BOOL] = "boolean",     [KEY_COUNT] = "number",
        [KEY_BYTES] = "bytes",       [KEY_MIB] = "MiB",          [KEY_DURATION] = "duration",
        [KEY_RATIO] = "number",      [KEY_LISTEN] = "host:port", [KEY_TARGET] = "host:port or URL",
        [KEY_CHOICE] = "choice",     [KEY_TEXT] = "text",        [KEY_TEXTS] = "list of texts",
        [KEY_HEADERS] = "map",       [KEY_BUILT] = "",           [KEY_URL] = "URL",
        [KEY_IGNORED] = "no effect",
    };
    if (key->kind == KEY_BUILT)
        return key->owner == OWNER_PIPELINE ||
                       (key->owner == OWNER_SERVICE && strcmp(key->path, "extensions") == 0)
                   ? "list of ids"
                   : "map";
    return names[key->kind];
}

static bool is_simple(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_./-";
    return *text && *text != '-' && !value_is_null(text) && value_type(text) == VALUE_TEXT &&
           !text[strspn(text, safe)];
}

int format_text(const char *text, struct buf *out)
{
    if (is_simple(text))
        return buf_append(out, text, strlen(text));
    int error = buf_append(out, "\"", 1);
    for (; *text && !error; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            error = buf_printf(out, "\\%c", c);
        else if (c == '$')
            error = buf_append(out, "$$", 2);
        else if (c < 0x20 || c == 0x7f)
            error = buf_printf(out, "\\x%02x", c);
        else
            error = buf_append(out, &c, 1);
    }
    return error ? error : buf_append(out, "\"", 1);
}

static int format_texts(const struct config_list *list, bool secret, struct buf *out)
{
    int error = buf_append(out, "[", 1);
    for (size_t i = 0; i < list->count && !error; i++) {
        if (i)
            error = buf_append(out, ", ", 2);
        if (!error)
            error = secret ? buf_printf(out, "\"[REDACTED]\"") : format_text(list->items[i], out);
    }
    return error ? error : buf_append(out, "]", 1);
}

static int format_headers(const struct config_exporter_otlp *otlp, struct buf *out)
{
    int error = buf_append(out, "{", 1);
    for (size_t i = 0; i < otlp->n_headers && !error; i++) {
        if (i)
            error = buf_append(out, ", ", 2);
        if (!error)
            error = format_text(otlp->headers[i].name, out);
        if (!error)
            error = buf_printf(out, ": \"[REDACTED]\"");
    }
    return error ? error : buf_append(out, "}", 1);
}

static int format_choice(const struct config_key *key, const void *settings)
{
    const void *field = format_field(key, settings);
    if (key->size == sizeof(bool))
        return *(const bool *)field;
    assert(key->size == sizeof(int));
    return *(const int *)field;
}

static const char *choice_name(const struct config_key *key, const void *settings)
{
    const struct key_choice *choice = key->choices;
    while (choice->name && choice->value != format_choice(key, settings))
        choice++;
    assert(choice->name);
    return choice->name;
}

static int format_duration(uint64_t ns, struct buf *out)
{
    char text[VALUE_DURATION_MAX];
    value_format_duration(ns, text);
    return buf_printf(out, "%s", text);
}

static int format_endpoint(const struct config_endpoint *endpoint, struct buf *out)
{
    char text[VALUE_ENDPOINT_MAX];
    value_format_endpoint(endpoint, text);
    return *text == '[' ? format_text(text, out) : buf_printf(out, "%s", text);
}

static int format_url(const struct config_url *url, struct buf *out)
{
    char address[VALUE_ENDPOINT_MAX], text[VALUE_ENDPOINT_MAX + VALUE_URL_PATH_MAX + 16];
    value_format_endpoint(&url->endpoint, address);
    snprintf(text, sizeof(text), "%s://%s%s",
             url->endpoint.scheme == CONFIG_SCHEME_HTTPS ? "https" : "http", address, url->path);
    return format_text(text, out);
}

int format_value(const struct config_key *key, const void *settings, struct buf *out)
{
    const void *field = format_field(key, settings);
    switch (key->kind) {
    case KEY_BOOL:
        return buf_printf(out, "%s", *(const bool *)field ? "true" : "false");
    case KEY_COUNT:
        return buf_printf(out, "%u", (unsigned)*(const uint32_t *)field);
    case KEY_BYTES:
        return buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
    case KEY_MIB:
        return buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field >> 20);
    case KEY_DURATION:
        return format_duration(*(const uint64_t *)field, out);
    case KEY_RATIO:
        return buf_printf(out, "%.15g", *(const double *)field);
    case KEY_LISTEN:
    case KEY_TARGET:
        return format_endpoint(field, out);
    case KEY_URL:
        return format_url(field, out);
    case KEY_CHOICE:
        return format_text(choice_name(key, settings), out);
    case KEY_TEXT:
        if (key->flags & KEY_SECRET && **(const char *const *)field)
            return buf_printf(out, "\"[REDACTED]\"");
        return format_text(*(const char *const *)field, out);
    case KEY_TEXTS:
        return format_texts(field, key->flags & KEY_SECRET, out);
    case KEY_HEADERS:
        return format_headers(settings, out);
    case KEY_SECTION:
    case KEY_IGNORED:
    case KEY_BUILT:
        break;
    }
    return 0;
}
