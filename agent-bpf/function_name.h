/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is known of the function at an address. Texts are valid UTF-8 without control characters,
 * cut to fit; empty = not known.
 */
#include <stdint.h>

#define FUNCTION_NAME_MAX 513 /* bytes of each text, with NUL */

struct function_name {
    char function[FUNCTION_NAME_MAX];
    char system_name[FUNCTION_NAME_MAX]; /* the linker's name, if it is different */
    char file[FUNCTION_NAME_MAX];
    uint32_t line; /* 0 = not known */
};
