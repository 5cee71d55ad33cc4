/* SPDX-License-Identifier: Apache-2.0 OR BSD-2-Clause */
#pragma once
/* A record in the making: one a CPU, too large for the stack. */

#define UNWIND_KERNEL_BYTES (RECORD_MAX_KERNEL_FRAMES * 8)
#define UNWIND_USER_BYTES   (RECORD_MAX_USER_FRAMES * 8)
#define UNWIND_AT_MASK      0x7f8 /* offsets of frames: multiples of 8 */

#define LABELS_MAX      32                         /* read of one set */
#define LABEL_BYTES_MAX (2 + 2 * RECORD_LABEL_MAX) /* in the attributes */

struct label_text { /* in the process: Go's string */
    __u64 address;
    __u64 size;
};

struct custom_label { /* custom labels */
    __u64 key_size;
    __u64 key;
    __u64 value_size;
    __u64 value;
};

#define GO_BUCKET_SLOTS 8

struct go_bucket { /* Go <= 1.23: of a map[string]string */
    __u8 tophash[GO_BUCKET_SLOTS];
    struct label_text keys[GO_BUCKET_SLOTS];
    struct label_text values[GO_BUCKET_SLOTS];
};

_Static_assert(sizeof(struct go_bucket) == 264, "without the overflow pointer");

/* `rest` is larger than what a record has behind its header, so that a masked offset plus the
 * largest stack lies within: the mask alone then satisfies the verifier. Where frames come later
 * there is room meanwhile for labels as their process holds them. */
struct build {
    struct record_header header;
    union {
        __u8 rest[UNWIND_AT_MASK + 8 + UNWIND_USER_BYTES];
        struct {
            __u8
                attributes[RECORD_MAX_ATTRIBUTES + LABEL_BYTES_MAX]; /* the last may reach beyond */
            union {
                struct label_text labels[2 * LABELS_MAX]; /* key, value, key, ... */
                struct custom_label custom_labels[LABELS_MAX];
                struct go_bucket bucket;
            };
        };
    };
};

_Static_assert(sizeof(struct build) ==
                   sizeof(struct record_header) + UNWIND_AT_MASK + 8 + UNWIND_USER_BYTES,
               "labels take no room of their own");
_Static_assert(sizeof(struct build) >= RECORD_MAX_SIZE, "record.h");
