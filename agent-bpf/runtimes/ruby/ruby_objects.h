/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Ruby's objects as words: what a String, an Array and a hash table of variables have where. Pure;
 * any words are an object. Source: rbasic.h, rstring.h, rarray.h, fl_type.h, internal/imemo.h and
 * st.h of Ruby 2.7 to 3.4.
 */
#include "agent-bpf/runtimes/ruby/ruby_layout.h"

#define RUBY_T_CLASS  0x02
#define RUBY_T_MODULE 0x03
#define RUBY_T_STRING 0x05
#define RUBY_T_ARRAY  0x07
#define RUBY_T_IMEMO  0x1a

#define RUBY_IMEMO_SVAR   2
#define RUBY_IMEMO_METHOD 6
#define RUBY_IMEMO_ISEQ   7

#define RUBY_STRING_HEAD 64 /* bytes read of a String: the most common ones are whole */
#define RUBY_ARRAY_HEAD  40
#define RUBY_TABLE_HEAD  56
#define RUBY_TABLE_ENTRY 24 /* {hash, key, value} */

#define RUBY_OPERATORS 256 /* identifiers below are their own number, else number << 4 | kind */

static inline unsigned ruby_type(uint64_t flags)
{
    return flags & 0x1f;
}

static inline unsigned ruby_imemo_type(uint64_t flags)
{
    return ruby_type(flags) == RUBY_T_IMEMO ? flags >> 12 & 15 : 0;
}

static inline bool ruby_is_singleton(const struct ruby_layout *layout, uint64_t flags)
{
    unsigned bit = layout->version >= RUBY_VERSION(3, 4) ? 13 : 12;
    return ruby_type(flags) == RUBY_T_CLASS && flags >> bit & 1;
}

/* It can be an object: neither nil nor a number. */
static inline bool ruby_is_object(uint64_t value)
{
    return value > 4096 && !(value & 7);
}

/* Where the bytes of a String are; in the object itself: `embedded`, from its start on. False: it
 * is none. */
struct ruby_string {
    uint64_t length;
    uint64_t address; /* of an embedded one: its offset */
    bool embedded;
};

static inline bool ruby_string_open(const struct ruby_layout *layout, const uint64_t *words,
                                    struct ruby_string *string)
{
    bool in_union = layout->process.text_start == 16;
    string->embedded = !(words[0] >> 13 & 1);
    string->length = in_union && string->embedded ? words[0] >> 14 & 0x1f : words[2];
    string->address = string->embedded ? layout->process.text_start : words[3];
    return ruby_type(words[0]) == RUBY_T_STRING && string->length <= INT64_MAX;
}

/* Address of the elements; array: where the object is. 0: it is no Array, or has no such element.
 */
static inline uint64_t ruby_array_element(const uint64_t *words, uint64_t array, uint64_t index)
{
    bool embedded = words[0] >> 13 & 1;
    uint64_t length = embedded ? words[0] >> 15 & 0x7f : words[2];
    if (ruby_type(words[0]) != RUBY_T_ARRAY || index >= length)
        return 0;
    return (embedded ? array + 16 : words[4]) + 8 * index;
}

/* Number of an identifier in the table of names. */
static inline uint64_t ruby_identifier_number(uint64_t id)
{
    return id < RUBY_OPERATORS ? id : id >> 4;
}
