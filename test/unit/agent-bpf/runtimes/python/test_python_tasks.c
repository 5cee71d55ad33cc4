/* SPDX-License-Identifier: Apache-2.0 */
/* Names of asyncio tasks in memory made by hand, as the tick reads them; and memory that lies. */
#include "agent-bpf/drain/task_name.h"
#include "agent-bpf/runtimes/python/python_attach.h"
#include "agent-bpf/runtimes/python/python_tasks.h"
#include "test/support/runtimes/python_image.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define REQUEST    ((size_t)1 << 20)
#define UNREADABLE "" /* a task is told, without a name */

static struct python_image image;
static struct python_process process;

static void make_of(unsigned minor, bool free_threaded)
{
    struct runtime_memory memory;
    enum runtime_refusal why;
    assert_true(python_image_make(&image, minor, free_threaded, IMAGE_SLOT_DIRECT));
    python_image_memory(&image, &memory, REQUEST);
    assert_int_equal(python_attach(&image.constants, 0, &memory, &process, &why), 0);
}

static void make(void)
{
    make_of(14, false);
}

/* NULL: no task is told. */
static const char *name_of(uint64_t tp)
{
    static char name[TASK_NAME_SIZE];
    struct record_task task;
    size_t size = python_image_task(&image, &process, tp, &task);
    if (!size)
        return NULL;
    task_name(&task, size, name);
    return name;
}

static void assert_named(const char *expected)
{
    const char *name = name_of(IMAGE_DESCRIPTORS);
    assert_non_null(name);
    assert_string_equal(name, expected);
}

static void task_word(uint64_t at, uint64_t word)
{
    python_image_word(&image, IMAGE_TASK + at, word);
}

static void names(void **state)
{
    static const char *const texts[] = {"task", "größe", "задача", "🐍"};
    (void)state;
    for (int free_threaded = 0; free_threaded < 2; free_threaded++) {
        make_of(14, free_threaded);
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
            python_image_name_task(&image, texts[i]);
            assert_named(texts[i]);
        }
        python_image_number_task(&image, 7);
        assert_named("Task-7");
        python_image_number_task(&image, (UINT64_C(1) << 60) - 1);
        assert_named("Task-1152921504606846975");
    }
}

static void name_is_cut(void **state)
{
    char text[301] = "";
    char expected[TASK_NAME_SIZE] = "";
    (void)state;
    make();
    memset(text, 'x', 300);
    memset(expected, 'x', RECORD_TASK_TEXT_MAX);
    python_image_name_task(&image, text);
    assert_named(expected);
    for (size_t i = 0; i < 100; i++)
        memcpy(text + 2 * i, "ж", 2);
    text[200] = '\0';
    python_image_name_task(&image, text);
    text[RECORD_TASK_TEXT_MAX] = '\0'; /* two bytes of each character in the process too */
    assert_named(text);
    python_image_name_task(&image, "a\nb");
    assert_named("a?b");
}

static void none(void **state)
{
    (void)state;
    make();
    assert_null(name_of(IMAGE_DESCRIPTORS + IMAGE_PAGE)); /* the second thread runs none */
    assert_null(name_of(IMAGE_TYPE));                     /* no thread */
    python_image_word(&image, IMAGE_THREADS + IMAGE_THREAD_TASK, 0);
    assert_null(name_of(IMAGE_DESCRIPTORS));
}

static void is_no_task(void **state)
{
    (void)state;
    make();
    python_image_put(&image, IMAGE_TASK + IMAGE_TASK_IS_TASK, &(uint8_t){0}, 1);
    assert_named(UNREADABLE);
    make();
    python_image_word(&image, IMAGE_TASK_TYPE + 32, IMAGE_TASK_SIZE - 8);
    assert_named(UNREADABLE);
    python_image_word(&image, IMAGE_TASK_TYPE + 32, UINT64_MAX);
    assert_named(UNREADABLE);
    python_image_word(&image, IMAGE_TASK_TYPE + 32, IMAGE_TASK_SIZE + 64); /* a class of its own */
    assert_named("task");
    task_word(8, 1);
    assert_named(UNREADABLE);
    make();
    python_image_word(&image, IMAGE_THREADS + IMAGE_THREAD_TASK, 8);
    assert_named(UNREADABLE);
}

static void is_no_name(void **state)
{
    static const uint64_t addresses[] = {0, 8, UINT64_MAX, IMAGE_START + IMAGE_BYTES - 8};
    (void)state;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
        make();
        task_word(IMAGE_TASK_NAMED, addresses[i]);
        assert_named(UNREADABLE);
    }
    make();
    python_image_word(&image, IMAGE_TASK_NAME + 8, IMAGE_TYPE);
    assert_named(UNREADABLE);
    process.text_type = process.number_type = 0;
    python_image_word(&image, IMAGE_TASK_NAME + 8, 0);
    assert_named(UNREADABLE);
}

/* Lengths up to 2^64, kinds that there are not, digits without end. */
static void name_lies(void **state)
{
    (void)state;
    make();
    for (int bit = 7; bit < 64; bit++) {
        struct record_task task;
        python_image_word(&image, IMAGE_TASK_NAME + 16, UINT64_C(1) << bit);
        assert_int_equal(python_image_task(&image, &process, IMAGE_DESCRIPTORS, &task),
                         sizeof(task));
    }
    for (uint32_t kind = 0; kind < 8; kind++)
        for (uint32_t form = 0; form < 4; form++) {
            bool wide = kind == 2 || kind == 4,
                 right = form & 1 && (kind == 1 || (wide && form < 2));
            python_image_name_task(&image, "task");
            python_image_word(&image, IMAGE_TASK_NAME + 32, (kind | form << 3) << 2);
            assert_true(right == (*name_of(IMAGE_DESCRIPTORS) != '\0'));
        }
    python_image_number_task(&image, 1);
    for (uint64_t digits = 0; digits < 4; digits++)
        for (uint64_t sign = 0; sign < 4; sign++) {
            bool right = (digits == 1 || digits == 2) && !sign;
            python_image_word(&image, IMAGE_TASK_NAME + 16, digits << 3 | sign);
            assert_true(right == (*name_of(IMAGE_DESCRIPTORS) != '\0'));
        }
}

/* By another thread, between two reads: the first name's memory may be another text's by then. */
static void is_renamed(void **state)
{
    static const uint64_t reads[] = {IMAGE_TASK, IMAGE_TASK_NAME, IMAGE_TASK_NAME + 40};
    (void)state;
    for (size_t i = 0; i < sizeof(reads) / sizeof(*reads); i++) {
        make();
        assert_named("task");
        image.renamed_at = reads[i];
        assert_named(UNREADABLE);
    }
}

static void other_versions(void **state)
{
    (void)state;
    for (unsigned minor = 8; minor < 14; minor++) {
        make_of(minor, false);
        assert_int_equal(image.tasks.thread_task, 0);
    }
}

/* ---- the section ---- */

enum { WORDS = 13, TASK_SIZE = 0, TASK_NAME = 1, IS_TASK = 3, THREAD_SIZE = 9, RUNNING_TASK = 11 };

static const uint64_t right[WORDS] = {168,    136,   96,  108, 109, 128, 152,
                                      225824, 10848, 928, 856, 864, 872};

/* A file that has nothing but the section, and its tables. */
static int open_section(const void *offsets, size_t size, struct python_tasks *tasks)
{
    static const char texts[] = "\0.AsyncioDebug";
    struct {
        Elf64_Ehdr head;
        Elf64_Shdr sections[3];
        char texts[16];
        uint8_t data[256];
    } file = {0};
    char path[] = "/tmp/spanprof-tasks-XXXXXX";
    struct elf elf;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    memcpy(file.head.e_ident, ELFMAG, SELFMAG);
    file.head.e_ident[EI_CLASS] = ELFCLASS64;
    file.head.e_ident[EI_DATA] = ELFDATA2LSB;
    file.head.e_ident[EI_VERSION] = EV_CURRENT;
    file.head.e_version = EV_CURRENT;
    file.head.e_type = ET_DYN;
    file.head.e_machine = EM_X86_64;
    file.head.e_ehsize = sizeof(file.head);
    file.head.e_phentsize = sizeof(Elf64_Phdr);
    file.head.e_shentsize = sizeof(Elf64_Shdr);
    file.head.e_shoff = offsetof(__typeof__(file), sections);
    file.head.e_shnum = 3;
    file.head.e_shstrndx = 1;
    file.sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                    .sh_offset = offsetof(__typeof__(file), texts),
                                    .sh_size = sizeof(texts)};
    file.sections[2] = (Elf64_Shdr){.sh_name = 1,
                                    .sh_type = SHT_PROGBITS,
                                    .sh_offset = offsetof(__typeof__(file), data),
                                    .sh_size = size};
    memcpy(file.texts, texts, sizeof(texts));
    memcpy(file.data, offsets, size < sizeof(file.data) ? size : sizeof(file.data));
    assert_int_equal(write(fd, &file, sizeof(file)), sizeof(file));
    int error = elf_open(fd, &elf);
    assert_int_equal(error, 0);
    error = python_tasks_open(&elf, tasks);
    close(fd);
    return error;
}

static int open_with(size_t index, uint64_t word)
{
    uint64_t offsets[WORDS];
    struct python_tasks tasks;
    memcpy(offsets, right, sizeof(right));
    offsets[index] = word;
    return open_section(offsets, sizeof(offsets), &tasks);
}

static void section(void **state)
{
    uint64_t longer[WORDS + 1] = {0};
    struct python_tasks tasks;
    (void)state;
    assert_int_equal(open_section(right, sizeof(right), &tasks), 0);
    assert_int_equal(8 * tasks.thread_task, 864);
    assert_int_equal(8 * tasks.task_size, 168);
    assert_int_equal(8 * tasks.task_name, 136);
    assert_int_equal(tasks.is_task, 108);
    memcpy(longer, right, sizeof(right));
    assert_int_equal(open_section(longer, sizeof(longer), &tasks), -ENOTSUP);
    assert_int_equal(open_section(right, sizeof(right) - 8, &tasks), -ENOTSUP);
    assert_int_equal(tasks.thread_task, 0);
}

static void section_lies(void **state)
{
    (void)state;
    for (int bit = 8; bit < 64; bit++) {
        assert_int_equal(open_with(TASK_NAME, UINT64_C(1) << bit), -ENOTSUP);
        assert_int_equal(open_with(IS_TASK, UINT64_C(1) << bit), -ENOTSUP);
    }
    for (int bit = 11; bit < 64; bit++) {
        assert_int_equal(open_with(TASK_SIZE, UINT64_C(1) << bit), -ENOTSUP);
        assert_int_equal(open_with(RUNNING_TASK, UINT64_C(1) << bit), -ENOTSUP);
    }
    assert_int_equal(open_with(TASK_NAME, 137), -ENOTSUP);
    assert_int_equal(open_with(TASK_SIZE, 136), -ENOTSUP);
    assert_int_equal(open_with(RUNNING_TASK, 0), -ENOTSUP);
    assert_int_equal(open_with(RUNNING_TASK, 861), -ENOTSUP);
    assert_int_equal(open_with(THREAD_SIZE, 864), -ENOTSUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),      cmocka_unit_test(name_is_cut),
        cmocka_unit_test(none),       cmocka_unit_test(is_no_task),
        cmocka_unit_test(is_no_name), cmocka_unit_test(name_lies),
        cmocka_unit_test(is_renamed), cmocka_unit_test(other_versions),
        cmocka_unit_test(section),    cmocka_unit_test(section_lies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
