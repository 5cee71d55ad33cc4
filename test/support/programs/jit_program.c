/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jit_program SECONDS MAP|-: a compiler that makes hot() and outer(), which calls it, runs them so
 * long, then puts second() in the place of hot() and runs that as long. What it makes it tells in
 * the perf map, as V8 does ("-": it does not). Prints the Unix time in ns of start, change and end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS      100000
#define HOT_BYTES   15
#define OUTER_BYTES 18

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#ifdef __x86_64__
/* push rbp; mov rbp, rsp; mov ecx, ROUNDS; dec ecx; jnz; pop rbp; ret */
static void make_hot(uint8_t *at)
{
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0,    0,   0,
                                   0,    0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
    _Static_assert(sizeof(code) == HOT_BYTES, "as the map says");
    uint32_t rounds = ROUNDS;
    memcpy(at, code, sizeof(code));
    memcpy(at + 5, &rounds, sizeof(rounds));
}

/* push rbp; mov rbp, rsp; mov rax, callee; call rax; pop rbp; ret */
static void make_outer(uint8_t *at, const uint8_t *callee)
{
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
                                   0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
    _Static_assert(sizeof(code) == OUTER_BYTES, "as the map says");
    memcpy(at, code, sizeof(code));
    memcpy(at + 6, &callee, sizeof(callee));
}
#else
static void make_hot(uint8_t *at)
{
    (void)at;
    exit(77);
}
static void make_outer(uint8_t *at, const uint8_t *callee)
{
    (void)at, (void)callee;
}
#endif

static void tell(FILE *map, const uint8_t *code, size_t size, const char *name)
{
    if (map)
        fprintf(map, "%llx %zx %s\n", (unsigned long long)(uintptr_t)code, size, name);
}

/* Until then; returns when it is. */
__attribute__((noinline)) static uint64_t run(const uint8_t *outer, uint64_t until_ns)
{
    void (*call)(void);
    uint64_t now;
    memcpy(&call, &outer, sizeof(call));
    while ((now = now_ns()) < until_ns)
        for (int i = 0; i < 10; i++)
            call();
    return now;
}

static FILE *open_map(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "we");
    if (!map)
        exit(1);
    setvbuf(map, NULL, _IOLBF, 0);
    return map;
}

int main(int argc, char **argv)
{
    uint64_t length_ns = argc == 3 ? strtoull(argv[1], NULL, 10) * 1000000000u : 0;
    uint8_t *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!length_ns || code == MAP_FAILED)
        return 1;
    FILE *map = strcmp(argv[2], "-") ? open_map() : NULL;
    uint8_t *hot = code + 256, *outer = code + 512;
    make_hot(hot);
    make_outer(outer, hot);
    tell(map, hot, HOT_BYTES, "JS:*hot /srv/app.js:1:13");
    tell(map, outer, OUTER_BYTES, "JS:^outer /srv/app.js:2:15");
    uint64_t start_ns = now_ns();
    uint64_t change_ns = run(outer, start_ns + length_ns);
    tell(map, hot, HOT_BYTES, "JS:*second /srv/app.js:9:1");
    uint64_t end_ns = run(outer, change_ns + length_ns);
    printf("%llu %llu %llu\n", (unsigned long long)start_ns, (unsigned long long)change_ns,
           (unsigned long long)end_ns);
    return 0;
}
