/* SPDX-License-Identifier: Apache-2.0 */
/* .debug_frame where .eh_frame says nothing, as gcc writes it, plain and compressed; and what
 * strangers may make of that. */
#include "agent-bpf/symbolizer/symbolizer_tables.h"
#include "agent-bpf/unwind/eh_frame.h"
#include "base/buf.h"
#include "base/stats.h"
#include "test/support/fixtures/cpu_time.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#define FUNCTIONS 24 /* of the corpus that only .debug_frame describes */

static struct buf load(const char *name)
{
    struct buf file = BUF_INIT(0);
    uint8_t bytes[16384];
    char path[512];
    snprintf(path, sizeof(path), CORPUS "/%s", name);
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    size_t n = fread(bytes, 1, sizeof(bytes), stream);
    assert_true(n > 0 && feof(stream));
    fclose(stream);
    assert_int_equal(buf_append(&file, bytes, n), 0);
    return file;
}

static Elf64_Shdr *section_of(struct buf *file)
{
    Elf64_Ehdr *header = (void *)file->data;
    Elf64_Shdr *sections = (void *)(file->data + header->e_shoff);
    const char *names = (char *)file->data + sections[header->e_shstrndx].sh_offset;
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (!strcmp(names + sections[i].sh_name, ".debug_frame"))
            return &sections[i];
    fail();
    return NULL;
}

static int memory_file(const struct buf *file)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_int_equal(write(fd, file->data, file->len), file->len);
    return fd;
}

typedef int opening(const struct elf *elf, struct eh_frame **frame);

static int open_by(opening *how, const struct buf *file, struct eh_frame **frame)
{
    struct elf elf;
    int fd = memory_file(file);
    *frame = NULL;
    int error = elf_open(fd, &elf);
    error = error ? error : how(&elf, frame);
    close(fd); /* it keeps its own */
    return error;
}

/* All code of the small files is in one page. */
static struct unwind_page page_of(const char *name)
{
    struct buf file = load(name);
    struct eh_frame *frame;
    struct unwind_page page;
    assert_int_equal(open_by(eh_frame_open, &file, &frame), 0);
    assert_int_equal(eh_frame_page(frame, 0, &page), 0);
    assert_int_equal(page.damaged, 0);
    eh_frame_close(frame);
    buf_close(&file);
    return page;
}

/* Stretches of addresses of which something is said. */
static unsigned stretches(const struct unwind_page *page)
{
    unsigned n = 0;
    for (uint32_t i = 1; i < page->n_rows; i++)
        n += page->rules[page->rows[i].rule].cfa != UNWIND_NO_INFO &&
             page->rules[page->rows[i - 1].rule].cfa == UNWIND_NO_INFO;
    return n;
}

static void assert_same(struct unwind_page *page, struct unwind_page *other)
{
    assert_int_equal(page->n_rows, other->n_rows);
    for (uint32_t i = 0; i < page->n_rows; i++) {
        assert_int_equal(page->rows[i].low, other->rows[i].low);
        assert_memory_equal(&page->rules[page->rows[i].rule], &other->rules[other->rows[i].rule],
                            sizeof(struct unwind_rule));
    }
    unwind_page_close(page);
    unwind_page_close(other);
}

static void compressed_says_the_same(void **state)
{
    (void)state;
    struct unwind_page zlib = page_of("debug_zlib.so"), zstd = page_of("debug_zstd.so");
    assert_true(stretches(&zlib) > FUNCTIONS / 2); /* some touch */
    assert_same(&zlib, &zstd);
    struct unwind_page plain = page_of("beside.so"), beside = page_of("beside_zlib.so");
    assert_same(&plain, &beside);
}

static void rows_of_both(void **state)
{
    (void)state;
    struct buf file = load("beside_zlib.so");
    struct eh_frame *frame, *loaded;
    struct unwind_page both, alone;
    assert_int_equal(open_by(eh_frame_open, &file, &frame), 0);
    assert_int_equal(open_by(eh_frame_open_loaded, &file, &loaded), 0);
    size_t before = eh_frame_bytes(frame);
    assert_int_equal(eh_frame_page(frame, 0, &both), 0);
    assert_int_equal(eh_frame_page(loaded, 0, &alone), 0);
    assert_true(eh_frame_bytes(frame) > before + FUNCTIONS * 16);
    assert_true(stretches(&both) > stretches(&alone) + FUNCTIONS / 2);
    for (uint64_t at = 0; at < UNWIND_PAGE_BYTES; at++) { /* .eh_frame has the last word */
        const struct unwind_rule *rule = unwind_page_find(&alone, at);
        if (rule->cfa != UNWIND_NO_INFO)
            assert_memory_equal(unwind_page_find(&both, at), rule, sizeof(*rule));
    }
    unwind_page_close(&both);
    unwind_page_close(&alone);
    eh_frame_close(frame);
    eh_frame_close(loaded);
    buf_close(&file);
}

static void loaded_is_eh_frame_alone(void **state)
{
    (void)state;
    struct buf file = load("debug_zlib.so");
    struct eh_frame *frame;
    assert_int_equal(open_by(eh_frame_open_loaded, &file, &frame), ELF_MISSING);
    assert_null(frame);
    buf_close(&file);
}

static struct elf memory_elf(const struct buf *file)
{
    struct elf elf;
    assert_int_equal(elf_open(memory_file(file), &elf), 0);
    return elf;
}

/* As strip leaves it. */
static struct buf stripped(const char *name)
{
    struct buf file = load(name);
    section_of(&file)->sh_type = SHT_NOBITS;
    return file;
}

static struct unwind_page page_with(const char *name, const char *debug_name)
{
    struct buf file = stripped(name), debug_file = load(debug_name);
    struct elf elf = memory_elf(&file), debug = memory_elf(&debug_file);
    struct eh_frame *frame;
    struct unwind_page page;
    assert_int_equal(eh_frame_open_with(&elf, &debug, &frame), 0);
    close(elf.fd); /* it keeps its own */
    close(debug.fd);
    assert_int_equal(eh_frame_page(frame, 0, &page), 0);
    eh_frame_close(frame);
    buf_close(&file);
    buf_close(&debug_file);
    return page;
}

static void moved_to_a_file_of_its_own(void **state)
{
    (void)state;
    static const char *const names[] = {"debug_zlib.so", "beside.so", "beside_zlib.so"};
    for (int i = 0; i < 3; i++) {
        struct unwind_page whole = page_of(names[i]), moved = page_with(names[i], names[i]);
        assert_same(&whole, &moved);
    }
}

static void debug_file_without(void **state)
{
    (void)state;
    struct buf file = stripped("debug_zlib.so"), beside = load("beside.so");
    struct elf elf = memory_elf(&file), whole = memory_elf(&beside);
    struct eh_frame *frame;
    assert_int_equal(eh_frame_open(&elf, &frame), ELF_MISSING);
    assert_int_equal(eh_frame_open_with(&elf, &elf, &frame), ELF_MISSING);
    assert_null(frame);
    struct unwind_page page, expected = page_of("beside.so");
    assert_int_equal(eh_frame_open_with(&whole, &elf, &frame), 0); /* has its own */
    assert_int_equal(eh_frame_page(frame, 0, &page), 0);
    assert_same(&page, &expected);
    eh_frame_close(frame);
    close(elf.fd);
    close(whole.fd);
    buf_close(&file);
    buf_close(&beside);
}

/* A gap is only looked into if it is more than what aligns functions. */
static void gaps(void **state)
{
    (void)state;
    const struct unwind_rule some = {.cfa = UNWIND_REGISTER}, none = {0};
    struct unwind_page page;
    assert_int_equal(unwind_page_init(&page, 0), 0);
    assert_true(unwind_page_has_gap(&page, UNWIND_PAGE_BYTES));
    assert_int_equal(unwind_page_put(&page, 0, &some), 0);
    assert_false(unwind_page_has_gap(&page, 1));
    assert_int_equal(unwind_page_put(&page, 100, &none), 0);
    assert_true(unwind_page_has_gap(&page, UNWIND_PAGE_BYTES - 100));
    assert_false(unwind_page_has_gap(&page, UNWIND_PAGE_BYTES - 99));
    assert_int_equal(unwind_page_put(&page, 163, &some), 0);
    assert_true(unwind_page_has_gap(&page, 63));
    assert_false(unwind_page_has_gap(&page, 64));
    unwind_page_close(&page);
}

/* ---- malformed ---- */

static int opened(const struct buf *file)
{
    struct eh_frame *frame;
    int error = open_by(eh_frame_open, file, &frame);
    assert_true(error >= 0 && !frame == !!error);
    eh_frame_close(frame);
    return error;
}

static void bad_headers(void **state)
{
    (void)state;
    struct buf file = load("debug_zlib.so");
    Elf64_Shdr *section = section_of(&file);
    Elf64_Chdr *head = (void *)(file.data + section->sh_offset);
    const Elf64_Chdr good = *head;
    const Elf64_Shdr place = *section;
    assert_int_equal(opened(&file), 0);
    static const uint32_t types[] = {0, 2, 3, UINT32_MAX}; /* 2: zstd, which this is not */
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        head->ch_type = types[i];
        assert_int_equal(opened(&file), ELF_MALFORMED);
    }
    *head = good;
    const uint64_t sizes[] = {0,          good.ch_size - 1,   good.ch_size + 1,  EH_DECODED_MAX,
                              UINT32_MAX, EH_DECODED_MAX + 1, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        head->ch_size = sizes[i];
        assert_int_equal(opened(&file), ELF_MALFORMED);
    }
    *head = good;
    for (uint64_t size = 0; size < place.sh_size; size++) {
        section->sh_size = size;
        assert_int_equal(opened(&file), ELF_MALFORMED);
    }
    static const uint64_t far[] = {UINT64_C(1) << 63, UINT64_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
        section->sh_size = far[i];
        assert_int_equal(opened(&file), ELF_MALFORMED);
        section->sh_size = place.sh_size;
        section->sh_offset = far[i];
        assert_true(opened(&file) != 0);
        section->sh_offset = place.sh_offset;
    }
    section->sh_type = SHT_NOBITS;
    assert_int_equal(opened(&file), ELF_MISSING);
    buf_close(&file);
}

/* What is damaged costs itself alone: of .eh_frame all is there. */
static void any_byte_changed(void **state)
{
    (void)state;
    static const char *const names[] = {"debug_zlib.so", "debug_zstd.so", "beside_zlib.so"};
    for (int i = 0; i < 3; i++) {
        struct buf file = load(names[i]);
        const Elf64_Shdr *section = section_of(&file);
        uint64_t size = section->sh_size;
        uint8_t *bytes = file.data + section->sh_offset;
        for (uint64_t at = 0; at < size; at++) {
            bytes[at] ^= (uint8_t)(1u << at % 8);
            struct eh_frame *frame;
            struct unwind_page page;
            int error = open_by(eh_frame_open, &file, &frame);
            assert_true(i == 2 ? !error : error >= 0);
            if (!error)
                assert_int_equal(eh_frame_page(frame, 0, &page), 0);
            assert_true(error || i < 2 || stretches(&page) > 0);
            if (!error)
                unwind_page_close(&page);
            eh_frame_close(frame);
            bytes[at] ^= (uint8_t)(1u << at % 8);
        }
        buf_close(&file);
    }
}

/* ---- much of it ---- */

/* The file with other contents of .debug_frame. */
static struct buf with_section(const uint8_t *decoded, size_t size)
{
    struct buf file = load("debug_zlib.so");
    Elf64_Shdr *section = section_of(&file);
    Elf64_Chdr head = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = size, .ch_addralign = 8};
    uLongf packed_size = compressBound(size);
    uint8_t *packed = malloc(packed_size);
    assert_int_equal(compress2(packed, &packed_size, decoded, size, 1), Z_OK);
    section->sh_offset = file.len;
    section->sh_size = sizeof(head) + packed_size;
    assert_int_equal(buf_append(&file, &head, sizeof(head)), 0);
    assert_int_equal(buf_append(&file, packed, packed_size), 0);
    free(packed);
    return file;
}

/* As much as may be: as many functions as fit, one CIE in front of them; or nothing but zeros. */
static struct buf bomb(bool zeros)
{
    static const uint8_t cie[] = {16, 0,    0,  0,    0xff, 0xff, 0xff, 0xff, 1, 0,
                                  1,  0x78, 16, 0x0c, 7,    8,    0x90, 1,    0, 0};
    uint32_t fde[6] = {20, 0, 0, 0, 1, 0}; /* length, CIE, address, size */
    uint8_t *decoded = calloc(1, EH_DECODED_MAX);
    assert_non_null(decoded);
    memcpy(decoded, cie, zeros ? 0 : sizeof(cie));
    for (uint32_t at = sizeof(cie); !zeros && at <= EH_DECODED_MAX - sizeof(fde);
         at += sizeof(fde)) {
        fde[2] = at;
        memcpy(decoded + at, fde, sizeof(fde));
    }
    struct buf file = with_section(decoded, EH_DECODED_MAX);
    free(decoded);
    return file;
}

static void bombs_take_bounded_time(void **state)
{
    (void)state;
    for (int zeros = 0; zeros < 2; zeros++) {
        struct buf file = bomb(zeros);
        struct eh_frame *frame;
        uint64_t began_ns = cpu_time_ns();
        assert_int_equal(open_by(eh_frame_open, &file, &frame), zeros ? ELF_MISSING : 0);
        uint64_t spent_ns = cpu_time_ns() - began_ns;
        print_message("%zu bytes: %.1f ms\n", file.len, (double)spent_ns / 1e6);
        assert_true(file.len < EH_DECODED_MAX / 4);
        assert_true(spent_ns < UINT64_C(5000000000)); /* also with sanitizers */
        if (frame)
            assert_true(eh_frame_bytes(frame) <= EH_DECODED_MAX + EH_FDES_MAX * 16 + 65536);
        eh_frame_close(frame);
        buf_close(&file);
    }
}

static const struct unwind_rule *rule_at(struct tables *tables, const struct binary *binary,
                                         uint64_t address)
{
    static struct unwind_rule rule;
    struct table *table = tables_get(tables, binary, 0, 0);
    rule = (struct unwind_rule){.cfa = UNWIND_UNKNOWN};
    if (table)
        table_rule(tables, table, address, &rule);
    return &rule;
}

/* Large ones make room, small ones stay. */
static void memory_of_all_files_is_bounded(void **state)
{
    (void)state;
    struct tables *tables;
    assert_int_equal(tables_open(NULL, &tables), 0);
    struct buf small = load("beside_zlib.so"), large = bomb(false);
    struct binary first = {.key.inode = 1, .fd = memory_file(&small)};
    struct eh_frame *frame;
    uint64_t address;
    assert_int_equal(open_by(eh_frame_open, &small, &frame), 0);
    assert_int_equal(eh_frame_next(frame, 0, &address), 0);
    assert_int_equal(rule_at(tables, &first, address)->cfa, UNWIND_REGISTER);
    int fd = memory_file(&large);
    for (uint64_t i = 2; i < 5; i++) /* the third is too much until something goes */
        assert_int_equal(rule_at(tables, &(struct binary){.key.inode = i, .fd = fd}, 188)->cfa,
                         i < 4 ? UNWIND_REGISTER : UNWIND_UNKNOWN);
    tables_release(tables);
    int64_t bytes = stats_find("spanprof_unwind_table_bytes", "");
    assert_true(bytes > 0 && bytes <= TABLES_BYTES_MAX);
    first.fd = -1; /* could not be opened again */
    assert_int_equal(rule_at(tables, &first, address)->cfa, UNWIND_REGISTER);
    assert_int_equal(rule_at(tables, &(struct binary){.key.inode = 4, .fd = fd}, 188)->cfa,
                     UNWIND_REGISTER);
    tables_close(tables);
    eh_frame_close(frame);
    close(fd);
    buf_close(&small);
    buf_close(&large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_says_the_same),
        cmocka_unit_test(rows_of_both),
        cmocka_unit_test(loaded_is_eh_frame_alone),
        cmocka_unit_test(moved_to_a_file_of_its_own),
        cmocka_unit_test(debug_file_without),
        cmocka_unit_test(gaps),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(any_byte_changed),
        cmocka_unit_test(bombs_take_bounded_time),
        cmocka_unit_test(memory_of_all_files_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
