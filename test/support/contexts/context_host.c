/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context_host LIBRARY FD: loads a context_user library when told to, publishes, withdraws and
 * publishes again, step by step as the memory behind FD says (struct expected of
 * test/bpf/test_symbolizer.c).
 */
#include "test/support/contexts/context_user.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct expected {
    uint64_t variable;
    uint64_t thread_pointer;
    volatile int go;
    volatile int done;
};

static void step(struct expected *expected, int n)
{
    expected->done = n;
    while (expected->go < n)
        usleep(1000);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    struct expected *expected =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[2]), 0);
    if (expected == MAP_FAILED)
        return 1;
    step(expected, 1);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    const struct context_user *user = library ? dlsym(library, "context_user") : NULL;
    const struct spanprof_attribute attributes[] = {{"service.name", "shop"}};
    if (!user || user->publish(attributes, 1))
        return 1;
    expected->thread_pointer = (uintptr_t)__builtin_thread_pointer();
    expected->variable = (uintptr_t)user->thread_symbol();
    step(expected, 2);
    if (user->withdraw())
        return 1;
    step(expected, 3);
    if (user->publish(attributes, 1))
        return 1;
    step(expected, 4);
    return 0;
}
