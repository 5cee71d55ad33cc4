/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic's agents: what the process storage says, and the socket that it names. A socket is opened
 * once for each content of the storage, and again when the service has forgotten the process; not
 * more often than once a second, and again after a failure only when the maps are looked at next.
 */
#include "agent-bpf/symbolizer/symbolizer_parts.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/files/proc_pid.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE             4096
#define CONNECT_AGAIN_NS NS_PER_SEC
#define LOOK_AGAIN_NS    (12 * NS_PER_SEC) /* for another content behind the same pointer */

/* As many bytes as there are, for the storage tells its size only by itself. */
static int read_storage(struct look *look, uint64_t address)
{
    struct symbolizer *symbolizer = look->symbolizer;
    size_t size = sizeof(symbolizer->elastic_data);
    size_t to_page_end = PAGE - (address & (PAGE - 1));
    if (!look_is_harmless(look, address, size))
        size = to_page_end;
    int error = look_memory(look, address, symbolizer->elastic_data, size);
    if (!error)
        look->elastic_data = BYTES(symbolizer->elastic_data, size);
    return error;
}

static void forget(struct subject *subject)
{
    free(subject->elastic);
    subject->elastic = NULL;
}

void look_elastic(struct look *look)
{
    struct subject *subject = look->subject;
    uint64_t storage = 0;
    if (!look->elastic_pointer_at) {
        forget(subject);
        return;
    }
    if (!subject->elastic)
        subject->elastic = calloc(1, sizeof(*subject->elastic));
    if (!subject->elastic)
        return;
    subject->elastic->pointer_at = look->elastic_pointer_at;
    int error = look_memory(look, look->elastic_pointer_at, &storage, sizeof(storage));
    subject->elastic->storage = error ? 0 : storage;
    if (error || !storage || read_storage(look, storage))
        return;
    if (elastic_storage_decode(look->elastic_data, &look->elastic)) {
        context_count_unreadable(CONTEXT_UNREADABLE_STORAGE);
        look->elastic = (struct elastic_storage){0};
        look->elastic_data = (struct bytes){0};
    }
}

bool elastic_holds(const struct subject *subject)
{
    const struct elastic_peer *peer = subject->elastic;
    uint64_t storage;
    if (!peer)
        return true;
    return clock_monotonic_ns() - subject->looked_ns < LOOK_AGAIN_NS &&
           !proc_pid_memory(subject->pid, peer->pointer_at, &storage, sizeof(storage)) &&
           storage == peer->storage;
}

static void digest_of(const struct elastic_storage *storage, uint8_t digest[16])
{
    const struct bytes texts[] = {storage->service_name, storage->service_environment,
                                  storage->socket_path};
    struct fnv128 fnv;
    fnv128_init(&fnv);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        fnv128_add(&fnv, &texts[i].len, sizeof(texts[i].len));
        fnv128_add(&fnv, texts[i].data, texts[i].len);
    }
    fnv128_finish(&fnv, digest);
}

/* True: there is nothing more to be tried for this content. */
static bool connect_peer(struct look *look, uint64_t now_ns)
{
    int fd = -1;
    int outcome = elastic_socket_connect(look->subject->pid, look->elastic.socket_path, &fd);
    if (!outcome)
        symbolizer_say_fd(
            look->symbolizer,
            &(struct symbolizer_message){.kind = SYMBOLIZER_CORRELATION,
                                         .process = {.pid = look->subject->pid, .time_ns = now_ns}},
            fd);
    else
        context_count_unreadable(outcome == ELASTIC_SOCKET_REFUSED
                                     ? CONTEXT_UNREADABLE_SOCKET_REFUSED
                                     : CONTEXT_UNREADABLE_SOCKET_FAILED);
    return outcome >= 0;
}

void look_correlate(struct look *look)
{
    struct subject *subject = look->subject;
    struct elastic_peer *peer = subject->elastic;
    uint64_t now_ns = clock_monotonic_ns();
    uint8_t digest[16];
    if (!look->symbolizer->settings.elastic_correlation || !peer || !look->elastic.socket_path.len)
        return;
    digest_of(&look->elastic, digest);
    if (!memcmp(digest, peer->connected, sizeof(digest)))
        return;
    if (peer->connected_ns && now_ns - peer->connected_ns < CONNECT_AGAIN_NS) {
        subject->looked_ns = 0;
        return;
    }
    peer->connected_ns = now_ns;
    if (connect_peer(look, now_ns))
        memcpy(peer->connected, digest, sizeof(digest));
}
