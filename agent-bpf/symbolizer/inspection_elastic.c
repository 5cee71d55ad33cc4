/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic's agents: the process storage, and the socket that it names. A socket is opened once for
 * each content of the storage, and again after the service has forgotten the process, at most once
 * a second. After a failure it is tried again when the maps are read next.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/files/proc_pid.h"
#include <stdlib.h>
#include <unistd.h>

#define PAGE             4096
#define CONNECT_AGAIN_NS NS_PER_SEC
#define LOOK_AGAIN_NS    (12 * NS_PER_SEC) /* the same pointer may lead to other content */

/* The size of the storage is only known from its content, so this reads the maximum, or to the end
 * of the page if more is not mapped. */
static int inspection_read_storage(struct inspection *inspection, uint64_t address)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    size_t size = sizeof(symbolizer->elastic_data);
    size_t to_page_end = PAGE - (address & (PAGE - 1));
    if (!inspection_is_harmless(inspection, address, size))
        size = to_page_end;
    int error = inspection_read_memory(inspection, address, symbolizer->elastic_data, size);
    if (!error)
        inspection->elastic_data = BYTES(symbolizer->elastic_data, size);
    return error;
}

static void elastic_peer_free(struct tracked_process *process)
{
    free(process->elastic);
    process->elastic = NULL;
}

void inspection_read_elastic(struct inspection *inspection)
{
    struct tracked_process *process = inspection->process;
    uint64_t storage = 0;
    if (!inspection->elastic_pointer_at) {
        elastic_peer_free(process);
        return;
    }
    if (!process->elastic)
        process->elastic = calloc(1, sizeof(*process->elastic));
    if (!process->elastic)
        return;
    process->elastic->pointer_at = inspection->elastic_pointer_at;
    int error = inspection_read_memory(inspection, inspection->elastic_pointer_at, &storage,
                                       sizeof(storage));
    process->elastic->storage = error ? 0 : storage;
    if (error || !storage || inspection_read_storage(inspection, storage))
        return;
    if (elastic_storage_decode(inspection->elastic_data, &inspection->elastic)) {
        context_count_unreadable(CONTEXT_UNREADABLE_STORAGE);
        inspection->elastic = (struct elastic_storage){0};
        inspection->elastic_data = (struct bytes){0};
    }
}

bool elastic_holds(const struct tracked_process *process)
{
    const struct elastic_peer *peer = process->elastic;
    uint64_t storage;
    if (!peer)
        return true;
    return clock_monotonic_ns() - process->inspected_ns < LOOK_AGAIN_NS &&
           !proc_pid_memory(process->pid, peer->pointer_at, &storage, sizeof(storage)) &&
           storage == peer->storage;
}

static void storage_digest(const struct elastic_storage *storage, uint8_t digest[16])
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

/* True: do not try again for this content. */
static bool inspection_connect_peer(struct inspection *inspection, uint64_t now_ns)
{
    int fd = -1;
    int outcome =
        elastic_socket_connect(inspection->process->pid, inspection->elastic.socket_path, &fd);
    if (!outcome)
        symbolizer_send_fd(&inspection->symbolizer->out,
                           &(struct symbolizer_message){
                               .kind = SYMBOLIZER_CORRELATION,
                               .process = {.pid = inspection->process->pid, .time_ns = now_ns}},
                           fd);
    else
        context_count_unreadable(outcome == ELASTIC_SOCKET_REFUSED
                                     ? CONTEXT_UNREADABLE_SOCKET_REFUSED
                                     : CONTEXT_UNREADABLE_SOCKET_FAILED);
    return outcome >= 0;
}

void inspection_connect_elastic(struct inspection *inspection)
{
    struct tracked_process *process = inspection->process;
    struct elastic_peer *peer = process->elastic;
    uint64_t now_ns = clock_monotonic_ns();
    uint8_t digest[16];
    if (!inspection->symbolizer->settings.elastic_correlation || !peer ||
        !inspection->elastic.socket_path.len)
        return;
    storage_digest(&inspection->elastic, digest);
    if (!memcmp(digest, peer->connected, sizeof(digest)))
        return;
    if (peer->connected_ns && now_ns - peer->connected_ns < CONNECT_AGAIN_NS) {
        process->inspected_ns = 0;
        return;
    }
    peer->connected_ns = now_ns;
    if (inspection_connect_peer(inspection, now_ns))
        memcpy(peer->connected, digest, sizeof(digest));
}
