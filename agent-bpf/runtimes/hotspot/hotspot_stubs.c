/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/hotspot/hotspot_stubs.h"
#include "agent-bpf/runtimes/runtime_reader.h"
#include "base/buf.h"

#define DESCS_MAX    1024 /* of the list; seen: 330 */
#define READS_MAX    64
#define WINDOW_BYTES 4096

struct node { /* StubCodeDesc */
    uint64_t next, group, name, begin, end;
};

struct desc {
    uint64_t begin, end, name;
};

/* ---- the list ---- */

static bool in_code(const struct hotspot_process *process, uint64_t address)
{
    for (int i = 0; i < HOTSPOT_HEAPS; i++)
        if (address >= process->heaps[i].low && address < process->heaps[i].high)
            return true;
    return false;
}

/* Nodes lie close together, an older one lower, so what is in front of a node is read with it. */
struct window {
    uint64_t start;
    uint32_t size;
    unsigned reads;
    uint8_t bytes[WINDOW_BYTES];
};

static bool window_read(struct window *window, struct hotspot_fetch *fetch, uint64_t start,
                        uint32_t size)
{
    bool read;
    if (window->reads++ >= READS_MAX)
        return false;
    window->start = start;
    window->size = size;
    hotspot_fetch_add(fetch, start, window->bytes, size, &read);
    return !hotspot_fetch_run(fetch) && read;
}

static bool window_node(struct window *window, struct hotspot_fetch *fetch, uint64_t address,
                        struct node *node)
{
    uint64_t before = address - (WINDOW_BYTES - sizeof(*node));
    bool is_there = address >= window->start && window->size >= sizeof(*node) &&
                    address - window->start <= window->size - sizeof(*node);
    if (!is_there && !window_read(window, fetch, before, WINDOW_BYTES) &&
        !window_read(window, fetch, address, sizeof(*node))) {
        window->size = 0;
        return false;
    }
    memcpy(node, window->bytes + (address - window->start), sizeof(*node));
    return true;
}

/* As far as it can be read. 0; -ENOMEM; errors of reading. */
static int list_read(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                     uint64_t list, struct buf *descs)
{
    struct window window = {0};
    struct node node;
    int error = 0;
    for (unsigned i = 0; list && i < DESCS_MAX && !error; i++, list = node.next) {
        if (!window_node(&window, fetch, list, &node))
            return fetch->error;
        const struct desc desc = {node.begin, node.end, node.name};
        if (node.begin < node.end && in_code(process, node.begin))
            error = buf_append(descs, &desc, sizeof(desc));
    }
    return error ? -ENOMEM : 0;
}

/* The list begins with the newest stub: another beginning is another list. */
static int list_get(const struct hotspot_process *process, struct runtime_cache *cache,
                    struct hotspot_fetch *fetch, uint64_t list, struct buf *descs)
{
    const struct runtime_cache_key key = {.words = {list},
                                          .program = fetch->memory->program,
                                          .runtime = RUNTIME_JAVA,
                                          .kind = HOTSPOT_KEPT_STUB_LIST};
    struct bytes kept;
    if (runtime_cache_get(cache, &key, &kept))
        return buf_append_bytes(descs, kept) ? -ENOMEM : 0;
    int error = list_read(process, fetch, list, descs);
    if (!error)
        runtime_cache_put(cache, fetch->memory->tenant, &key, buf_bytes(descs));
    return error;
}

static void stub_take_desc(struct hotspot_stub *stub, const struct buf *descs)
{
    struct desc desc;
    for (size_t at = 0; at + sizeof(desc) <= descs->len; at += sizeof(desc)) {
        memcpy(&desc, descs->data + at, sizeof(desc));
        if (stub->pc >= desc.begin && stub->pc < desc.end && desc.name)
            stub->name = desc.name;
    }
}

/* ---- all ---- */

static void stub_fetch(struct hotspot_stub *stub, const struct hotspot_process *process,
                       struct hotspot_fetch *fetch)
{
    hotspot_trail_fetch(&stub->trail, fetch, stub->blob + process->blob.name, &stub->name,
                        sizeof(stub->name), &stub->read);
    if (process->stub_list)
        hotspot_trail_fetch(&stub->trail, fetch, process->stub_list, &stub->list,
                            sizeof(stub->list), &stub->list_read);
}

int hotspot_stubs_find(const struct hotspot_process *process, struct runtime_cache *cache,
                       struct hotspot_fetch *fetch, struct hotspot_stub *stubs, size_t n)
{
    _cleanup_buf_ struct buf descs = {0};
    for (size_t i = 0; i < n; i++)
        if (stubs[i].blob)
            stub_fetch(&stubs[i], process, fetch);
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n && !error; i++)
        if (stubs[i].list_read && !descs.len)
            error = list_get(process, cache, fetch, stubs[i].list, &descs);
    for (size_t i = 0; i < n && !error; i++) {
        stub_take_desc(&stubs[i], &descs);
        if (stubs[i].read && stubs[i].name)
            hotspot_trail_fetch(&stubs[i].trail, fetch, stubs[i].name, stubs[i].text,
                                HOTSPOT_STUB_NAME_MAX, &stubs[i].text_read);
    }
    return error ? error : hotspot_fetch_run(fetch);
}
