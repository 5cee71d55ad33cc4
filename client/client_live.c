/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses the terminal's alternate screen, so that the text before comes back at the end. Without an
 * answer, perhaps because spanprof restarts, the screen says so and asks again.
 */
#include "client/client_text.h"
#include "client/client_top.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define REFRESH_MS    2000
#define ROWS_AROUND   5 /* head and foot */
#define HOME          "\033[H"
#define CLEAR_REST    "\033[J" /* from here to the end of the screen */
#define OTHER_SCREEN  "\033[?1049h\033[?25l"
#define FORMER_SCREEN "\033[?25h\033[?1049l"
#define ESCAPE        '\033'

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    if (number != SIGWINCH) /* which only ends the waiting */
        ended = 1;
}

struct terminal {
    struct termios before;
    bool is_raw;
};

static void terminal_begin(struct terminal *terminal, const struct client *client)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    const struct sigaction action = {.sa_handler = on_signal};
    struct termios raw;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
    terminal->is_raw = tcgetattr(STDIN_FILENO, &terminal->before) == 0;
    if (terminal->is_raw) {
        raw = terminal->before;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs(OTHER_SCREEN, client->out);
}

static void terminal_end(const struct terminal *terminal, const struct client *client)
{
    if (terminal->is_raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
    fputs(FORMER_SCREEN, client->out);
    fflush(client->out);
}

static size_t terminal_rows(const struct client *client)
{
    struct winsize size;
    if (ioctl(fileno(client->out), TIOCGWINSZ, &size) != 0 || !size.ws_row)
        return SIZE_MAX;
    return size.ws_row > ROWS_AROUND ? size.ws_row - ROWS_AROUND : 1;
}

/* ---- the screen ---- */

/* One sentence was said: why there is no answer, or behind it, in the line that is left empty else,
 * that it is not whole. */
static int put_said(const struct top *top, struct bytes said, bool instead, struct buf *text)
{
    if (!instead)
        return client_put_text(text, said, top->columns, false);
    int error = client_put_text(text, said, said.len, false);
    return error ? error : buf_append(text, "\n", 1);
}

static int put_answer(const struct top *top, struct buf *text)
{
    struct client *client = top->client;
    FILE *err = client->err;
    char *said = NULL;
    size_t size = 0, before = text->len;
    client->err = open_memstream(&said, &size);
    int error = client->err ? top_put(top, text) : -ENOMEM;
    if (client->err)
        fclose(client->err);
    client->err = err;
    if (size) {
        text->len = error ? before : text->len;
        error = put_said(top, BYTES(said, size - 1), error != 0, text);
    }
    free(said);
    return error;
}

/* Line by line over what was there; the cursor ends where it covers nothing. */
static int put_screen(struct bytes text, struct buf *screen)
{
    int error = buf_append(screen, HOME CLEAR_REST, strlen(HOME CLEAR_REST));
    for (size_t i = 0; !error && i < text.len; i++) {
        error = buf_append(screen, &text.data[i], 1);
        if (!error && text.data[i] == '\n')
            error = buf_append(screen, CLEAR_REST, strlen(CLEAR_REST));
    }
    return error ? error : buf_append(screen, "\r", 1);
}

static int show_screen(const struct top *asked)
{
    _cleanup_buf_ struct buf text = BUF_INIT(0), screen = BUF_INIT(0);
    struct top top = *asked;
    size_t rows = terminal_rows(top.client);
    top.columns = client_columns(top.client);
    top.rows = rows < top.rows ? rows : top.rows;
    int error = put_answer(&top, &text);
    error = error ? error : buf_append(&text, "\n", 1);
    error = error ? error : top_put_keys(&top, &text);
    error = error ? error : put_screen(buf_bytes(&text), &screen);
    return error ? error : client_show(top.client, &screen);
}

/* ---- keys ---- */

/* The last byte of what an arrow or the like sends: ESC [ digits, and a letter. */
static size_t end_of_escape(const char *keys, size_t n, size_t at)
{
    if (at + 1 < n && (keys[at + 1] == '[' || keys[at + 1] == 'O'))
        for (at += 2; at < n && keys[at] < '@'; at++)
            ;
    return at;
}

/* False: it is to end. */
static bool take_keys(struct top *top)
{
    char keys[32];
    ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
    if (n <= 0)
        return n < 0 && errno == EINTR;
    for (size_t i = 0; i < (size_t)n; i++) {
        if (keys[i] == ESCAPE)
            i = end_of_escape(keys, (size_t)n, i);
        else if (keys[i] == 'q')
            return false;
        else
            top_take_key(top, keys[i]);
    }
    return true;
}

static bool wait_for_keys(struct top *top)
{
    struct pollfd terminal = {.fd = STDIN_FILENO, .events = POLLIN};
    if (!ended && poll(&terminal, 1, REFRESH_MS) > 0 && !take_keys(top))
        return false;
    return !ended;
}

int top_live(struct top *top)
{
    struct terminal terminal;
    _cleanup_buf_ struct buf first = BUF_INIT(0);
    int error = top_put(
        top, &first); /* an error at the start is printed on the normal screen, where it stays */
    if (error)
        return error;
    top->styled = true;
    if (!top->client->limit)
        top->rows = SIZE_MAX;
    terminal_begin(&terminal, top->client);
    do
        error = show_screen(top);
    while (!error && wait_for_keys(top));
    terminal_end(&terminal, top->client);
    return error;
}
