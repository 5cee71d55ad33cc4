/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file is copied piece by piece; its constants keep their indices, new ones come behind them.
 * The inserted code has 8 bytes, so that the padding of switches stays right:
 *
 *   aload_0; getfield FIELD; invokestatic HOOK; nop
 *
 * Branches are relative. What is not, in the tables of the code, is moved by 8: handlers of
 * exceptions, line numbers, and the first frame of the stack map, to which the others are relative.
 * Other tables of the code serve debuggers alone and are left out.
 */
#include "context/java/class_patch.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { INSERTED = 8, CODE_MAX = 65535, CONSTANTS_MAX = 65535 };
enum { UTF8 = 1, LONG = 5, DOUBLE = 6, CLASS = 7, FIELDREF = 9, METHODREF = 10, NAME_TYPE = 12 };
enum { ALOAD_0 = 0x2a, GETFIELD = 0xb4, INVOKESTATIC = 0xb8 };
enum { HEAD = 8, ROOM = 1024 }; /* before the constants; for what is added, names apart */

/* Both ends are checked: reading past the end gives zeros, and `bad`. */
struct file {
    const uint8_t *in;
    size_t in_size, at;
    uint8_t *out;
    size_t out_size, used;
    bool bad;
    uint16_t n_constants;
    uint32_t *constants; /* where each one begins; 0: none */
    uint16_t field, hooks[CLASS_PATCH_METHODS];
    unsigned patched; /* methods */
};

/* ---- reading and writing ---- */

static const uint8_t *take(struct file *file, size_t n)
{
    static const uint8_t zeros[8];
    if (n > file->in_size - file->at) {
        file->bad = true;
        return n <= sizeof(zeros) ? zeros : NULL;
    }
    file->at += n;
    return file->in + file->at - n;
}

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static void put(struct file *file, const void *bytes, size_t n)
{
    if (!bytes || n > file->out_size - file->used) {
        file->bad = true;
        return;
    }
    memcpy(file->out + file->used, bytes, n);
    file->used += n;
}

static void put8(struct file *file, unsigned number)
{
    put(file, &(uint8_t){(uint8_t)number}, 1);
}

static void put16(struct file *file, unsigned number)
{
    put(file, (uint8_t[]){(uint8_t)(number >> 8), (uint8_t)number}, 2);
}

static void put32(struct file *file, uint32_t number)
{
    put16(file, number >> 16);
    put16(file, number & 0xffff);
}

static unsigned copy16(struct file *file)
{
    unsigned number = get16(take(file, 2));
    put16(file, number);
    return number;
}

static void copy(struct file *file, size_t n)
{
    put(file, take(file, n), n);
}

/* The length that stands before what has been written since is that of it. */
static void set_length(struct file *file, size_t at)
{
    size_t end = file->used;
    if (file->bad)
        return;
    file->used = at;
    put32(file, (uint32_t)(end - at - 4));
    file->used = end;
}

/* ---- constants ---- */

/* Bytes of one, with its tag; 0: unknown. */
static size_t constant_size(const struct file *file, size_t at)
{
    static const uint8_t sizes[] = {
        [3] = 5,  [4] = 5,  [5] = 9,  [6] = 9,  [7] = 3,  [8] = 3,  [9] = 5,  [10] = 5,
        [11] = 5, [12] = 5, [15] = 4, [16] = 3, [17] = 5, [18] = 5, [19] = 3, [20] = 3};
    uint8_t tag = file->in[at];
    if (tag == UTF8)
        return file->in_size - at >= 3 ? 3 + get16(file->in + at + 1) : 0;
    return tag < sizeof(sizes) ? sizes[tag] : 0;
}

static bool constants_find(struct file *file)
{
    size_t at = HEAD + 2;
    file->n_constants = (uint16_t)get16(file->in + HEAD);
    file->constants = calloc((size_t)file->n_constants + 1, sizeof(*file->constants));
    if (!file->constants)
        return false;
    for (unsigned i = 1; i < file->n_constants; i++) {
        size_t size = at < file->in_size ? constant_size(file, at) : 0;
        if (!size || size > file->in_size - at)
            return false;
        file->constants[i] = (uint32_t)at;
        if (file->in[at] == LONG || file->in[at] == DOUBLE)
            i++; /* takes two indices */
        at += size;
    }
    file->at = at;
    return true;
}

/* NULL: it is of another kind. */
static const uint8_t *constant(const struct file *file, unsigned i, uint8_t tag)
{
    const uint8_t *at =
        i < file->n_constants && file->constants[i] ? file->in + file->constants[i] : NULL;
    return at && *at == tag ? at + 1 : NULL;
}

static bool is_text(const struct file *file, unsigned i, const char *text)
{
    const uint8_t *at = constant(file, i, UTF8);
    return at && get16(at) == strlen(text) && !memcmp(at + 2, text, strlen(text));
}

static uint16_t field_find(const struct file *file, unsigned this_class,
                           const struct class_patch *patch)
{
    for (unsigned i = 1; i < file->n_constants; i++) {
        const uint8_t *at = constant(file, i, FIELDREF);
        const uint8_t *named =
            at && get16(at) == this_class ? constant(file, get16(at + 2), NAME_TYPE) : NULL;
        if (named && is_text(file, get16(named), patch->field) &&
            is_text(file, get16(named + 2), patch->field_type))
            return (uint16_t)i;
    }
    return 0;
}

static void put_text(struct file *file, const char *text)
{
    put8(file, UTF8);
    put16(file, (unsigned)strlen(text));
    put(file, text, strlen(text));
}

static void put_pair(struct file *file, unsigned tag, unsigned first, unsigned second)
{
    put8(file, tag);
    put16(file, first);
    put16(file, second);
}

/* Behind the others: the class, the hooks' type, and of each hook a name, that with the type, and
 * the method. */
static void constants_add(struct file *file, const struct class_patch *patch)
{
    char type[64] = "(";
    unsigned next = file->n_constants, class = next + 1;
    put_text(file, patch->hooks);
    put8(file, CLASS);
    put16(file, next);
    put_text(file, strcat(strncat(type, patch->field_type, sizeof(type) - sizeof("()V")), ")V"));
    next += 3;
    for (unsigned i = 0; i < CLASS_PATCH_METHODS; i++, next += 3) {
        put_text(file, patch->methods[i].hook);
        put_pair(file, NAME_TYPE, next, class + 1);
        put_pair(file, METHODREF, class, next + 1);
        file->hooks[i] = (uint16_t)(next + 2);
    }
}

/* ---- methods ---- */

static void put_frame(struct file *file, unsigned delta, unsigned short_form, unsigned long_form)
{
    if (delta < 64) {
        put8(file, short_form + delta);
    } else {
        put8(file, long_form);
        put16(file, delta);
    }
}

/* The table's frames, and the first one's place. */
static void copy_stack_map(struct file *file, size_t end)
{
    if (copy16(file)) {
        unsigned tag = *take(file, 1);
        if (tag < 64) {
            put_frame(file, tag + INSERTED, 0, 251);
        } else if (tag < 128) {
            put_frame(file, tag - 64 + INSERTED, 64, 247);
        } else {
            put8(file, tag);
            put16(file, get16(take(file, 2)) + INSERTED);
        }
    }
    if (file->at <= end)
        copy(file, end - file->at);
    else
        file->bad = true;
}

static void copy_lines(struct file *file)
{
    for (unsigned n = copy16(file); n && !file->bad; n--) {
        put16(file, get16(take(file, 2)) + INSERTED);
        copy(file, 2);
    }
}

/* True: it is there, otherwise left out. */
static bool copy_table(struct file *file)
{
    unsigned name = get16(take(file, 2));
    uint32_t size = get32(take(file, 4));
    bool is_map = is_text(file, name, "StackMapTable");
    bool is_lines = is_text(file, name, "LineNumberTable");
    size_t end = file->at + size;
    if (size > file->in_size - file->at) {
        file->bad = true;
        return false;
    }
    if (is_map || is_lines) {
        size_t length = file->used + 2;
        put16(file, name);
        put32(file, 0);
        if (is_map)
            copy_stack_map(file, end);
        else
            copy_lines(file);
        set_length(file, length);
    }
    if (file->at > end)
        file->bad = true;
    file->at = end;
    return is_map || is_lines;
}

static void copy_tables(struct file *file)
{
    unsigned n = get16(take(file, 2)), kept = 0;
    size_t count = file->used;
    put16(file, 0);
    for (; n && !file->bad; n--)
        kept += copy_table(file);
    if (!file->bad) {
        size_t end = file->used;
        file->used = count;
        put16(file, kept);
        file->used = end;
    }
}

/* The attribute from its length on. */
static void patch_code(struct file *file, uint16_t hook)
{
    size_t length = file->used;
    take(file, 4);
    put32(file, 0);
    unsigned stack = get16(take(file, 2));
    put16(file, stack ? stack : 1);
    copy(file, 2); /* locals */
    uint32_t code = get32(take(file, 4));
    if (code > CODE_MAX - INSERTED) {
        file->bad = true;
        return;
    }
    put32(file, code + INSERTED);
    put8(file, ALOAD_0);
    put8(file, GETFIELD);
    put16(file, file->field);
    put8(file, INVOKESTATIC);
    put16(file, hook);
    put8(file, 0);
    copy(file, code);
    for (unsigned n = copy16(file); n && !file->bad; n--) {
        for (int i = 0; i < 3; i++) /* from, to, handler */
            put16(file, get16(take(file, 2)) + INSERTED);
        copy(file, 2);
    }
    copy_tables(file);
    set_length(file, length);
}

/* Fields, methods and the class have such a list. */
static void copy_attributes(struct file *file, uint16_t hook)
{
    for (unsigned n = copy16(file); n && !file->bad; n--) {
        unsigned name = copy16(file);
        if (hook && is_text(file, name, "Code")) {
            patch_code(file, hook);
            file->patched++;
        } else {
            uint32_t size = get32(take(file, 4));
            put32(file, size);
            copy(file, size);
        }
    }
}

static uint16_t hook_of(const struct file *file, const struct class_patch *patch, unsigned name,
                        unsigned type)
{
    for (unsigned i = 0; i < CLASS_PATCH_METHODS; i++)
        if (is_text(file, name, patch->methods[i].method) && is_text(file, type, "()V"))
            return file->hooks[i];
    return 0;
}

/* Fields or methods. patch: of methods. */
static void copy_members(struct file *file, const struct class_patch *patch)
{
    for (unsigned n = copy16(file); n && !file->bad; n--) {
        copy(file, 2); /* access */
        unsigned name = copy16(file);
        unsigned type = copy16(file);
        copy_attributes(file, patch ? hook_of(file, patch, name, type) : 0);
    }
}

/* ---- the file ---- */

static bool file_patch(struct file *file, const struct class_patch *patch)
{
    if (file->in_size < HEAD + 2 || !constants_find(file) ||
        file->n_constants > CONSTANTS_MAX - 3 - 3 * CLASS_PATCH_METHODS)
        return false;
    put(file, file->in, HEAD);
    put16(file, file->n_constants + 3u + 3 * CLASS_PATCH_METHODS);
    put(file, file->in + HEAD + 2, file->at - HEAD - 2);
    constants_add(file, patch);
    copy(file, 2); /* access */
    file->field = field_find(file, copy16(file), patch);
    copy(file, 2); /* the class above */
    copy(file, 2 * copy16(file));
    copy_members(file, NULL);
    copy_members(file, patch);
    copy_attributes(file, 0);
    return !file->bad && file->at == file->in_size && file->field &&
           file->patched == CLASS_PATCH_METHODS;
}

uint8_t *class_patch(const struct class_patch *patch, const uint8_t *in, size_t size,
                     size_t *new_size)
{
    struct file file = {.in = in, .in_size = size, .out_size = size + ROOM};
    file.out = malloc(file.out_size);
    bool is_patched = file.out && file_patch(&file, patch);
    free(file.constants);
    if (!is_patched) {
        free(file.out);
        return NULL;
    }
    *new_size = file.used;
    return file.out;
}
