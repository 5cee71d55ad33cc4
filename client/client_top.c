/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time by function is one query; by anything else it is a timeline with one bucket.
 */
#include "client/client_top.h"
#include "client/client_text.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define ROWS_DEFAULT   20
#define ROWS_MAX       10000 /* that the server gives */
#define COLUMNS_WIDE   80    /* from here on there is room for modules */
#define COLUMNS_MEDIUM 56    /* and for all numbers */
#define NUMBERS_WIDTH  38    /* of a function, with the spaces behind them */
#define HEADING        "\033[7m"
#define PLAIN          "\033[0m"

static const struct top_view {
    const char *name;
    char key;
    const char *heading;
} views[] = {
    {"function", 'f', "FUNCTION"}, {"service", 's', "SERVICE"}, {"span", 'n', "SPAN, SERVICE"},
    {"thread", 't', "THREAD"},     {"process", 'p', "PROCESS"}, {"container", 'c', "CONTAINER"},
    {"host", 'h', "HOST"},
};
#define N_VIEWS (sizeof(views) / sizeof(views[0]))

static bool shows_functions(const struct top *top)
{
    return top->view == &views[0];
}

static bool is_by_total(const struct top *top)
{
    return strcmp(top->order, "total") == 0;
}

/* ---- lines ---- */

static double top_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* 12.3 %  1.25 s */
static int put_share(struct buf *out, double part_ns, double all_ns, bool with_time)
{
    int error = buf_printf(out, "%5.1f %%  ", top_percent(part_ns, all_ns));
    return error || !with_time ? error : client_put_duration(out, part_ns, 8);
}

static int put_function(const struct top *top, const struct value *function, double all_ns,
                        struct buf *out)
{
    bool wide = top->columns >= COLUMNS_WIDE, medium = top->columns >= COLUMNS_MEDIUM;
    double self_ns = value_number(function, "self_ns");
    double total_ns = value_number(function, "total_ns");
    size_t left = top->columns - NUMBERS_WIDTH;
    if (!medium) {
        int error = put_share(out, is_by_total(top) ? total_ns : self_ns, all_ns, false);
        return error ? error
                     : client_put_text(out, value_text(function, "function"), top->columns, false);
    }
    int error = put_share(out, self_ns, all_ns, true);
    error = error ? error : put_share(out, total_ns, all_ns, true);
    error = error ? error
                  : client_put_text(out, value_text(function, "function"), wide ? left / 2 : left,
                                    wide);
    if (error || !wide)
        return error;
    struct bytes place = value_text(function, "module");
    if (!place.len) /* a runtime's */
        place = value_text(function, "file");
    error = buf_append(out, "  ", 2);
    return error ? error : client_put_text(out, place, left - left / 2 - 2, false);
}

/* A span with its service, a process with its number. */
static int put_name(const struct value *series, struct buf *out)
{
    struct bytes name = value_text(series, "name"), service = value_text(series, "service");
    double pid = value_number(series, "pid");
    if (!name.len)
        name = value_get(series, "others") ? BYTES_LIT("(all others)") : BYTES_LIT("(none)");
    int error = client_put_text(out, name, name.len, false);
    if (!error && service.len)
        error = buf_append(out, "  ", 2);
    error = error ? error : client_put_text(out, service, service.len, false);
    return error || pid <= 0 ? error : buf_printf(out, "  %.0f", pid);
}

static int put_series(const struct top *top, const struct value *series, double all_ns,
                      struct buf *out)
{
    bool medium = top->columns >= COLUMNS_MEDIUM;
    int error = put_share(out, value_number(series, "cpu_ns"), all_ns, medium);
    if (!error && medium)
        error = buf_printf(out, "%8.0f  ", value_number(series, "samples"));
    return error ? error : put_name(series, out);
}

/* Cut to the terminal. */
static int end_line(const struct top *top, const struct buf *line, struct buf *text)
{
    int error = client_put_text(text, buf_bytes(line), top->columns, false);
    return error ? error : buf_append(text, "\n", 1);
}

static int put_row(const struct top *top, const struct value *row, double all_ns, struct buf *text)
{
    _cleanup_buf_ struct buf line = BUF_INIT(0);
    int error = shows_functions(top) ? put_function(top, row, all_ns, &line)
                                     : put_series(top, row, all_ns, &line);
    return error ? error : end_line(top, &line, text);
}

/* ---- the whole ---- */

struct sums {
    double cpu_ns, samples, waiting, range_s;
};

static struct sums sums_of(const struct top *top, const struct value *root)
{
    struct sums sums = {.cpu_ns = value_number(root, "cpu_ns"),
                        .samples = value_number(root, "samples"),
                        .waiting = value_number(root, "waiting_samples"),
                        .range_s =
                            (value_number(root, "to_ms") - value_number(root, "from_ms")) / 1000};
    if (shows_functions(top))
        return sums;
    sums.range_s = value_number(root, "bucket_ms") / 1000; /* nor has it the other sums */
    for (const struct value *row = value_items(root, "series"); row; row = row->next) {
        sums.cpu_ns += value_number(row, "cpu_ns");
        sums.samples += value_number(row, "samples");
    }
    return sums;
}

static const char *heading_of_numbers(const struct top *top)
{
    bool medium = top->columns >= COLUMNS_MEDIUM;
    if (!medium)
        return !shows_functions(top) ? "    CPU" : is_by_total(top) ? "  TOTAL" : "   SELF";
    return shows_functions(top) ? "   SELF            "
                                  "  TOTAL          "
                                : "    CPU             SAMPLES";
}

static int put_heading(const struct top *top, struct buf *text)
{
    _cleanup_buf_ struct buf line = BUF_INIT(0);
    bool modules = shows_functions(top) && top->columns >= COLUMNS_WIDE;
    int error = buf_printf(&line, "%s  %s%s", heading_of_numbers(top), top->view->heading,
                           modules ? ", MODULE" : "");
    if (!error && top->styled)
        error = buf_append(text, HEADING, strlen(HEADING));
    error = error ? error : client_put_text(text, buf_bytes(&line), top->columns, top->styled);
    if (!error && top->styled)
        error = buf_append(text, PLAIN, strlen(PLAIN));
    return error ? error : buf_append(text, "\n", 1);
}

static int put_summary(const struct top *top, const struct sums *sums, struct buf *text)
{
    char cpu[CLIENT_DURATION_MAX];
    _cleanup_buf_ struct buf line = BUF_INIT(0);
    int error = buf_printf(&line, "%s of CPU time in %.0f s, %.0f samples",
                           client_duration(sums->cpu_ns, cpu), sums->range_s, sums->samples);
    if (!error && sums->waiting > 0)
        error = buf_printf(&line, "; %.0f on this node still wait for their span", sums->waiting);
    error = error ? error : end_line(top, &line, text);
    return error ? error : buf_append(text, "\n", 1);
}

static int put_answer(const struct top *top, const struct value *root, struct buf *text)
{
    const struct sums sums = sums_of(top, root);
    const struct value *row = value_items(root, shows_functions(top) ? "functions" : "series");
    int error = put_summary(top, &sums, text);
    error = error ? error : put_heading(top, text);
    for (size_t i = 0; !error && row && i < top->rows; i++, row = row->next)
        error = put_row(top, row, sums.cpu_ns, text);
    return error;
}

/* ---- asking ---- */

static const char *path_of(const struct top *top)
{
    return shows_functions(top) ? "/api/functions" : "/api/timeline";
}

static int add_parameters(const struct top *top)
{
    struct client *client = top->client;
    if (shows_functions(top)) {
        int error = client_parameter(client, "order", BYTES_STR(top->order));
        return error || !client->limit
                   ? error
                   : client_parameter(client, "limit", BYTES_STR(client->limit));
    }
    int error = client_parameter(client, "by", BYTES_STR(top->view->name));
    return error ? error : client_parameter(client, "buckets", BYTES_LIT("1"));
}

int top_put(const struct top *top, struct buf *text)
{
    struct client *client = top->client;
    struct client_tree tree;
    size_t before = client->query.len;
    int error = add_parameters(top);
    if (error)
        return client_fail(client, error, "cannot ask");
    error = client_ask_json(client, path_of(top), &tree);
    client->query.len = before;
    if (!error) {
        error = put_answer(top, &tree.root, text);
        error = error ? client_fail(client, error, "cannot print") : 0;
    }
    client_tree_close(&tree);
    return error;
}

static int top_print_json(const struct top *top)
{
    int error = add_parameters(top);
    return error ? client_fail(top->client, error, "cannot ask")
                 : client_print_answer(top->client, path_of(top));
}

/* ---- what is shown ---- */

static int read_limit(struct top *top)
{
    char *end;
    const char *text = top->client->limit;
    unsigned long rows = text ? strtoul(text, &end, 10) : ROWS_DEFAULT;
    top->rows = rows;
    if (!text || (*text >= '0' && *text <= '9' && !*end && rows && rows <= ROWS_MAX))
        return 0;
    fprintf(top->client->err, "spanprof: --limit is a number of rows, 1 to %d\n", ROWS_MAX);
    return -EINVAL;
}

/* Functions by self time, unless --by, --order and --limit say otherwise. -EINVAL: it was printed
 * what is wrong with them. */
static int top_begin(struct client *client, struct top *top)
{
    *top = (struct top){.client = client,
                        .view = &views[0],
                        .order = client->order ? client->order : "self",
                        .columns = client_columns(client)};
    for (size_t i = 0; client->by && i < N_VIEWS; i++)
        if (strcmp(views[i].name, client->by) == 0)
            top->view = &views[i];
    if (!client->by || strcmp(top->view->name, client->by) == 0)
        return read_limit(top);
    fputs("spanprof: --by is function, service, span, thread, process, container or host\n",
          client->err);
    return -EINVAL;
}

bool top_take_key(struct top *top, char key)
{
    if (key == 'o') {
        top->order = is_by_total(top) ? "self" : "total";
        return true;
    }
    for (size_t i = 0; i < N_VIEWS; i++)
        if (views[i].key == key) {
            top->view = &views[i];
            return true;
        }
    return false;
}

int top_put_keys(const struct top *top, struct buf *text)
{
    _cleanup_buf_ struct buf line = BUF_INIT(0);
    int error = buf_printf(&line, "q ends  by");
    for (size_t i = 0; !error && i < N_VIEWS; i++)
        error = buf_printf(&line, "  %c %s", views[i].key, views[i].name);
    if (!error && shows_functions(top))
        error = buf_printf(&line, "  o order: %s", is_by_total(top) ? "total" : "self");
    return error ? error : client_put_text(text, buf_bytes(&line), top->columns, false);
}

/* ---- the command ---- */

int client_put_top(struct client *client, size_t rows, struct buf *text)
{
    struct top top;
    int error = top_begin(client, &top);
    top.rows = rows;
    return error ? error : top_put(&top, text);
}

static bool asks_for(const struct client *client, const char *parameter)
{
    const struct buf *query = &client->query;
    return query->len && memmem(query->data, query->len, parameter, strlen(parameter));
}

static int print_once(const struct top *top)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    int error = top_put(top, &text);
    return error ? error : client_show(top->client, &text);
}

int client_top(struct client *client)
{
    struct top top;
    bool live = !client->once && isatty(fileno(client->out)) && isatty(STDIN_FILENO);
    if (top_begin(client, &top))
        return 2;
    if (!asks_for(client, "from=") && !asks_for(client, "trace_id=") &&
        client_parameter(client, "from", BYTES_LIT("-1m")))
        return client_fail(client, -ENOMEM, "cannot ask");
    if (client->json)
        return top_print_json(&top);
    return live ? top_live(&top) : print_once(&top);
}
