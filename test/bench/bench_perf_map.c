/* SPDX-License-Identifier: Apache-2.0 */
/* Perf maps: lines read a second, memory of an entry, look-ups; and a look at the file of a process
 * that nothing was appended to. Code lies where an allocator would put it: at random, moved often.
 */
#include "agent-bpf/symbols/perf_maps.h"
#include "test/support/rigs/reader_rig.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { N_LINES = 100000, N_PLACES = 80000, PLACE_BYTES = 512, N_FINDS = 1000000, N_LOOKS = 2000 };

#define HEAP UINT64_C(0x7f2800000000)

static uint64_t state = 1;

static uint64_t random_number(void)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return state >> 33;
}

/* CPU time: what it costs, whatever else this machine does. */
static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void make_text(struct buf *text)
{
    for (int i = 0; i < N_LINES; i++)
        if (buf_printf(text,
                       "%llx %llx JS:*handleRequest%d /srv/application/routes/index.js:%d:17\n",
                       (unsigned long long)(HEAP + random_number() % N_PLACES * PLACE_BYTES),
                       (unsigned long long)(random_number() % PLACE_BYTES + 1), i, i))
            abort();
}

static void measure_map(struct bytes text)
{
    struct perf_map map;
    perf_map_init(&map, (size_t)1 << 30);
    size_t before = mallinfo2().uordblks;
    double start = cpu_s();
    perf_map_add(&map, text);
    double seconds = cpu_s() - start;
    printf("perf_map_lines %.0f lines/s\n", N_LINES / seconds);
    printf("perf_map_read %.1f MiB/s\n", (double)text.len / seconds / (1 << 20));
    printf("perf_map_entry_counted %.1f bytes\n", (double)map.bytes / (double)map.n);
    printf("perf_map_entry_allocated %.1f bytes\n",
           (double)(mallinfo2().uordblks - before) / (double)map.n);
    size_t n_found = 0;
    start = cpu_s();
    for (int i = 0; i < N_FINDS; i++)
        n_found +=
            perf_map_find(&map, HEAP + random_number() % ((uint64_t)N_PLACES * PLACE_BYTES)).name !=
            NULL;
    printf("perf_map_find %.0f ns\n", 1e9 * (cpu_s() - start) / N_FINDS);
    printf("perf_map_found %.1f %%\n", 100.0 * (double)n_found / N_FINDS);
    perf_map_close(&map);
}

static void measure_process(struct bytes text)
{
    static struct perf_maps maps;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    FILE *file = fopen(path, "w");
    if (!file || fwrite(text.data, 1, text.len, file) != text.len || fclose(file))
        abort();
    const struct perf_user user = {.pid = (uint32_t)getpid()};
    if (perf_maps_init(&maps))
        exit(1);
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t steps = 1;
    double start = cpu_s();
    for (; !perf_maps_get(&maps, user, now_ns) && steps < 1000; steps++)
        now_ns += PERF_MAPS_RETRY_NS;
    printf("perf_maps_step %.2f ms\n", 1e3 * (cpu_s() - start) / (double)steps);
    start = cpu_s();
    for (int i = 0; i < N_LOOKS; i++)
        perf_maps_get(&maps, user, now_ns += PERF_MAPS_AGE_NS);
    printf("perf_maps_look_unchanged %.1f us\n", 1e6 * (cpu_s() - start) / N_LOOKS);
    perf_maps_close(&maps);
    unlink(path);
}

int main(void)
{
    reader_rig_attach();
    _cleanup_buf_ struct buf text = BUF_INIT(0);
    make_text(&text);
    measure_map(buf_bytes(&text));
    measure_process(buf_bytes(&text));
    return 0;
}
