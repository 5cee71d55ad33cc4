/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Puts calls at the beginning of two methods of a class file (JVMS 4):
 *
 *   void M()  { HOOKS.HOOK(this.FIELD); ... }
 *
 * Thread: any; there is no state. Nothing outside the given bytes is read: a file that is damaged,
 * or has not what is asked for, is refused.
 */
#include <stddef.h>
#include <stdint.h>

enum { CLASS_PATCH_METHODS = 2 };

struct class_patch {
    const char *field;      /* of the class itself */
    const char *field_type; /* a descriptor */
    const char *hooks;      /* a class, as "a/b/C" */
    struct {
        const char *method; /* of the class itself, without arguments and result */
        const char *hook;   /* static, takes field_type, without result */
    } methods[CLASS_PATCH_METHODS];
};

/* The new file, to be given to free(), and its size. NULL: refused, or there is no memory. */
uint8_t *class_patch(const struct class_patch *patch, const uint8_t *file, size_t size,
                     size_t *new_size);
