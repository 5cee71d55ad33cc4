/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Method, ConstMethod, ConstantPool, the holder's Klass, Symbols: one level after the other, for
 * all methods together. The line table lies behind the bytecodes.
 */
#include "agent-bpf/runtimes/hotspot/hotspot_methods.h"

#define LINES_BYTES     16384 /* read of a line table */
#define LINES_BYTES_FEW 2048  /* the same if there are many methods */
#define MANY            64
#define HAS_LINES       1 /* flag of a ConstMethod */

static uint64_t bytes_word(const uint8_t *bytes, uint16_t at)
{
    uint64_t word = 0;
    if (at <= HOTSPOT_CONST_METHOD_BYTES - sizeof(word))
        memcpy(&word, bytes + at, sizeof(word));
    return word;
}

static void method_fetch(struct hotspot_fetch *fetch, struct hotspot_method *method,
                         uint64_t address, void *out, size_t size, bool *done)
{
    hotspot_trail_fetch(&method->trail, fetch, address, out, size, done);
}

/* ---- levels ---- */

static int methods_read_methods(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                                struct hotspot_method *methods, size_t n)
{
    for (size_t i = 0; i < n; i++)
        method_fetch(fetch, &methods[i], methods[i].address + process->method.const_method,
                     &methods[i].found, sizeof(methods[i].found), &methods[i].read);
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++) {
        struct hotspot_method *method = &methods[i];
        if (!method->read)
            method->outcome = RUNTIME_FRAME_UNREADABLE;
        else if (method->const_method && method->found != method->const_method)
            method->outcome = RUNTIME_FRAME_STALE;
        else
            method->outcome = RUNTIME_FRAME_NAMED;
    }
    return error;
}

/* All that a method needs at a level was read, or it has no name. */
static bool method_needs(struct hotspot_method *method, bool read)
{
    if (method->outcome == RUNTIME_FRAME_NAMED && !read)
        method->outcome = RUNTIME_FRAME_UNREADABLE;
    return method->outcome == RUNTIME_FRAME_NAMED;
}

static int methods_read_const(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_method *methods, size_t n)
{
    uint16_t size = process->method.bytecodes;
    if (size > HOTSPOT_CONST_METHOD_BYTES)
        size = HOTSPOT_CONST_METHOD_BYTES;
    for (size_t i = 0; i < n; i++)
        if (methods[i].outcome == RUNTIME_FRAME_NAMED)
            method_fetch(fetch, &methods[i], methods[i].found, methods[i].bytes, size,
                         &methods[i].read);
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        if (method_needs(&methods[i], methods[i].read)) {
            methods[i].pool = bytes_word(methods[i].bytes, process->names.const_method_constants);
            methods[i].code_size =
                (uint16_t)bytes_word(methods[i].bytes, process->method.code_size);
        }
    return error;
}

static uint64_t pool_entry(const struct hotspot_process *process,
                           const struct hotspot_method *method, uint16_t index)
{
    return method->pool + process->names.pool_bytes + (uint64_t)index * sizeof(uint64_t);
}

static int method_fetch_lines(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_method *method, struct arena *arena, uint32_t most)
{
    const struct hotspot_names_layout *names = &process->names;
    uint64_t words = (uint32_t)bytes_word(method->bytes, names->const_method_size);
    uint64_t size = words * sizeof(uint64_t);
    uint64_t at = (uint64_t)process->method.bytecodes + method->code_size;
    if (!(bytes_word(method->bytes, names->const_method_flags) & HAS_LINES) || size <= at)
        return 0;
    size = size - at < most ? size - at : most;
    uint8_t *table = arena_alloc(arena, (size_t)size);
    if (!table)
        return -ENOMEM;
    method->line_table = BYTES(table, size);
    method_fetch(fetch, method, method->found + at, table, (size_t)size, &method->lines_read);
    return 0;
}

static void method_fetch_pool(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_method *method)
{
    const struct hotspot_names_layout *names = &process->names;
    uint16_t name = (uint16_t)bytes_word(method->bytes, names->const_method_name);
    uint16_t signature = (uint16_t)bytes_word(method->bytes, names->const_method_signature);
    struct hotspot_symbol *texts = method->texts;
    method_fetch(fetch, method, pool_entry(process, method, name), &texts[HOTSPOT_NAME].address,
                 sizeof(uint64_t), &texts[HOTSPOT_NAME].read);
    method_fetch(fetch, method, pool_entry(process, method, signature),
                 &texts[HOTSPOT_SIGNATURE].address, sizeof(uint64_t),
                 &texts[HOTSPOT_SIGNATURE].read);
    method_fetch(fetch, method, method->pool + names->pool_holder, &method->holder,
                 sizeof(method->holder), &method->holder_read);
    if (names->pool_source_file != HOTSPOT_NONE)
        method_fetch(fetch, method, method->pool + names->pool_source_file, &method->source_index,
                     sizeof(method->source_index), &method->source_read);
}

static int methods_read_pools(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_method *methods, size_t n, struct arena *arena)
{
    uint32_t most = n > MANY ? LINES_BYTES_FEW : LINES_BYTES;
    for (size_t i = 0; i < n; i++) {
        if (methods[i].outcome != RUNTIME_FRAME_NAMED)
            continue;
        method_fetch_pool(process, fetch, &methods[i]);
        int error = method_fetch_lines(process, fetch, &methods[i], arena, most);
        if (error)
            return error;
    }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++) {
        struct hotspot_method *method = &methods[i];
        method_needs(method, method->holder_read && method->texts[HOTSPOT_NAME].read &&
                                 method->texts[HOTSPOT_SIGNATURE].read);
        if (!method->lines_read)
            method->line_table = BYTES(NULL, 0);
    }
    return error;
}

static int methods_read_holders(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                                struct hotspot_method *methods, size_t n)
{
    const struct hotspot_names_layout *names = &process->names;
    for (size_t i = 0; i < n; i++) {
        struct hotspot_method *method = &methods[i];
        if (method->outcome != RUNTIME_FRAME_NAMED)
            continue;
        method_fetch(fetch, method, method->holder + names->klass_name,
                     &method->texts[HOTSPOT_CLASS].address, sizeof(uint64_t),
                     &method->texts[HOTSPOT_CLASS].read);
        method_fetch(fetch, method, method->holder + names->klass_constants, &method->holder_pool,
                     sizeof(method->holder_pool), &method->constants_read);
        method_fetch(fetch, method, method->holder + names->klass_loader_data, &method->loader,
                     sizeof(method->loader), &method->loader_read);
        if (names->pool_source_file == HOTSPOT_NONE && names->klass_source_file != HOTSPOT_NONE)
            method_fetch(fetch, method, method->holder + names->klass_source_file,
                         &method->source_index, sizeof(method->source_index), &method->source_read);
    }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++) {
        struct hotspot_method *method = &methods[i];
        struct hotspot_symbol *source = &method->texts[HOTSPOT_SOURCE_FILE];
        if (method_needs(method, method->texts[HOTSPOT_CLASS].read && method->constants_read &&
                                     method->loader_read) &&
            method->holder_pool != method->pool)
            method->outcome = RUNTIME_FRAME_STALE;
        if (method->outcome == RUNTIME_FRAME_NAMED && method->source_read && method->source_index)
            method_fetch(fetch, method, pool_entry(process, method, method->source_index),
                         &source->address, sizeof(source->address), &source->read);
    }
    return error ? error : hotspot_fetch_run(fetch);
}

/* ---- symbols ---- */

/* The low bit of an entry of a pool says something else. */
static uint64_t symbol_address(const struct hotspot_symbol *symbol)
{
    return symbol->read ? symbol->address & ~UINT64_C(1) : 0;
}

static void symbol_set_length(const struct hotspot_names_layout *names,
                              struct hotspot_symbol *symbol)
{
    uint32_t length;
    uint16_t references = 1;
    memcpy(&length, symbol->head + names->symbol_length, sizeof(length));
    length = names->symbol_length_shift ? length >> 16 : length & 0xffff;
    if (names->symbol_references != HOTSPOT_NONE)
        memcpy(&references, symbol->head + names->symbol_references, sizeof(references));
    symbol->length = length < RUNTIME_NAME_MAX ? length : RUNTIME_NAME_MAX;
    symbol->references = references;
}

static int methods_read_heads(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_method *methods, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int text = 0; methods[i].outcome == RUNTIME_FRAME_NAMED && text < HOTSPOT_TEXTS;
             text++) {
            struct hotspot_symbol *symbol = &methods[i].texts[text];
            symbol->address = symbol_address(symbol);
            symbol->read = false;
            if (symbol->address)
                method_fetch(fetch, &methods[i], symbol->address, symbol->head,
                             sizeof(symbol->head), &symbol->read);
        }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        for (int text = 0; text < HOTSPOT_TEXTS; text++)
            symbol_set_length(&process->names, &methods[i].texts[text]);
    return error;
}

/* No name of a class or method has these, but for <init> and <clinit>. */
static bool name_is_sound(const struct hotspot_symbol *symbol, const char *excluded)
{
    struct bytes name = BYTES(symbol->bytes, symbol->length);
    if (!name.len || !symbol->references)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] < ' ' || name.data[i] == 0x7f || strchr(excluded, name.data[i]))
            return false;
    return name.len == RUNTIME_NAME_MAX || bytes_utf8_valid(name);
}

static bool signature_is_sound(const struct hotspot_symbol *symbol)
{
    const uint8_t *bytes = symbol->bytes;
    if (!symbol->read || symbol->length < 3 || bytes[0] != '(' || !symbol->references)
        return false;
    return symbol->length == RUNTIME_NAME_MAX || memchr(bytes, ')', symbol->length);
}

/* The class may be unloaded: what was freed may hold anything since. */
static bool method_is_sound(const struct hotspot_method *method)
{
    const struct hotspot_symbol *name = &method->texts[HOTSPOT_NAME];
    bool special = name->length && name->bytes[0] == '<';
    if (special && (name->length < 6 || memchr("ic", name->bytes[1], 2) == NULL))
        return false;
    return name_is_sound(name, special ? ".;[/" : ".;[/<>") &&
           name_is_sound(&method->texts[HOTSPOT_CLASS], ";[<>") &&
           signature_is_sound(&method->texts[HOTSPOT_SIGNATURE]);
}

static int methods_read_texts(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                              struct hotspot_method *methods, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int text = 0; methods[i].outcome == RUNTIME_FRAME_NAMED && text < HOTSPOT_TEXTS;
             text++) {
            struct hotspot_symbol *symbol = &methods[i].texts[text];
            if (symbol->read)
                method_fetch(fetch, &methods[i], symbol->address + process->names.symbol_body,
                             symbol->bytes, symbol->length, &symbol->read);
        }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        if (method_needs(&methods[i], methods[i].texts[HOTSPOT_CLASS].read &&
                                          methods[i].texts[HOTSPOT_NAME].read) &&
            !method_is_sound(&methods[i]))
            methods[i].outcome = RUNTIME_FRAME_STALE;
    return error;
}

/* ---- text ---- */

struct text { /* being written; what does not fit is cut off */
    char chars[RUNTIME_NAME_MAX + 1];
    size_t n;
};

static void text_add(struct text *text, struct bytes bytes)
{
    size_t room = RUNTIME_NAME_MAX - text->n;
    size_t n = bytes.len < room ? bytes.len : room;
    memcpy(text->chars + text->n, bytes.data, n);
    text->n += n;
}

static int text_take(const struct text *text, struct arena *arena, struct bytes *out)
{
    char clean[RUNTIME_NAME_MAX + 1];
    size_t n = bytes_sanitize(BYTES(text->chars, text->n), clean, sizeof(clean));
    char *copy = arena_dup(arena, clean, n + 1);
    *out = BYTES(copy, n);
    return copy ? 0 : -ENOMEM;
}

static struct bytes symbol_bytes(const struct hotspot_method *method, enum hotspot_text text)
{
    const struct hotspot_symbol *symbol = &method->texts[text];
    return symbol->read ? BYTES(symbol->bytes, symbol->length) : BYTES("", 0);
}

/* A hidden class has its address behind its name, and lambdas a number: of no use to a reader, and
 * different in each process. */
static struct bytes class_name(const struct hotspot_method *method)
{
    static const char lambda[] = "$$Lambda$";
    struct bytes name = symbol_bytes(method, HOTSPOT_CLASS);
    const uint8_t *at = name.len ? memmem(name.data, name.len, "+0x", 3) : NULL;
    if (at)
        name.len = (size_t)(at - name.data);
    at = name.len ? memmem(name.data, name.len, lambda, sizeof(lambda) - 1) : NULL;
    if (at)
        name.len = (size_t)(at - name.data) + sizeof(lambda) - 2;
    return name;
}

static void text_add_class(struct text *text, struct bytes name)
{
    size_t from = text->n;
    text_add(text, name);
    for (; from < text->n; from++)
        if (text->chars[from] == '/')
            text->chars[from] = '.';
}

/* The source file with the package's folder. */
static void text_add_file(struct text *text, struct bytes name, struct bytes source)
{
    const uint8_t *slash = name.len ? memrchr(name.data, '/', name.len) : NULL;
    if (slash)
        text_add(text, BYTES(name.data, (size_t)(slash + 1 - name.data)));
    text_add(text, source);
}

static int method_write(struct hotspot_method *method, struct arena *arena)
{
    struct text function = {.n = 0}, system_name, file = {.n = 0};
    struct bytes class = class_name(method), source = symbol_bytes(method, HOTSPOT_SOURCE_FILE);
    text_add_class(&function, class);
    text_add(&function, BYTES_LIT("."));
    text_add(&function, symbol_bytes(method, HOTSPOT_NAME));
    system_name = function;
    text_add(&system_name, symbol_bytes(method, HOTSPOT_SIGNATURE));
    if (source.len)
        text_add_file(&file, class, source);
    int error = text_take(&function, arena, &method->line.function);
    if (!error)
        error = text_take(&system_name, arena, &method->line.system_name);
    return error ? error : text_take(&file, arena, &method->line.file);
}

/* ---- whether the class lives ---- */

/*
 * What a dead class leaves behind may be as it was, while its Symbols are others already. So its
 * loader is looked at behind all that was read of it, and must not be gone. The memory of a loader
 * that is gone may be another one's, which has other classes: two of them are looked at, as those
 * that come and go have few. Last, in the place of the class there may be another one by then: it
 * has another name. A request is read in its order.
 */
static int methods_check_loaders(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                                 struct hotspot_method *methods, size_t n)
{
    const struct hotspot_names_layout *names = &process->names;
    for (size_t i = 0; i < n; i++) {
        struct hotspot_method *method = &methods[i];
        if (method->outcome != RUNTIME_FRAME_NAMED)
            continue;
        hotspot_fetch_add(fetch, method->loader + names->loader_kind - 1, &method->loader_gone,
                          sizeof(method->loader_gone), &method->loader_read);
        hotspot_fetch_add(fetch, method->loader + names->loader_classes, &method->classes[0],
                          sizeof(method->classes[0]), &method->class_read);
    }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        if (methods[i].outcome == RUNTIME_FRAME_NAMED &&
            (!methods[i].loader_read || methods[i].loader_gone || !methods[i].class_read))
            methods[i].outcome = RUNTIME_FRAME_STALE;
    return error;
}

static bool class_is_its(const struct hotspot_method *method)
{
    const struct hotspot_symbol *name = &method->texts[HOTSPOT_CLASS];
    bool listed =
        method->classes[0] == method->holder || (method->class_read && method->classes[1]);
    return listed && method->name_read && method->name_again == name->address &&
           method->text_read && !memcmp(method->text_again, name->bytes, name->length);
}

static int methods_check_classes(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                                 struct hotspot_method *methods, size_t n)
{
    const struct hotspot_names_layout *names = &process->names;
    for (size_t i = 0; i < n; i++) {
        struct hotspot_method *method = &methods[i];
        const struct hotspot_symbol *name = &method->texts[HOTSPOT_CLASS];
        if (method->outcome != RUNTIME_FRAME_NAMED)
            continue;
        if (method->classes[0] != method->holder)
            hotspot_fetch_add(fetch, method->classes[0] + names->klass_next, &method->classes[1],
                              sizeof(method->classes[1]), &method->class_read);
        hotspot_fetch_add(fetch, method->holder + names->klass_name, &method->name_again,
                          sizeof(method->name_again), &method->name_read);
        hotspot_fetch_add(fetch, name->address + names->symbol_body, method->text_again,
                          name->length, &method->text_read);
    }
    int error = hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        if (methods[i].outcome == RUNTIME_FRAME_NAMED && !class_is_its(&methods[i]))
            methods[i].outcome = RUNTIME_FRAME_STALE;
    return error;
}

/* ---- public ---- */

int hotspot_methods_find(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                         struct hotspot_method *methods, size_t n, struct arena *arena)
{
    int error = methods_read_methods(process, fetch, methods, n);
    if (!error)
        error = methods_read_const(process, fetch, methods, n);
    if (!error)
        error = methods_read_pools(process, fetch, methods, n, arena);
    if (!error)
        error = methods_read_holders(process, fetch, methods, n);
    if (!error)
        error = methods_read_heads(process, fetch, methods, n);
    if (!error)
        error = methods_read_texts(process, fetch, methods, n);
    for (size_t i = 0; !error && i < n; i++)
        if (methods[i].outcome == RUNTIME_FRAME_NAMED)
            error = method_write(&methods[i], arena);
    return error;
}

int hotspot_methods_check(const struct hotspot_process *process, struct hotspot_fetch *fetch,
                          struct hotspot_method *methods, size_t n)
{
    bool lives = process->names.loader_kind != HOTSPOT_NONE; /* which 8 does not tell */
    for (size_t i = 0; i < n; i++) {
        methods[i].const_method = methods[i].found;
        hotspot_fetch_add(fetch, methods[i].address + process->method.const_method,
                          &methods[i].found, sizeof(methods[i].found), &methods[i].read);
    }
    int error =
        lives ? methods_check_loaders(process, fetch, methods, n) : hotspot_fetch_run(fetch);
    for (size_t i = 0; i < n; i++)
        if (methods[i].outcome == RUNTIME_FRAME_NAMED &&
            (!methods[i].read || methods[i].found != methods[i].const_method))
            methods[i].outcome = RUNTIME_FRAME_STALE;
    return error || !lives ? error : methods_check_classes(process, fetch, methods, n);
}
