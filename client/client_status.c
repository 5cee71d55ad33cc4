/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that were sampled, each with what it is, what its frames are read by, how many of
 * its samples are in spans; why not all, why its functions have no names, and the one switch for
 * each. Commands to be copied are lines of their own.
 */
#include "client/client_ask.h"
#include "client/client_text.h"
#include <stdio.h>

#define NUMBERS_WIDTH 45 /* of the columns before the names */
#define FRAMES_WIDTH  12
#define INDENT        4
#define SENTENCE_MIN  40
#define SENTENCE_MAX  100

static const char silent[] =
    "No spans are known to come from processes of which nothing is said. If one is traced: point\n"
    "its OTLP exporter at this node, and set OTEL_SERVICE_NAME, by which its spans are recognised.";

/* ---- texts ---- */

static size_t sentence_width(const struct client *client)
{
    size_t columns = client_columns(client);
    size_t width = columns > INDENT ? columns - INDENT : 0;
    return width < SENTENCE_MIN ? SENTENCE_MIN : width > SENTENCE_MAX ? SENTENCE_MAX : width;
}

/* Where a line of at most `width` bytes ends: behind its last whole word. */
static size_t line_end(struct bytes text, size_t width)
{
    if (text.len <= width)
        return text.len;
    for (size_t i = width; i > 0; i--)
        if (text.data[i] == ' ')
            return i;
    return text.len; /* one long word */
}

/* Indented lines. */
static int put_sentence(struct buf *out, struct bytes text, size_t width)
{
    int error = 0;
    while (text.len && !error) {
        size_t end = line_end(text, width);
        error = buf_printf(out, "%*s", INDENT, "");
        error = error ? error : client_put_text(out, BYTES(text.data, end), end, false);
        error = error ? error : buf_append(out, "\n", 1);
        end += end < text.len; /* the space */
        text = BYTES(text.data + end, text.len - end);
    }
    return error;
}

/* Whole, to be copied. */
static int put_line(struct buf *out, const char *label, struct bytes text)
{
    if (!text.len)
        return 0;
    int error = buf_printf(out, "%*s%-8s ", INDENT, "", label);
    error = error ? error : client_put_text(out, text, text.len, false);
    return error ? error : buf_append(out, "\n", 1);
}

/* ---- parts ---- */

static void status_duration(double s, char out[32])
{
    unsigned long long all = s > 0 ? (unsigned long long)s : 0;
    if (all >= 86400)
        snprintf(out, 32, "%llu d %llu h", all / 86400, all % 86400 / 3600);
    else if (all >= 3600)
        snprintf(out, 32, "%llu h %llu min", all / 3600, all % 3600 / 60);
    else if (all >= 60)
        snprintf(out, 32, "%llu min %llu s", all / 60, all % 60);
    else
        snprintf(out, 32, "%llu s", all);
}

static int put_head(const struct value *root, struct buf *out)
{
    char runs[32];
    status_duration(value_number(root, "uptime_s"), runs);
    int error = buf_append_bytes(out, BYTES_LIT("spanprof "));
    error = error ? error : client_put_text(out, value_text(root, "version"), 40, false);
    error = error ? error : buf_append_bytes(out, BYTES_LIT(" on "));
    error = error ? error : client_put_text(out, value_text(root, "host"), 64, false);
    return error ? error : buf_printf(out, ", runs for %s\n\n", runs);
}

static int put_problems(const struct value *root, size_t width, struct buf *out)
{
    const struct value *problem = value_items(root, "problems");
    if (!problem)
        return buf_printf(out, "No known problems.\n\n");
    int error = buf_printf(out, "What to do\n");
    for (; problem && !error; problem = problem->next) {
        struct bytes what = value_text(problem, "what");
        error = buf_append_bytes(out, BYTES_LIT("  * "));
        error = error ? error : client_put_text(out, what, what.len, false);
        error = error ? error : buf_append(out, "\n", 1);
        error = error ? error : put_sentence(out, value_text(problem, "do"), width);
    }
    return error ? error : buf_append(out, "\n", 1);
}

/* OpenTelemetry's name where there is none. */
static bool is_unknown(struct bytes service)
{
    const struct bytes unknown = BYTES_LIT("unknown_service");
    return service.len >= unknown.len && !memcmp(service.data, unknown.data, unknown.len);
}

/* python3.11 4711 and 3 more, shop */
static int put_who(const struct value *process, struct buf *out)
{
    struct bytes name = value_text(process, "executable"), service = value_text(process, "service");
    bool named = service.len && !is_unknown(service);
    double pid = value_number(process, "pid"), n = value_number(process, "count");
    int error = client_put_text(out, name, name.len, false);
    if (!error && pid > 0)
        error = buf_printf(out, " %.0f", pid);
    if (!error && n > 1)
        error = buf_printf(out, " and %.0f more", n - 1);
    if (error || !named)
        return error;
    error = buf_append_bytes(out, BYTES_LIT(", "));
    return error ? error : client_put_text(out, service, service.len, false);
}

static int put_share(const struct value *process, struct buf *out)
{
    double samples = value_number(process, "samples"), in_span = value_number(process, "in_span");
    if (samples <= 0 || in_span <= 0)
        return buf_printf(out, "      –  "); /* as long as the other */
    return buf_printf(out, "%5.1f %%  ", 100 * in_span / samples);
}

/* Of most processes of a node no spans come: said once, below. */
static bool is_silent(const struct value *process)
{
    return value_number(process, "pid") > 0 && value_number(process, "sends_spans") < 1 &&
           bytes_is(value_text(process, "publisher"), "none");
}

/* Why functions have no names, and what gives them some. */
static int put_frames(const struct value *frames, size_t width, struct buf *out)
{
    const struct value *line = value_get(frames, "switch");
    int error = put_sentence(out, value_text(frames, "why"), width);
    error = error ? error : put_line(out, "names:", value_text(line, "line"));
    return error ? error : put_line(out, "", value_text(line, "where"));
}

static int put_process(const struct client *client, const struct value *process, struct buf *out)
{
    _cleanup_buf_ struct buf who = BUF_INIT(0);
    const struct value *line = value_get(process, "switch");
    const struct value *frames = value_get(process, "frames");
    size_t columns = client_columns(client);
    int error = client_put_duration(out, value_number(process, "cpu_ns"), 8);
    error = error ? error : put_share(process, out);
    error = error ? error : client_put_text(out, value_text(process, "runtime"), 8, true);
    error = error ? error : buf_append(out, "  ", 2);
    error = error ? error : client_put_text(out, value_text(frames, "text"), FRAMES_WIDTH, true);
    error = error ? error : buf_append(out, "  ", 2);
    error = error ? error : put_who(process, &who);
    error =
        error ? error
              : client_put_text(out, buf_bytes(&who),
                                columns > NUMBERS_WIDTH + 20 ? columns - NUMBERS_WIDTH : 20, false);
    error = error ? error : buf_append(out, "\n", 1);
    if (!error && !is_silent(process))
        error = put_sentence(out, value_text(process, "why"), sentence_width(client));
    error = error ? error : put_line(out, "switch:", value_text(line, "line"));
    error = error ? error : put_line(out, "", value_text(line, "where"));
    error = error ? error : put_line(out, "by hand:", value_text(line, "by_hand"));
    return error ? error : put_frames(frames, sentence_width(client), out);
}

static int put_status(const struct client *client, const struct value *root, struct buf *out)
{
    const struct value *process = value_items(root, "processes");
    double more = value_number(root, "more_processes");
    int error = put_head(root, out);
    error = error ? error : put_problems(root, sentence_width(client), out);
    if (!error && !process)
        return buf_printf(out, "No process was sampled yet.\n");
    error = error
                ? error
                : buf_printf(out, "     CPU  IN SPANS  RUNTIME   FRAMES        PROCESS, SERVICE\n");
    for (; process && !error; process = process->next)
        error = put_process(client, process, out);
    if (!error && more > 0)
        error = buf_printf(out, "and %.0f processes with less CPU time\n", more);
    return error ? error : buf_printf(out, "\n%s\n", silent);
}

int client_status(struct client *client)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct client_tree tree;
    if (client->json)
        return client_print_answer(client, "/api/status");
    int error = client_ask_json(client, "/api/status", &tree);
    if (!error) {
        error = put_status(client, &tree.root, &text);
        error = error ? client_fail(client, error, "cannot print") : client_show(client, &text);
    }
    client_tree_close(&tree);
    return error;
}
