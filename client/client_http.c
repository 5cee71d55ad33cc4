/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client_http.h"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define RECEIVE_BYTES ((size_t)64 << 10)

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval wait = {.tv_sec = CLIENT_WAIT_S};
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int error = -errno;
    close(fd);
    return error;
}

static int send_all(int fd, struct bytes request)
{
    while (request.len) {
        ssize_t n = send(fd, request.data, request.len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
        if (n > 0)
            request = BYTES(request.data + n, request.len - (size_t)n);
    }
    return 0;
}

static int http_receive(int fd, struct http_answer *answer)
{
    uint8_t chunk[RECEIVE_BYTES];
    int outcome = HTTP_ANSWER_MORE;
    while (outcome == HTTP_ANSWER_MORE) {
        ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
        struct bytes in = BYTES(chunk, (size_t)n);
        outcome = n ? http_answer_feed(answer, &in) : http_answer_end(answer);
        if (!n && outcome == HTTP_ANSWER_MORE)
            return -EPROTO;
    }
    if (outcome < 0)
        return outcome;
    return outcome == HTTP_ANSWER_MALFORMED ? -EPROTO : answer->cut ? -EMSGSIZE : 0;
}

static int http_ask(int fd, const char *target, struct http_answer *answer)
{
    _cleanup_buf_ struct buf request = BUF_INIT(0);
    int error = buf_printf(
        &request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);
    error = error ? error : send_all(fd, buf_bytes(&request));
    return error ? error : http_receive(fd, answer);
}

int client_http_get(const char *socket_path, const char *target, struct http_answer *answer)
{
    http_answer_begin(answer, CLIENT_ANSWER_MAX);
    int fd = connect_to(socket_path);
    if (fd < 0)
        return fd;
    int error = http_ask(fd, target, answer);
    close(fd);
    return error;
}
