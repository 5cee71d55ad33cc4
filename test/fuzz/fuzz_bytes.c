/* SPDX-License-Identifier: Apache-2.0 */
/* Text forms of strangers' bytes: what is accepted must come back, what is cleaned must be clean.
 */
#include "base/bytes.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_base64(struct bytes in)
{
    uint8_t *raw = malloc(3 * (in.len / 4) + 3), *again = malloc(in.len + 3);
    char *text = malloc(4 * ((in.len + 2) / 3) + 1);
    ptrdiff_t len = bytes_from_base64(in, raw);
    if (len >= 0) {
        char *back = malloc(4 * (((size_t)len + 2) / 3) + 1);
        size_t n = bytes_to_base64(BYTES(raw, (size_t)len), false, back);
        require(n <= in.len);
        for (size_t i = 0; i < n; i++)
            require(back[i] == in.data[i] || in.data[i] == '-' || in.data[i] == '_');
        free(back);
    }
    size_t n = bytes_to_base64(in, in.len % 2, text);
    require(bytes_from_base64(BYTES(text, n), again) == (ptrdiff_t)in.len);
    require(!in.len || !memcmp(again, in.data, in.len));
    free(raw);
    free(again);
    free(text);
}

static void check_hex(struct bytes in)
{
    uint8_t *raw = malloc(in.len / 2 + 1), *again = malloc(in.len + 1);
    char *text = malloc(2 * in.len + 1);
    if (bytes_from_hex(in, raw, in.len / 2)) {
        bytes_to_hex(BYTES(raw, in.len / 2), text);
        for (size_t i = 0; i < in.len; i++)
            require((text[i] | 0x20) == (in.data[i] | 0x20));
    }
    bytes_to_hex(in, text);
    require(bytes_from_hex(BYTES(text, 2 * in.len), again, in.len));
    require(!in.len || !memcmp(again, in.data, in.len));
    free(raw);
    free(again);
    free(text);
}

static void check_sanitize(struct bytes in, size_t room)
{
    char *out = malloc(room);
    size_t n = bytes_sanitize(in, out, room);
    require(n < room && n <= in.len && n == strlen(out));
    require(bytes_utf8_valid(BYTES(out, n)));
    for (size_t i = 0; i < n; i++)
        require((uint8_t)out[i] >= 0x20 && out[i] != 0x7f);
    if (room > in.len)
        require(bytes_utf8_valid(in) || memchr(out, '?', n));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = {data, size};
    check_base64(in);
    check_hex(in);
    check_sanitize(in, size + 1);
    check_sanitize(in, size / 2 + 1);
    return 0;
}
