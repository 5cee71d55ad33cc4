/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic's agents: the process storage, and the socket that it names. A socket is opened once for
 * each content of the storage, and again after the service has forgotten the process, at most once
 * a second. After a failure it is tried again when the maps are read next.
 */
#include "agent-bpf/symbolizer/inspection.h"
#include "agent-bpf/contexts/elastic_socket.h"
#include "agent-bpf/contexts/unreadable.h"
#include "agent-bpf/control.h"
#include "agent-bpf/files/reader_client.h"
#include "base/fd.h"
#include <errno.h>
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

void elastic_peer_free(struct tracked_process *process)
{
    if (process->elastic)
        elastic_request_drop(&process->elastic->request);
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
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_STORAGE);
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
           !reader_memory_one(process->pid, peer->pointer_at, &storage, sizeof(storage)) &&
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

/* Tried again when its maps are read next, unless this content will always be refused. */
static void connection_failed(struct symbolizer *symbolizer, uint32_t pid, int outcome)
{
    struct tracked_process *process = map_get(&symbolizer->processes, &pid);
    enum context_unreadable reason = outcome == ELASTIC_SOCKET_REFUSED
                                         ? CONTEXT_UNREADABLE_SOCKET_REFUSED
                                         : CONTEXT_UNREADABLE_SOCKET_FAILED;
    if (process)
        tracked_process_unreadable(symbolizer, process, reason);
    else
        context_count_unreadable(reason);
    if (outcome < 0 && process && process->elastic)
        memset(process->elastic->connected, 0, sizeof(process->elastic->connected));
}

/* Else the process has exec()ed meanwhile, perhaps a program with other ids: a path that the one
 * named was looked up with the rights of the next. */
static bool names_it_still(struct symbolizer *symbolizer, uint32_t pid)
{
    const struct tracked_process *process = map_get(&symbolizer->processes, &pid);
    const struct elastic_peer *peer = process ? process->elastic : NULL;
    uint64_t storage;
    if (!peer || symbolizer_is_banned(symbolizer, pid))
        return false;
    symbolizer_enter(symbolizer, pid);
    int error = reader_memory_one(pid, peer->asked_at, &storage, sizeof(storage));
    symbolizer_leave(symbolizer);
    return !error && storage == peer->asked_storage;
}

static void elastic_connected(void *context, uint32_t pid, int outcome, int fd)
{
    struct symbolizer *symbolizer = context;
    struct symbolizer_process process = {.pid = pid, .time_ns = clock_monotonic_ns()};
    if (!outcome && !names_it_still(symbolizer, pid)) {
        close(fd);
        outcome = -EAGAIN;
    }
    if (outcome) {
        connection_failed(symbolizer, pid, outcome);
        return;
    }
    symbolizer_send_fd(
        &symbolizer->out,
        &(struct symbolizer_message){.kind = SYMBOLIZER_CORRELATION, .process = process}, fd);
}

int elastic_open(struct symbolizer *symbolizer)
{
    const struct symbolizer_settings *settings = &symbolizer->settings;
    return elastic_connections_open(
        &symbolizer->elastic_connections,
        &(struct elastic_connections_settings){.loop = settings->loop,
                                               .connect_agent = settings->connect_agent,
                                               .connect_context = settings->context,
                                               .connected = elastic_connected,
                                               .context = symbolizer});
}

void elastic_close(struct symbolizer *symbolizer)
{
    elastic_connections_close(&symbolizer->elastic_connections);
}

/* The broker looks the socket up in the cache alone. The reader fills that, and says whether the
 * socket lies where connecting waits for nobody. */
static int inspection_find_socket(struct inspection *inspection)
{
    const struct bytes path = inspection->elastic.socket_path;
    char name[CONTROL_PATH_MAX + 1];
    const struct process_mapping mapping = {.path = name};
    struct reader_file file;
    int fd;
    if (path.len > CONTROL_PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(name, path.data, path.len);
    name[path.len] = 0;
    int error = reader_file(inspection->process->pid, READER_SOCKET, &mapping, &file, &fd);
    return error ? error : file.place == FILE_PLACE_LOCAL ? 0 : -EREMOTE;
}

void inspection_connect_elastic(struct inspection *inspection)
{
    struct symbolizer *symbolizer = inspection->symbolizer;
    struct tracked_process *process = inspection->process;
    struct elastic_peer *peer = process->elastic;
    uint64_t now_ns = clock_monotonic_ns();
    uint8_t digest[16];
    if (!symbolizer->settings.elastic_correlation || !peer || !inspection->elastic.socket_path.len)
        return;
    storage_digest(&inspection->elastic, digest);
    if (!memcmp(digest, peer->connected, sizeof(digest)))
        return;
    if (peer->connected_ns && now_ns - peer->connected_ns < CONNECT_AGAIN_NS) {
        process->inspected_ns = 0;
        return;
    }
    peer->connected_ns = now_ns;
    peer->asked_at = peer->pointer_at;
    peer->asked_storage = peer->storage;
    int error = inspection_find_socket(inspection);
    error = error ? error
                  : elastic_connect(&symbolizer->elastic_connections, &peer->request, process->pid,
                                    symbolizer_owner(symbolizer, process->pid),
                                    inspection->elastic.socket_path);
    if (!error)
        memcpy(peer->connected, digest, sizeof(digest));
    else if (error == -EAGAIN)
        process->inspected_ns = 0; /* again at the next inspection */
    else
        inspection_unreadable(inspection, CONTEXT_UNREADABLE_SOCKET_FAILED);
}
