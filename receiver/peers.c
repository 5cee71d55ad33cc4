/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer's SYN is the key to what was noted of it. Its format: RFC 791, 8200 and 9293.
 */
#include "receiver/peers.h"
#include "agent-bpf/connection.h"
#include "base/cgroup.h"
#include "base/stats.h"
#include "config/users.h"
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SYN_MAX 256 /* headers of a SYN: at most 60 + 60 (IPv4), 40 + options + 60 (IPv6) */

enum peer_source { PEER_NOTED, PEER_ASKED, PEER_UNKNOWN, PEER_SOURCES };
static const char *const source_names[] = {
    [PEER_NOTED] = "noted", [PEER_ASKED] = "asked", [PEER_UNKNOWN] = "unknown"};
STAT_COUNTERS(identified, "spanprof_peers_total",
              "Connections of receivers by how it is known whose they are: noted as they were "
              "opened, asked of the kernel, or not at all (other machines).",
              STAT_LABEL("by", source_names, PEER_SOURCES));
STAT_COUNTER(forwarders, "spanprof_peers_forwarders_total",
             "Connections of receivers that are of forwarders.");

struct peers {
    const struct config_processor_join *join; /* NULL: no forwarders */
    int connections_fd;
    struct peer_finder finder;
};

/* ---- forwarders ---- */

/* A service that is started again has another cgroup with the same path. */
static bool is_of_cgroup(const struct peers *peers, const struct config_list *cgroups, uint64_t id)
{
    const char *mount = peers->finder.cgroup_mount;
    for (size_t i = 0; id && mount[0] && i < cgroups->count; i++)
        if (id == cgroup_id_of_path(mount, BYTES_STR(cgroups->items[i])))
            return true;
    return false;
}

static bool is_of_socket(const struct config_list *sockets, const struct config_endpoint *endpoint)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (config_endpoint_is(endpoint, sockets->items[i]))
            return true;
    return false;
}

static bool is_forwarder(const struct peers *peers, const struct config_endpoint *endpoint,
                         const struct peer *peer)
{
    const struct config_processor_join *join = peers->join;
    return join && (users_have(&join->forwarders.users, peer->uid) ||
                    is_of_cgroup(peers, &join->forwarders.cgroups, peer->cgroup_id) ||
                    is_of_socket(&join->forwarders.sockets, endpoint));
}

/* ---- noted connections ---- */

static bool syn_parse(const uint8_t *syn, size_t size, struct connection_key *key)
{
    struct tcphdr tcp;
    size_t at = size && syn[0] >> 4 == 4 ? (size_t)(syn[0] & 15) * 4 : sizeof(struct ip6_hdr);
    bool plain_v6 = size > sizeof(struct ip6_hdr) && syn[0] >> 4 == 6 && syn[6] == IPPROTO_TCP;
    if (size < sizeof(tcp) || at > size - sizeof(tcp) || (syn[0] >> 4 != 4 && !plain_v6))
        return false;
    memcpy(&tcp, syn + at, sizeof(tcp));
    *key = (struct connection_key){.sequence = ntohl(tcp.th_seq), .port = ntohs(tcp.th_sport)};
    return true;
}

static bool peer_was_noted(const struct peers *peers, int fd, struct peer *peer)
{
    uint8_t syn[SYN_MAX];
    socklen_t size = sizeof(syn);
    struct connection_key key;
    struct connection_origin origin;
    if (peers->connections_fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_SAVED_SYN, syn, &size) ||
        !syn_parse(syn, size, &key) ||
        bpf_map_lookup_and_delete_elem(peers->connections_fd, &key, &origin))
        return false;
    *peer = (struct peer){.cgroup_id = origin.cgroup_id, .uid = origin.uid};
    return true;
}

/* ---- verbs ---- */

int peers_open(const struct config *config, int connections_fd, struct peers **result)
{
    const struct config_processor *join = config_find_processor(config, CONFIG_PROCESSOR_JOIN);
    struct peers *peers = calloc(1, sizeof(*peers));
    if (!peers)
        return -ENOMEM;
    peers->connections_fd = connections_fd;
    peer_finder_open(&peers->finder);
    peers->join = join ? &join->join : NULL;
    *result = peers;
    return 0;
}

void peers_close(struct peers *peers)
{
    if (!peers)
        return;
    peer_finder_close(&peers->finder);
    free(peers);
}

void peers_identify(struct peers *peers, int fd, const struct config_endpoint *endpoint,
                    struct peer *peer)
{
    *peer = (struct peer){.uid = PEER_UID_UNKNOWN};
    if (!peers)
        return;
    enum peer_source source = peer_was_noted(peers, fd, peer)       ? PEER_NOTED
                              : peer_find(&peers->finder, fd, peer) ? PEER_ASKED
                                                                    : PEER_UNKNOWN;
    peer->is_forwarder = is_forwarder(peers, endpoint, peer);
    stat_add_of(&identified, source, 1);
    stat_add(&forwarders, peer->is_forwarder);
}
