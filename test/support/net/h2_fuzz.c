/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/net/h2_fuzz.h"
#include <stdlib.h>
#include <sys/socket.h>

enum { LAST_ROUNDS = 4 };

static void turn(struct loop *loop, int fd)
{
    uint8_t answer[65536];
    if (loop_once(loop, 0))
        abort();
    while (recv(fd, answer, sizeof(answer), MSG_DONTWAIT) > 0)
        continue;
}

void h2_fuzz_feed(struct loop *loop, int fd, struct bytes bytes, size_t piece)
{
    while (bytes.len) {
        size_t n = bytes.len < piece ? bytes.len : piece;
        ssize_t sent = send(fd, bytes.data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            break; /* ours has closed */
        bytes.data += sent;
        bytes.len -= (size_t)sent;
        turn(loop, fd);
    }
    for (int i = 0; i < LAST_ROUNDS; i++)
        turn(loop, fd);
}
