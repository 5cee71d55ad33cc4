/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each row comes from that version's headers or a running process. All were compared with running
 * programs except 8.0 and 8.1, which no build was available for.
 */
#include "agent-bpf/runtimes/php/php_layout.h"
#include <stddef.h>

#define FILENAME_AND_LINES 16 /* zend_op_array: what is read ends with line_start and line_end */

static const struct {
    uint32_t api;
    uint8_t major, minor;
    uint16_t stack_page_size, last, opcodes, filename, generator_frame, generator_parent;
} versions[] = {
    {20190902, 7, 4, 480, 60, 64, 136, 64, 160},  {20200930, 8, 0, 480, 68, 72, 144, 56, 152},
    {20210902, 8, 1, 480, 68, 72, 144, 56, 152},  {20220829, 8, 2, 480, 80, 88, 152, 56, 152},
    {20230831, 8, 3, 480, 76, 80, 144, 56, 152},  {20240924, 8, 4, 480, 96, 104, 168, 56, 152},
    {20250925, 8, 5, 504, 96, 104, 168, 56, 152},
};

bool php_layout(uint32_t api, struct php_layout *layout)
{
    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
        if (versions[i].api != api)
            continue;
        *layout = (struct php_layout){
            .api = api,
            .stack_page_size = versions[i].stack_page_size,
            .process = {.function_bytes = versions[i].filename + FILENAME_AND_LINES,
                        .function_last = versions[i].last,
                        .function_opcodes = versions[i].opcodes,
                        .function_filename = versions[i].filename,
                        .generator_frame = versions[i].generator_frame,
                        .generator_parent = versions[i].generator_parent,
                        .major = versions[i].major,
                        .minor = versions[i].minor},
        };
        return true;
    }
    return false;
}
