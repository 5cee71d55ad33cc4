/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a process with V8 (v8_image.h), from which frames are named. */
#include "agent-bpf/runtimes/v8/v8_names.h"
#include "test/support/fixtures/v8_image.h"
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    assert(strlen(text) <= V8_TEXT_MAX);
    assert(bytes_utf8_valid(BYTES_STR(text)));
    for (; *text; text++)
        assert((uint8_t)*text >= 0x20 && *text != 0x7f);
}

static int check(void *context, size_t frame, enum v8_names_outcome outcome,
                 const struct v8_name *names, size_t n)
{
    uint8_t *seen = context;
    assert(!seen[frame]++);
    assert(n <= V8_INLINED_MAX + 1 && (outcome == V8_NAMED) == (n > 0));
    for (size_t i = 0; i < n; i++) {
        check_text(names[i].function);
        check_text(names[i].file);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct v8_image image;
    uint8_t seen[V8_IMAGE_FRAMES_MAX] = {0};
    if (!v8_image_open(BYTES(data, size), &image))
        return 0;
    const struct v8_names_request request = v8_image_request(&image);
    assert(!v8_names_find(&request, check, seen));
    for (size_t i = 0; i < image.n_frames; i++)
        assert(seen[i]);
    assert(image.n_requests <= 2 * V8_NAMES_ROUNDS);
    return 0;
}
