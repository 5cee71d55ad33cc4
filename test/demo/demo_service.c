/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's service: one thread accepts connections, workers take them from a queue and answer one
 * request each (demo_shop.c).
 *     demo_service PORT OTLP-HTTP-HOST:PORT
 */
#include "test/demo/demo_shop.h"
#include "test/demo/demo_trace.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define WORKERS     4
#define QUEUE_SIZE  64
#define REQUEST_MAX 2048

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int connections[QUEUE_SIZE];
    unsigned first, count;
    bool closed;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* A full queue hangs up: the client tries again. */
static void queue_put(int connection)
{
    pthread_mutex_lock(&queue.lock);
    if (queue.count == QUEUE_SIZE)
        close(connection);
    else
        queue.connections[(queue.first + queue.count++) % QUEUE_SIZE] = connection;
    pthread_cond_signal(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

static int queue_take(void)
{
    int connection = -1;
    pthread_mutex_lock(&queue.lock);
    while (!queue.count && !queue.closed)
        pthread_cond_wait(&queue.changed, &queue.lock);
    if (queue.count) {
        connection = queue.connections[queue.first];
        queue.first = (queue.first + 1) % QUEUE_SIZE;
        queue.count--;
    }
    pthread_mutex_unlock(&queue.lock);
    return connection;
}

static void queue_close(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.closed = true;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

static bool read_request(int connection, char *request)
{
    size_t size = 0;
    while (size < REQUEST_MAX - 1) {
        ssize_t n = recv(connection, request + size, REQUEST_MAX - 1 - size, 0);
        if (n <= 0)
            return false;
        size += (size_t)n;
        request[size] = 0;
        if (strstr(request, "\r\n\r\n"))
            return true;
    }
    return false;
}

static void answer(int connection)
{
    char request[REQUEST_MAX], path[REQUEST_MAX], body[512], text[1024];
    const struct timeval patience = {.tv_sec = 5};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (!read_request(connection, request) || sscanf(request, "GET %2047s", path) != 1)
        return;
    int length = demo_shop_serve(path, body, sizeof(body));
    int size = snprintf(text, sizeof(text),
                        "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%.*s",
                        length ? "200 OK" : "404 Not Found", length, length, length ? body : "");
    send(connection, text, (size_t)size, MSG_NOSIGNAL);
}

static void *work(void *unused)
{
    for (int connection; (connection = queue_take()) >= 0; close(connection))
        answer(connection);
    return unused;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, QUEUE_SIZE))
        return -1;
    return fd;
}

static volatile sig_atomic_t stopping;

static void stop(int number)
{
    (void)number;
    stopping = 1;
}

/* Only the accepting thread takes the signals, so that accept() is what they interrupt. */
static void start_workers(pthread_t threads[WORKERS])
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            abort();
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

int main(int argc, char **argv)
{
    pthread_t threads[WORKERS];
    if (argc != 3)
        return fprintf(stderr, "usage: demo_service PORT OTLP-HTTP-HOST:PORT\n"), 2;
    int listener = listen_on((uint16_t)atoi(argv[1]));
    if (listener < 0)
        return perror("listen"), 1;
    if (demo_shop_open() || demo_trace_open("shop", argv[2]))
        return fprintf(stderr, "cannot start tracing to %s\n", argv[2]), 1;
    start_workers(threads);
    const struct sigaction action = {.sa_handler = stop}; /* no SA_RESTART */
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    while (!stopping) {
        int connection = accept(listener, NULL, NULL);
        if (connection >= 0)
            queue_put(connection);
    }
    queue_close();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    demo_trace_close();
    close(listener);
    return 0;
}
