/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Code that is loaded, or mapped as a file is, without any relocation: stacks_code.c. */
#include <stdint.h>

#define CODE_BYTES 8192 /* of the file, from its beginning */

/* Runs until now() is `end`. */
typedef void code_run(uint64_t end, uint64_t (*now)(void));
