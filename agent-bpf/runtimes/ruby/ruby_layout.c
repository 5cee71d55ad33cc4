/* SPDX-License-Identifier: Apache-2.0 */
#include "agent-bpf/runtimes/ruby/ruby_layout.h"
#include <stdio.h>

#define TEXT_IN_UNION 16 /* String: its bytes, or length and address of them, behind the header */
#define TEXT_BEHIND   24 /* length first, then its bytes or their address */

static const struct ruby_layout layouts[] = {
    {RUBY_VERSION(2, 7),
     {.frame_bytes = 56,
      .line_bytes = 8,
      .text_start = TEXT_IN_UNION,
      .ec_thread = 56,
      .thread_native = 72},
     120,
     176,
     8,
     24,
     8,
     0,
     0},
    {RUBY_VERSION(3, 0),
     {.frame_bytes = 56, .line_bytes = 8, .text_start = TEXT_IN_UNION},
     120,
     176,
     8,
     24,
     8,
     0,
     0},
    {RUBY_VERSION(3, 1),
     {.frame_bytes = 64, .line_bytes = 8, .text_start = TEXT_IN_UNION},
     120,
     176,
     12,
     24,
     8,
     0,
     0},
    {RUBY_VERSION(3, 2),
     {.frame_bytes = 64, .line_bytes = 4, .text_start = TEXT_BEHIND},
     112,
     168,
     12,
     0,
     0,
     0,
     0},
    {RUBY_VERSION(3, 3),
     {.frame_bytes = 56, .line_bytes = 4, .text_start = TEXT_BEHIND},
     112,
     168,
     12,
     0,
     0,
     152,
     128},
    {RUBY_VERSION(3, 4),
     {.frame_bytes = 56, .line_bytes = 4, .text_start = TEXT_BEHIND},
     112,
     168,
     12,
     0,
     0,
     152,
     128},
};

bool ruby_layout(const char *text, struct ruby_layout *layout)
{
    unsigned major = 0, minor = 0;
    if (sscanf(text, "%2u.%2u.", &major, &minor) != 2)
        return false;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        *layout = layouts[i];
        if (layout->version == RUBY_VERSION(major, minor))
            return true;
    }
    return false;
}
