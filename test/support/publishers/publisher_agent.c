/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/publishers/publisher_agent.h"
#include "test/support/workloads/workload_burn.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_CPU = 1, MESSAGE_REGISTRATION = 2, CPU_SIZE = 46, REGISTRATION_MIN = 12 };

static int listening;

static uint16_t u16_at(const uint8_t *data)
{
    uint16_t value;
    memcpy(&value, data, sizeof(value));
    return value;
}

static uint32_t u32_at(const uint8_t *data)
{
    uint32_t value;
    memcpy(&value, data, sizeof(value));
    return value;
}

static const char *hex(const uint8_t *bytes, size_t size, char *text)
{
    for (size_t i = 0; i < size; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    return text;
}

static void tell_cpu(const uint8_t *data, size_t size, int sender)
{
    char trace[33], root[17], stack[33];
    printf("{\"type\":\"cpu\",\"sender\":%d,\"size\":%zu,\"trace_id\":\"%s\",\"root_id\":\"%s\","
           "\"stack_id\":\"%s\",\"count\":%u,\"time\":%" PRIu64 "}\n",
           sender, size, hex(data + 4, 16, trace), hex(data + 20, 8, root),
           hex(data + 28, 16, stack), u16_at(data + 44), burn_unix_ns());
}

static void tell_registration(const uint8_t *data, size_t size, int sender)
{
    char host[2 * 256 + 1] = "";
    size_t length = u32_at(data + 8);
    if (length > size - REGISTRATION_MIN || length > 256)
        length = 0;
    printf("{\"type\":\"registration\",\"sender\":%d,\"size\":%zu,\"delay_ms\":%u,"
           "\"host_id_hex\":\"%s\"}\n",
           sender, size, u32_at(data + 4), hex(data + REGISTRATION_MIN, length, host));
}

/* -1: the kernel did not say. */
static int sender_of(struct msghdr *message)
{
    struct ucred sender = {.pid = -1};
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    if (control && control->cmsg_type == SCM_CREDENTIALS)
        memcpy(&sender, CMSG_DATA(control), sizeof(sender));
    return sender.pid;
}

/* As the agents do: every READ_EVERY_NS all that came, which the kernel bounds to ten messages. */
#define READ_EVERY_NS 20000000

static void *listen_for_samples(void *unused)
{
    uint8_t data[1024];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {data, sizeof(data)};
    for (;;) {
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        ssize_t got = recvmsg(listening, &message, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) {
            nanosleep(&(struct timespec){.tv_nsec = READ_EVERY_NS}, NULL);
            continue;
        }
        if (got < 0)
            return unused;
        size_t size = (size_t)got;
        unsigned type = size >= 4 ? u16_at(data) : 0;
        if (type == MESSAGE_CPU && size >= CPU_SIZE)
            tell_cpu(data, size, sender_of(&message));
        else if (type == MESSAGE_REGISTRATION && size >= REGISTRATION_MIN)
            tell_registration(data, size, sender_of(&message));
        else
            printf("{\"type\":\"strange\",\"size\":%zu}\n", size);
    }
}

static size_t put_text(uint8_t *at, const char *text)
{
    uint32_t size = (uint32_t)strlen(text);
    memcpy(at, &size, 4);
    memcpy(at + 4, text, size);
    return 4 + size;
}

void *publisher_agent_storage(const char *service, const char *environment, const char *socket_path,
                              size_t *size)
{
    uint16_t minor_version = 1;
    uint8_t *storage =
        malloc(2 + 3 * 4 + strlen(service) + strlen(environment) + strlen(socket_path));
    if (!storage)
        abort();
    memcpy(storage, &minor_version, 2);
    *size = 2;
    *size += put_text(storage + *size, service);
    *size += put_text(storage + *size, environment);
    *size += put_text(storage + *size, socket_path);
    return storage;
}

void publisher_agent_start(void *volatile *process_storage, const char *service,
                           const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    pthread_t thread;
    size_t size;
    if (socket_path[0]) {
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
        listening = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        unlink(socket_path);
        if (listening < 0 ||
            setsockopt(listening, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) ||
            bind(listening, (struct sockaddr *)&address, sizeof(address)) ||
            pthread_create(&thread, NULL, listen_for_samples, NULL)) {
            perror(socket_path);
            exit(1);
        }
        pthread_detach(thread);
    }
    *process_storage = publisher_agent_storage(service, "test", socket_path, &size);
}
