/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All errors are reported together, in the order of the file, so that one round of corrections is
 * enough. Keys and values are foreign text: a line is made safe for a terminal when it is written.
 */
#include "config/yaml/diag.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX_BYTES ((size_t)1024)

static const char *diag_vprintf(struct diag *diag, const char *format, va_list args)
{
    char text[LINE_MAX_BYTES];
    vsnprintf(text, sizeof(text), format, args); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    char *copy = arena_dup(diag->arena, text, strlen(text) + 1);
    if (!copy)
        diag->exhausted = true;
    return copy ? copy : "";
}

const char *diag_printf(struct diag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = diag_vprintf(diag, format, args);
    va_end(args);
    return text;
}

const char *diag_path(struct diag *diag, const char *parent, const char *key)
{
    return *parent ? diag_printf(diag, "%.600s::%.200s", parent, key)
                   : diag_printf(diag, "%.200s", key);
}

void diag_error(struct diag *diag, struct config_place place, const char *path, const char *format,
                ...)
{
    size_t i = diag->n_errors++;
    if (i >= CONFIG_ERRORS_MAX)
        return;
    va_list args;
    va_start(args, format);
    diag->errors[i] = (struct diag_entry){place, i, path, diag_vprintf(diag, format, args)};
    va_end(args);
}

void diag_warn(struct diag *diag, struct config_place place, const char *path, const char *format,
               ...)
{
    if (diag->n_warnings >= CONFIG_WARNINGS_MAX)
        return;
    va_list args;
    va_start(args, format);
    const char *message = diag_vprintf(diag, format, args);
    va_end(args);
    for (size_t i = 0; i < diag->n_warnings; i++)
        if (strcmp(diag->warnings[i].path, path) == 0 &&
            strcmp(diag->warnings[i].message, message) == 0)
            return;
    size_t i = diag->n_warnings++;
    diag->warnings[i] = (struct diag_entry){place, i, path, message};
}

static int compare_numbers(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int compare_entries(const void *left, const void *right)
{
    const struct diag_entry *a = left, *b = right;
    int order = compare_numbers(a->place.source, b->place.source);
    if (!order)
        order = compare_numbers(a->place.line, b->place.line);
    if (!order)
        order = compare_numbers(a->place.column, b->place.column);
    return order ? order : compare_numbers(a->order, b->order);
}

/* `file:line:column` or `--set a.b=v`; returns the length written. */
static size_t format_place(const struct diag *diag, struct config_place place, char *out,
                           size_t size)
{
    if (place.source >= diag->n_sources)
        return (size_t)snprintf(out, size, "configuration");
    const struct config_source *source = &diag->sources[place.source];
    int n;
    if (source->kind == CONFIG_SOURCE_SET)
        n = snprintf(out, size, "--set %.120s", source->text);
    else if (place.line == 0)
        n = snprintf(out, size, "%.300s", source->text);
    else
        n = snprintf(out, size, "%.300s:%zu:%zu", source->text, place.line, place.column);
    return (size_t)n;
}

static void format_entry(const struct diag *diag, const struct diag_entry *entry,
                         char line[2 * LINE_MAX_BYTES])
{
    char place[512], text[2 * LINE_MAX_BYTES];
    format_place(diag, entry->place, place, sizeof(place));
    snprintf(text, sizeof(text), "%s: %s%s%s", place, entry->path, *entry->path ? ": " : "",
             entry->message);
    bytes_sanitize(BYTES_STR(text), line, 2 * LINE_MAX_BYTES);
}

int diag_write(struct diag *diag, struct buf *out)
{
    size_t kept = diag->n_errors < CONFIG_ERRORS_MAX ? diag->n_errors : CONFIG_ERRORS_MAX;
    qsort(diag->errors, kept, sizeof(diag->errors[0]), compare_entries);
    int error = 0;
    for (size_t i = 0; i < kept && !error; i++) {
        char line[2 * LINE_MAX_BYTES];
        format_entry(diag, &diag->errors[i], line);
        error = buf_printf(out, "%s\n", line);
    }
    if (!error && diag->n_errors > kept)
        error = buf_printf(out, "... and %zu more errors\n", diag->n_errors - kept);
    return error;
}

const char *diag_warning(struct diag *diag, size_t i)
{
    char line[2 * LINE_MAX_BYTES];
    format_entry(diag, &diag->warnings[i], line);
    return arena_dup(diag->arena, line, strlen(line) + 1);
}
