/* SPDX-License-Identifier: Apache-2.0 */
/* The key of the hash is random, so that no peer can choose an address with the number of another
 * one. */
#include "receiver/peer_key.h"
#include "base/bytes.h"
#include <netinet/in.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>

enum peer_kind { PEER_CGROUP, PEER_USER, PEER_IPV4, PEER_IPV6, PEER_LOOPBACK };

static uint8_t hash_key[16];
static pthread_once_t hash_key_once = PTHREAD_ONCE_INIT;

/* Without randomness the numbers can be guessed; they still tell peers apart. */
static void make_hash_key(void)
{
    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        hash_key[0] = 1;
}

static uint64_t peer_hash(enum peer_kind kind, const void *id, size_t size)
{
    uint8_t text[1 + 8] = {(uint8_t)kind};
    memcpy(text + 1, id, size);
    pthread_once(&hash_key_once, make_hash_key);
    return bytes_siphash(BYTES(text, 1 + size), hash_key) | 1;
}

static uint64_t peer_of_ipv4(uint32_t address)
{
    bool loopback = ntohl(address) >> 24 == 127;
    return loopback ? peer_hash(PEER_LOOPBACK, "", 0)
                    : peer_hash(PEER_IPV4, &address, sizeof(address));
}

static uint64_t peer_of_ipv6(const struct in6_addr *address)
{
    uint32_t v4;
    memcpy(&v4, &address->s6_addr[12], sizeof(v4));
    if (IN6_IS_ADDR_V4MAPPED(address))
        return peer_of_ipv4(v4);
    return IN6_IS_ADDR_LOOPBACK(address) ? peer_hash(PEER_LOOPBACK, "", 0)
                                         : peer_hash(PEER_IPV6, address, 8);
}

static uint64_t peer_of_host(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } peer = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, &peer.any, &size))
        return 0;
    switch (peer.any.sa_family) {
    case AF_INET:
        return peer_of_ipv4(peer.v4.sin_addr.s_addr);
    case AF_INET6:
        return peer_of_ipv6(&peer.v6.sin6_addr);
    default:
        return 0;
    }
}

uint64_t peer_key(const struct peer *peer, int fd)
{
    if (peer->cgroup_id)
        return peer_hash(PEER_CGROUP, &peer->cgroup_id, sizeof(peer->cgroup_id));
    if (peer->uid != PEER_UID_UNKNOWN)
        return peer_hash(PEER_USER, &peer->uid, sizeof(peer->uid));
    return peer_of_host(fd);
}
