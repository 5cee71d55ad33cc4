/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile server at the socket: whatever it answers, the commands end, and a terminal gets
 * nothing but text. The first byte says which command asks, and whether the rest is the whole
 * answer or its body.
 */
#include "base/buf.h"
#include "client/client.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server {
    int fd;
    struct sockaddr_un address;
    pthread_mutex_t lock; /* of the answer */
    struct buf answer;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void take_path_away(void)
{
    unlink(server.address.sun_path);
}

static void send_answer(int peer)
{
    pthread_mutex_lock(&server.lock);
    size_t sent = 0;
    while (sent < server.answer.len) {
        ssize_t n = send(peer, server.answer.data + sent, server.answer.len - sent, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    pthread_mutex_unlock(&server.lock);
}

static void *serve(void *context)
{
    (void)context;
    for (;;) {
        char request[4096];
        int peer = accept(server.fd, NULL, NULL);
        check(peer >= 0);
        if (recv(peer, request, sizeof(request), 0) > 0)
            send_answer(peer);
        close(peer);
    }
    return NULL;
}

static void start_server(void)
{
    pthread_t thread;
    server.address.sun_family = AF_UNIX;
    snprintf(server.address.sun_path, sizeof(server.address.sun_path), "/tmp/spanprof-fuzz-%d",
             (int)getpid());
    unlink(server.address.sun_path);
    server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(server.fd >= 0 &&
          bind(server.fd, (const struct sockaddr *)&server.address, sizeof(server.address)) == 0);
    atexit(take_path_away);
    check(listen(server.fd, 8) == 0);
    check(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
}

static void set_answer(struct bytes rest, bool is_body)
{
    pthread_mutex_lock(&server.lock);
    buf_clear(&server.answer);
    int error = is_body ? buf_printf(&server.answer,
                                     "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", rest.len)
                        : 0;
    check(!error && !buf_append_bytes(&server.answer, rest));
    pthread_mutex_unlock(&server.lock);
}

/* UTF-8 without control characters, also those that are two bytes. */
static void check_text(struct bytes text)
{
    check(bytes_utf8_valid(text));
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i], next = i + 1 < text.len ? text.data[i + 1] : 0;
        check(c == '\n' || (c >= ' ' && c != 0x7f));
        check(c != 0xc2 || next >= 0xa0);
    }
}

static void ask(char *const *words, int n)
{
    char *out_text = NULL, *err_text = NULL;
    size_t out_size = 0, err_size = 0;
    FILE *out = open_memstream(&out_text, &out_size), *err = open_memstream(&err_text, &err_size);
    check(out && err);
    int code = client_main(n, words, out, err);
    check(fclose(out) == 0 && fclose(err) == 0);
    check(code == 0 || (code == 1 && err_size > 0));
    check_text(BYTES(out_text, out_size));
    check_text(BYTES(err_text, err_size));
    free(out_text);
    free(err_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const commands[][3] = {{"top", "--once", NULL},
                                        {"top", "--by=span", NULL},
                                        {"top", "--by=process", NULL},
                                        {"traces", "--once", NULL},
                                        {"trace", "1", NULL}};
    if (!server.address.sun_family)
        start_server();
    if (size < 1)
        return 0;
    char *const *command = commands[data[0] / 2 % (sizeof(commands) / sizeof(commands[0]))];
    char *words[] = {"spanprof", command[0], command[1], "--socket", server.address.sun_path, NULL};
    set_answer(BYTES(data + 1, size - 1), data[0] % 2);
    ask(words, 5);
    return 0;
}
