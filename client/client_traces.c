/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces as a table, and one of them as a waterfall.
 */
#include "client/client_ask.h"
#include "client/client_text.h"

#define NUMBERS_WIDTH 30 /* of the columns before the names */
#define ID_WIDTH      32

/* ---- traces ---- */

static int put_trace_row(struct buf *out, const struct value *trace, size_t columns)
{
    size_t left = columns > NUMBERS_WIDTH + 36 ? columns - NUMBERS_WIDTH - 36 : 20;
    int error = client_put_duration(out, value_number(trace, "duration_ns"), 8);
    error = error ? error : client_put_duration(out, value_number(trace, "cpu_ns"), 8);
    error = error ? error : buf_printf(out, "%5.0f  ", value_number(trace, "spans"));
    error = error ? error : client_put_text(out, value_text(trace, "trace_id"), 32, true);
    error = error ? error : buf_append(out, "  ", 2);
    error = error ? error : client_put_text(out, value_text(trace, "service"), left / 4, true);
    error = error ? error : buf_append(out, " ", 1);
    error = error ? error : client_put_text(out, value_text(trace, "name"), left / 3, true);
    error = error ? error : buf_append(out, " ", 1);
    error = error ? error
                  : client_put_text(out, value_text(trace, "top_function"),
                                    left - left / 4 - left / 3, false);
    return error ? error : buf_append(out, "\n", 1);
}

static int put_traces(const struct client *client, const struct value *root, struct buf *out)
{
    const struct value *trace = value_items(root, "traces");
    if (!trace)
        return buf_printf(out, "no traces; spans must be sent to spanprof, and --from may reach "
                               "further back\n");
    int error = buf_printf(out, "    WALL       CPU   SPANS  %-32s  SERVICE, SPAN, TOP FUNCTION\n",
                           "TRACE");
    for (; !error && trace; trace = trace->next)
        error = put_trace_row(out, trace, client_columns(client));
    return error;
}

int client_traces(struct client *client)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct client_tree tree;
    if (client->json)
        return client_print_answer(client, "/api/traces");
    int error = client_ask_json(client, "/api/traces", &tree);
    if (!error) {
        error = put_traces(client, &tree.root, &text);
        error = error ? client_fail(client, error, "cannot print") : client_show(client, &text);
    }
    client_tree_close(&tree);
    return error;
}

/* ---- a trace ---- */

struct waterfall {
    double trace_ns;
    size_t name_width, bar_width;
};

/* The span's time as a line of its length; where it was on a CPU as a block. */
static int put_bar(struct buf *out, const struct waterfall *waterfall, const struct value *span)
{
    enum { NOTHING, WALL, CPU };
    static const char *const marks[] = {" ", "─", "█"};
    uint8_t cells[512] = {NOTHING};
    size_t n = waterfall->bar_width < sizeof(cells) ? waterfall->bar_width : sizeof(cells);
    double cell_ns = waterfall->trace_ns / (double)n, start_ns = value_number(span, "start_ns");
    double end_ns = start_ns + value_number(span, "duration_ns");
    for (size_t i = 0; i < n; i++)
        if ((double)(i + 1) * cell_ns > start_ns && (double)i * cell_ns < end_ns)
            cells[i] = WALL;
    for (const struct value *busy = value_items(span, "busy"); busy; busy = busy->next) {
        const struct value *offset = busy->first, *length = offset ? offset->next : NULL;
        double from = start_ns + (offset ? offset->number : 0);
        double to = from + (length ? length->number : 0);
        for (size_t i = 0; i < n; i++)
            if ((double)(i + 1) * cell_ns > from && (double)i * cell_ns < to)
                cells[i] = CPU;
    }
    int error = 0;
    for (size_t i = 0; !error && i < n; i++)
        error = buf_append(out, marks[cells[i]], strlen(marks[cells[i]]));
    return error;
}

static int put_span(struct buf *out, const struct waterfall *waterfall, const struct value *span)
{
    double depth = value_number(span, "depth"), deepest = 0.25 * (double)waterfall->name_width;
    size_t indent = 2 * (size_t)(depth < 0 ? 0 : depth < deepest ? depth : deepest);
    bool known = value_number(span, "known") != 0;
    int error = buf_printf(out, "%*s", (int)indent, "");
    error = error ? error
                  : client_put_text(
                        out, known ? value_text(span, "name") : BYTES_LIT("(span has not come)"),
                        waterfall->name_width - indent, true);
    error = error ? error : buf_append(out, " ", 1);
    error = error ? error : put_bar(out, waterfall, span);
    error = error ? error : buf_append(out, " ", 1);
    error = error ? error : client_put_duration(out, value_number(span, "duration_ns"), 8);
    error = error ? error : client_put_duration(out, value_number(span, "cpu_ns"), 8);
    error = error ? error : client_put_text(out, value_text(span, "top_function"), 40, false);
    return error ? error : buf_append(out, "\n", 1);
}

static int put_trace(const struct client *client, const struct value *root, struct buf *out)
{
    size_t columns = client_columns(client), left = columns > 72 ? columns - 32 : 40;
    struct waterfall waterfall = {.trace_ns = value_number(root, "duration_ns"),
                                  .name_width = left * 2 / 5,
                                  .bar_width = left * 3 / 5};
    char wall[CLIENT_DURATION_MAX], cpu[CLIENT_DURATION_MAX];
    struct bytes id = value_text(root, "trace_id");
    int error = buf_append_bytes(out, BYTES_LIT("trace "));
    error = error ? error : client_put_text(out, id, ID_WIDTH, false);
    error = error ? error
                  : buf_printf(out, ": %s, of that %s on a CPU (%.0f samples)\n\n",
                               client_duration(waterfall.trace_ns, wall),
                               client_duration(value_number(root, "cpu_ns"), cpu),
                               value_number(root, "samples"));
    for (const struct value *span = value_items(root, "spans"); !error && span; span = span->next)
        error = put_span(out, &waterfall, span);
    error = error ? error
                  : buf_append_bytes(out,
                                     BYTES_LIT("\n─ running, █ on a CPU; spanprof flame --trace "));
    error = error ? error : client_put_text(out, id, ID_WIDTH, false);
    return error ? error : buf_append_bytes(out, BYTES_LIT(" -o trace.svg draws its functions\n"));
}

int client_trace(struct client *client)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    struct client_tree tree;
    int error =
        client->n_words ? client_parameter(client, "trace_id", BYTES_STR(client->words[0])) : 0;
    if (error)
        return error;
    if (client->json)
        return client_print_answer(client, "/api/trace");
    error = client_ask_json(client, "/api/trace", &tree);
    if (!error) {
        error = put_trace(client, &tree.root, &text);
        error = error ? client_fail(client, error, "cannot print") : client_show(client, &text);
    }
    client_tree_close(&tree);
    return error;
}
