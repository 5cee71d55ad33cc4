/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shop that is slow in one place, which its traces alone do not explain: the span "render
 * receipt" has an innocent name, and the culprit lies four calls below it. (It measures text by
 * looking for each glyph from the start of the font, again for every length it tries.)
 */
#include "test/demo/demo_shop.h"

#include "test/demo/demo_trace.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GLYPHS        4096
#define RECEIPT_WIDTH 42000
#define ITEMS_MAX     200
#define PRODUCTS      2000
#define NOINLINE      __attribute__((noinline))
/* gcc gives a leaf function no frame, whatever it is told; stacks would then lack the leaf's
 * caller. */
#define KEEP_FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)))

struct glyph {
    uint32_t code;
    uint32_t advance;
};

static struct glyph font[GLYPHS];
static char products[PRODUCTS][64];

/* In this order a common letter is found late. */
static void make_font(void)
{
    for (uint32_t i = 0; i < GLYPHS; i++)
        font[i] = (struct glyph){.code = GLYPHS - 1 - i, .advance = 500 + i * 7 % 300};
}

int demo_shop_open(void)
{
    static const char *const kinds[] = {"Kettle", "Lamp", "Notebook", "Chair", "Teapot", "Blanket"};
    make_font();
    for (unsigned i = 0; i < PRODUCTS; i++)
        snprintf(products[i], sizeof(products[i]), "%s model %u, recycled and made to last",
                 kinds[i % 6], i * 7919 % 10007);
    return 0;
}

static void wait_for_database(unsigned ms)
{
    usleep(ms * 1000);
}

static NOINLINE uint32_t glyph_advance(uint32_t code)
{
    KEEP_FRAME();
    for (unsigned i = 0; i < GLYPHS; i++)
        if (__builtin_expect(*(volatile uint32_t *)&font[i].code == code, 0))
            return font[i].advance;
    return 0;
}

static NOINLINE uint64_t text_width(const char *text, size_t length)
{
    uint64_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += glyph_advance((uint8_t)text[i]);
    return width;
}

/* The longest start of the text that fits the paper. */
static NOINLINE size_t fit_line(const char *text)
{
    size_t length = strlen(text);
    while (length > 1 && text_width(text, length) > RECEIPT_WIDTH / 2)
        length--;
    return length;
}

static NOINLINE size_t layout_lines(unsigned items)
{
    size_t characters = 0;
    for (unsigned i = 0; i < items; i++)
        characters += fit_line(products[i * 13 % PRODUCTS]);
    return characters;
}

static NOINLINE size_t render_receipt(unsigned items)
{
    struct demo_span span;
    demo_span_begin(&span, "render receipt", SPAN_KIND_INTERNAL);
    size_t characters = layout_lines(items);
    demo_span_end(&span, NULL);
    return characters;
}

static NOINLINE uint64_t score(const char *text, const char *query)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++)
        for (const char *letter = query; *letter; letter++)
            hash = (hash ^ (uint64_t)(*text == *letter)) * 1099511628211u;
    return hash;
}

static NOINLINE unsigned rank_products(const char *query)
{
    unsigned best = 0;
    uint64_t highest = 0;
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < PRODUCTS; i++) {
            uint64_t points = score(products[i], query);
            if (points > highest) {
                highest = points;
                best = i;
            }
        }
    return best;
}

static NOINLINE uint64_t price_items(unsigned items)
{
    uint64_t cents = 0;
    for (unsigned i = 0; i < items * 2000; i++)
        cents = (cents + i * 199u) % 1000003u;
    return cents;
}

static void load_cart(void)
{
    struct demo_span span;
    demo_span_begin(&span, "load cart", SPAN_KIND_CLIENT);
    wait_for_database(8);
    demo_span_end(&span, NULL);
}

static uint64_t price_cart(unsigned items)
{
    struct demo_span span;
    demo_span_begin(&span, "price items", SPAN_KIND_INTERNAL);
    uint64_t cents = price_items(items);
    demo_span_end(&span, NULL);
    return cents;
}

static void call_remote(const char *name, unsigned ms)
{
    struct demo_span span;
    demo_span_begin(&span, name, SPAN_KIND_CLIENT);
    wait_for_database(ms);
    demo_span_end(&span, NULL);
}

static int serve_checkout(unsigned items, char *body, size_t size)
{
    load_cart();
    uint64_t cents = price_cart(items);
    call_remote("reserve stock", 12);
    call_remote("charge card", 30);
    return snprintf(body, size, "paid %lu cents, %zu characters\n", cents, render_receipt(items));
}

static int serve_cart(unsigned items, char *body, size_t size)
{
    load_cart();
    return snprintf(body, size, "%lu cents\n", price_cart(items));
}

static int serve_search(unsigned items, char *body, size_t size)
{
    struct demo_span span;
    (void)items;
    demo_span_begin(&span, "rank products", SPAN_KIND_INTERNAL);
    unsigned best = rank_products("teapot made to last");
    demo_span_end(&span, NULL);
    return snprintf(body, size, "%s\n", products[best]);
}

static int serve_product(unsigned items, char *body, size_t size)
{
    call_remote("load product", 4);
    return snprintf(body, size, "%s\n", products[items % PRODUCTS]);
}

static const struct route {
    const char *path;
    const char *span_name;
    int (*serve)(unsigned items, char *body, size_t size);
} routes[] = {
    {"/checkout", "GET /checkout", serve_checkout},
    {"/cart", "GET /cart", serve_cart},
    {"/search", "GET /search", serve_search},
    {"/product", "GET /product", serve_product},
};

static unsigned items_of(const char *path)
{
    const char *query = strstr(path, "items=");
    int items = query ? atoi(query + 6) : 1;
    return items < 1 ? 1 : items > ITEMS_MAX ? ITEMS_MAX : (unsigned)items;
}

int demo_shop_serve(const char *path, char *body, size_t size)
{
    size_t length = strcspn(path, "?");
    for (unsigned i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        struct demo_span span;
        if (strlen(routes[i].path) != length || strncmp(routes[i].path, path, length) != 0)
            continue;
        demo_span_begin(&span, routes[i].span_name, SPAN_KIND_SERVER);
        int written = routes[i].serve(items_of(path), body, size);
        demo_span_end(&span, routes[i].path);
        return written;
    }
    return 0;
}
