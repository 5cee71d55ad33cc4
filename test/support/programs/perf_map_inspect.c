/* SPDX-License-Identifier: Apache-2.0 */
/* What perf_maps_find() says of addresses of a process, in hex on standard input: a line each. */
#include "agent-bpf/symbols/perf_maps.h"
#include "test/support/rigs/reader_rig.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    reader_rig_attach();
    static struct perf_maps maps;
    uint32_t pid = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint64_t now_ns = clock_monotonic_ns(), address;
    const struct perf_user user = {.pid = pid};
    if (perf_maps_init(&maps))
        return 1;
    for (int step = 0; step < 1000 && !perf_maps_get(&maps, user, now_ns); step++)
        now_ns += PERF_MAPS_RETRY_NS; /* a long one is read in steps */
    while (scanf("%" SCNx64, &address) == 1) {
        struct perf_map_range range;
        printf("%s\n", perf_maps_find(&maps, user, now_ns, address, &range) ? range.name : "");
    }
    perf_maps_close(&maps);
    return 0;
}
