/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/publishers/publisher_slot.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *symbol_of(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return symbol;
}

struct publisher_slot publisher_open(const char *library)
{
    void *handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!handle) {
        fprintf(stderr, "%s\n", library ? dlerror() : "no library given");
        exit(1);
    }
    void *volatile *(*process_storage)(void);
    struct publisher_slot slot;
    *(void **)&slot.of_thread = symbol_of(handle, "publisher_slot_of_thread");
    *(void **)&process_storage = symbol_of(handle, "publisher_slot_process_storage");
    slot.process_storage = process_storage();
    return slot;
}
