/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Content codings, bounded on output. Thread: any; no state. max_bytes guards against decompression
 * bombs: inflating stops at the first byte beyond it. Outcomes: 0 (CODEC_OK), CODEC_MALFORMED (also
 * truncated, or with trailing garbage), CODEC_TOO_BIG, -ENOMEM. On any outcome but 0, `out` is
 * unchanged.
 */
#include "base/buf.h"

enum codec_outcome { CODEC_OK = 0, CODEC_MALFORMED = 1, CODEC_TOO_BIG = 2 };

/* Appends the inflated bytes to out, at most max_bytes of them. Several consecutive members or
 * frames are legal and are joined. Empty input is malformed. */
int codec_inflate_gzip(struct bytes in, size_t max_bytes, struct buf *out); /* RFC 1952 */
/* RFC 9110, 8.4.1.2: the zlib format (RFC 1950), one stream; also without its wrapper (RFC 1951),
 * as some send it. */
int codec_inflate_deflate(struct bytes in, size_t max_bytes, struct buf *out);
int codec_inflate_zstd(struct bytes in, size_t max_bytes,
                       struct buf *out); /* RFC 8878, no dictionaries */

/* Appends one gzip member. 0, BUF_FULL (out's limit) or -ENOMEM. */
int codec_gzip(struct bytes in, struct buf *out);
/* Appends one zstd frame, at zstd's default level. Outcomes as above. */
int codec_zstd(struct bytes in, struct buf *out);
