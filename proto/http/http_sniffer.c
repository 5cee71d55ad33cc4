/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http_sniffer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { SHORTEST_METHOD = 3 };
static const char preface[SHORTEST_METHOD] = "PRI";

struct waiting {
    struct list link;
    struct http_sniffer *sniffer;
    struct watch watch;
    struct http_arrival arrival;
    uint64_t since_ns;
};

static bool has_first_bytes(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* Less than a method in the first segment is not what clients send. */
static enum http_version first_bytes_tell(int fd, enum http_version own)
{
    char bytes[SHORTEST_METHOD];
    if (recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT) != sizeof(bytes))
        return own;
    if (!memcmp(bytes, preface, sizeof(preface)))
        return HTTP_2;
    for (size_t i = 0; i < sizeof(bytes); i++)
        if (bytes[i] < 'A' || bytes[i] > 'Z')
            return own;
    return HTTP_1;
}

static void waiting_end(struct waiting *waiting, enum http_version version)
{
    struct http_sniffer *sniffer = waiting->sniffer;
    const struct http_arrival arrival = waiting->arrival;
    watch_stop(&waiting->watch);
    list_remove(&waiting->link);
    sniffer->n_waiting--;
    free(waiting);
    sniffer->told(sniffer, &arrival, version);
}

static struct waiting *longest_waiting(struct http_sniffer *sniffer)
{
    struct list *link = list_first(&sniffer->waiting);
    return link ? container_of(link, struct waiting, link) : NULL;
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct waiting *waiting = container_of(watch, struct waiting, watch);
    (void)events;
    waiting_end(waiting, first_bytes_tell(watch->fd, waiting->sniffer->own));
}

static void on_late(struct timer *timer)
{
    struct http_sniffer *sniffer = container_of(timer, struct http_sniffer, late);
    uint64_t now = clock_monotonic_ns();
    struct waiting *first;
    while ((first = longest_waiting(sniffer)) && first->since_ns + HTTP_SNIFFER_WAIT_NS <= now)
        waiting_end(first, sniffer->own);
    if (first)
        timer_start(sniffer->loop, &sniffer->late, first->since_ns + HTTP_SNIFFER_WAIT_NS - now);
}

static int wait_for_bytes(struct http_sniffer *sniffer, const struct http_arrival *arrival)
{
    struct waiting *waiting = calloc(1, sizeof(*waiting));
    if (!waiting)
        return -ENOMEM;
    waiting->sniffer = sniffer;
    waiting->arrival = *arrival;
    waiting->since_ns = clock_monotonic_ns();
    waiting->watch = (struct watch){.fd = arrival->fd, .events = EPOLLIN, .ready = on_ready};
    int error = watch_start(sniffer->loop, &waiting->watch);
    if (error) {
        free(waiting);
        return error;
    }
    list_append(&sniffer->waiting, &waiting->link);
    sniffer->n_waiting++;
    if (!sniffer->late.due_ns)
        timer_start(sniffer->loop, &sniffer->late, HTTP_SNIFFER_WAIT_NS);
    return 0;
}

void http_sniffer_init(struct http_sniffer *sniffer)
{
    list_init(&sniffer->waiting);
    sniffer->n_waiting = 0;
    sniffer->late = (struct timer){.fire = on_late};
}

void http_sniffer_enter(struct http_sniffer *sniffer, const struct http_arrival *arrival)
{
    LOOP_THREAD(sniffer->loop);
    if (has_first_bytes(arrival->fd) || wait_for_bytes(sniffer, arrival))
        return sniffer->told(sniffer, arrival, first_bytes_tell(arrival->fd, sniffer->own));
    if (sniffer->n_waiting > HTTP_SNIFFER_MAX)
        waiting_end(longest_waiting(sniffer), sniffer->own);
}

void http_sniffer_stop(struct http_sniffer *sniffer)
{
    struct waiting *first;
    while ((first = longest_waiting(sniffer)))
        waiting_end(first, sniffer->own);
    timer_stop(&sniffer->late);
}
