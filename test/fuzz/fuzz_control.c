/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child that fell to an intruder sends to the supervisor, or to a broker's or reader's other
 * end: messages of any size with any number of descriptors. The input: for each message a byte (how
 * many descriptors), a byte (how long), and its bytes. What is received is whole, and no
 * descriptor stays open but the one that is handed out.
 */
#include "agent-bpf/control.h"
#include "agent-bpf/reader_messages.h"
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void send_any(int socket, struct bytes message, size_t n_fds)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } space = {0};
    struct iovec part = {.iov_base = (void *)message.data, .iov_len = message.len};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds) {
        header.msg_control = space.bytes;
        header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        space.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS,
                                        .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
        for (size_t i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(&space.header) + i * sizeof(int), &socket, sizeof(int));
    }
    (void)sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The lowest number that is free: it is the same again if nothing stayed open. */
static int free_fd(void)
{
    int fd = dup(STDERR_FILENO);
    assert(fd >= 0);
    close(fd);
    return fd;
}

static void receive_control(int socket, size_t n_sent, size_t len)
{
    struct control_message message;
    int fd;
    int error = control_receive(socket, &message, &fd);
    assert(!error == (n_sent <= 1 && len == sizeof(message)));
    assert((fd >= 0) == (!error && n_sent == 1));
    if (fd >= 0)
        close(fd);
}

static void receive_from_reader(int socket, size_t n_sent, size_t len)
{
    static uint8_t datagram[READER_MESSAGE_MAX];
    struct reader_fds fds;
    (void)reader_receive(socket, datagram, &fds);
    assert(fds.n == (!len ? 0 : n_sent < READER_FDS_MAX ? n_sent : READER_FDS_MAX));
    reader_fds_close(&fds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2];
    while (size > 2) {
        size_t n_fds = data[0] % (FDS_MAX + 1),
               len = data[1] % (sizeof(struct control_message) + 4);
        int error = control_pair(fds);
        assert(!error);
        int before = free_fd();
        len = len < size - 2 ? len : size - 2;
        for (int i = 0; i < 2; i++) {
            send_any(fds[0], BYTES(data + 2, len), n_fds);
            i ? receive_from_reader(fds[1], n_fds, len) : receive_control(fds[1], n_fds, len);
            assert(free_fd() == before);
        }
        close(fds[0]);
        close(fds[1]);
        data += 2 + len;
        size -= 2 + len;
    }
    return 0;
}
