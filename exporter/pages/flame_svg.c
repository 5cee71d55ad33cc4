/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours are attributes, not styles: a page's Content-Security-Policy would block styles. A
 * rectangle's title describes it; browsers show the title, screen readers read it.
 */
#include "exporter/pages/flame_write.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define WIDTH        1200.0
#define MARGIN       10.0
#define ROW          18
#define TOP          56
#define LETTER       6.8 /* width, at most on average */
#define NARROWEST    0.5
#define DEPTH_MAX    512  /* rows */
#define TITLE_MAX    2000 /* bytes of a name */
#define SUBTITLE_MAX 160  /* characters shown; the description has all of them */

struct svg {
    struct buf *out;
    int error;
    const struct flame_ranges *ranges; /* of a difference; NULL: there is none */
    double most;                       /* change of any node */
};

static void svg_put(struct svg *svg, const char *text, size_t size)
{
    if (!svg->error)
        svg->error = buf_append(svg->out, text, size);
}

static void put_string(struct svg *svg, const char *text)
{
    svg_put(svg, text, strlen(text));
}

#define PRINT(svg, ...)                                                                            \
    ((svg)->error = (svg)->error ? (svg)->error : buf_printf((svg)->out, __VA_ARGS__))

/* ---- foreign texts ---- */

static size_t character_length(const uint8_t *at, const uint8_t *end)
{
    size_t len = *at < 0x80 ? 1 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    return len <= (size_t)(end - at) && bytes_utf8_valid(BYTES(at, len)) ? len : 0;
}

/* Marks that turn what follows around (U+200E, U+200F, U+202A..E, U+2066..9), U+2028 and U+2029,
 * the ends of the plane, and C1 controls. */
static bool is_unwanted(const uint8_t *at, size_t len)
{
    if (len == 2)
        return at[0] == 0xc2 && at[1] < 0xa0;
    if (len != 3)
        return false;
    if (at[0] == 0xef)
        return at[1] == 0xbf && at[2] >= 0xbe;
    if (at[0] != 0xe2)
        return false;
    return (at[1] == 0x80 &&
            (at[2] == 0x8e || at[2] == 0x8f || (at[2] >= 0xa8 && at[2] <= 0xae))) ||
           (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
}

static const char *entity_of(uint8_t c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return c < ' ' || c == 0x7f ? " " : NULL;
    }
}

/* Puts the first max_characters; true if the text has more. */
static bool put_text(struct svg *svg, struct bytes text, size_t max_characters)
{
    const uint8_t *at = text.data, *end = at + text.len;
    for (size_t n = 0; at < end; n++) {
        if (n == max_characters)
            return true;
        size_t len = character_length(at, end);
        const char *entity = len == 1 ? entity_of(*at) : NULL;
        if (!len || is_unwanted(at, len))
            svg_put(svg, "\xef\xbf\xbd", 3);
        else if (entity)
            put_string(svg, entity);
        else
            svg_put(svg, (const char *)at, len);
        at += len ? len : 1;
    }
    return false;
}

static size_t count_characters(struct bytes text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += (text.data[i] & 0xc0) != 0x80;
    return n;
}

/* ---- rectangles ---- */

/* One hue per type; three shades distinguish neighbours. The shade depends on the name alone. */
static const char *colour_of(const struct history_frame *frame)
{
    static const char *const colours[][3] = {
        [HISTORY_FRAME_KERNEL] = {"#f3b48b", "#f0a878", "#f6bf9c"},
        [HISTORY_FRAME_NATIVE] = {"#9cc9e8", "#8abfe3", "#aed3ed"},
        [HISTORY_FRAME_GO] = {"#8fd6cd", "#7dcec4", "#a2ded6"},
        [HISTORY_FRAME_JIT] = {"#b9d98f", "#abd17a", "#c6e0a3"},
        [HISTORY_FRAME_CPYTHON] = {"#f2dc8a", "#eed471", "#f5e3a1"},
        [HISTORY_FRAME_JVM] = {"#c8b6e6", "#bda8e1", "#d3c5eb"},
        [HISTORY_FRAME_V8JS] = {"#a9d98f", "#9ad17a", "#bae0a3"},
        [HISTORY_FRAME_RUBY] = {"#eda6a6", "#e89494", "#f1b7b7"},
        [HISTORY_FRAME_PHP] = {"#b3b8e8", "#a3a9e3", "#c3c7ed"},
        [HISTORY_FRAME_TRUNCATED] = {"#d9d9de", "#d0d0d6", "#e1e1e6"},
        [FLAME_OTHERS] = {"#d9d9de", "#d0d0d6", "#e1e1e6"}};
    unsigned sum = 0;
    for (size_t i = 0; i < frame->function.len; i++)
        sum = sum * 31 + frame->function.data[i];
    return colours[frame->type <= FLAME_OTHERS ? frame->type : HISTORY_FRAME_NATIVE][sum / 7 % 3];
}

/* The difference of CPU cores in use: now minus before. */
static double change_of(const struct svg *svg, const struct flame_node *node)
{
    double now_ns = (double)svg->ranges->now_ns, base_ns = (double)svg->ranges->base_ns;
    return (now_ns > 0 ? (double)node->weights.total.ns / now_ns : 0) -
           (base_ns > 0 ? (double)node->base.total.ns / base_ns : 0);
}

static double most_change(const struct svg *svg, const struct flame *flame)
{
    double most = 0;
    for (size_t i = 0; i < flame->n_nodes; i++)
        most = fmax(most, fabs(change_of(svg, &flame->nodes[i])));
    return most;
}

/* From grey to full colour, by the square root of the change, so small changes are visible. */
static void put_change_fill(struct svg *svg, const struct flame_node *node)
{
    static const int same[] = {0xe6, 0xe6, 0xe6};
    static const int more[] = {0xe5, 0x77, 0x61}, less[] = {0x61, 0x9f, 0xe5};
    double change = change_of(svg, node);
    double strength = svg->most > 0 ? sqrt(fabs(change) / svg->most) : 0;
    const int *full = change > 0 ? more : less;
    put_string(svg, "#");
    for (int i = 0; i < 3; i++)
        PRINT(svg, "%02x", (unsigned)lround(same[i] + strength * (full[i] - same[i])));
}

static void put_fill(struct svg *svg, const struct flame *flame, const struct flame_node *node)
{
    if (svg->ranges)
        put_change_fill(svg, node);
    else
        put_string(svg, colour_of(&flame->frames[node->frame]));
}

static void put_duration(struct svg *svg, uint64_t ns)
{
    if (ns < 1000000)
        PRINT(svg, "%.1f \xc2\xb5s", (double)ns / 1e3);
    else if (ns < 1000000000)
        PRINT(svg, "%.1f ms", (double)ns / 1e6);
    else
        PRINT(svg, "%.2f s", (double)ns / 1e9);
}

static void put_title(struct svg *svg, const struct flame *flame, const struct flame_node *node)
{
    const struct history_frame *frame = &flame->frames[node->frame];
    put_string(svg, "<title>");
    put_text(svg, frame->function, TITLE_MAX);
    if (frame->file.len) {
        put_string(svg, ", ");
        put_text(svg, frame->file, TITLE_MAX);
        if (frame->line > 0)
            PRINT(svg, ":%lld", (long long)frame->line);
    }
    if (frame->module.len) {
        put_string(svg, ", ");
        put_text(svg, frame->module, TITLE_MAX);
    }
    put_string(svg, ": ");
    put_duration(svg, node->weights.total.ns);
    PRINT(svg, " (%.2f %%), itself ",
          100.0 * (double)node->weights.total.ns / (double)(flame->all.ns ? flame->all.ns : 1));
    put_duration(svg, node->weights.self.ns);
    PRINT(svg, ", %llu samples", (unsigned long long)node->weights.total.samples);
    if (svg->ranges) {
        put_string(svg, "; before ");
        put_duration(svg, node->base.total.ns);
        PRINT(svg, ", change %+.2f mcores", 1000 * change_of(svg, node));
    }
    put_string(svg, "</title>");
}

static void put_node(struct svg *svg, const struct flame *flame, const struct flame_node *node,
                     double x, double width, unsigned row)
{
    const struct history_frame *frame = &flame->frames[node->frame];
    size_t room = (size_t)((width - 6) / LETTER * (width > 6)), all;
    unsigned y = TOP + row * ROW;
    put_string(svg, "<g>");
    put_title(svg, flame, node);
    PRINT(svg, "<rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\" rx=\"1\" fill=\"", x, y,
          width > 1 ? width - 0.5 : width, ROW - 1);
    put_fill(svg, flame, node);
    put_string(svg, "\"/>");
    if (room >= 3) {
        all = count_characters(frame->function);
        PRINT(svg, "<text x=\"%.1f\" y=\"%u\">", x + 3, y + 13);
        if (put_text(svg, frame->function, all > room ? room - 1 : room))
            put_string(svg, "\xe2\x80\xa6");
        put_string(svg, "</text>");
    }
    put_string(svg, "</g>\n");
}

/* The position of each node: within its parent, after its earlier siblings. */
struct layout {
    double x, next; /* of the node, of its next child */
    unsigned row;
    bool shown;
};

static unsigned lay_out(const struct flame *flame, double scale, struct layout *layouts)
{
    struct layout above = {.x = MARGIN, .next = MARGIN};
    unsigned rows = 0;
    for (size_t i = 0; i < flame->n_nodes; i++) {
        const struct flame_node *node = &flame->nodes[i];
        bool root = node->parent == FLAME_NONE;
        struct layout *parent = root ? &above : &layouts[node->parent], *own = &layouts[i];
        double width = (double)node->weights.total.ns * scale;
        *own = (struct layout){
            .x = parent->next, .next = parent->next, .row = root ? 0 : parent->row + 1};
        own->shown = width >= NARROWEST && own->row < DEPTH_MAX && (root || parent->shown);
        parent->next += width;
        if (own->shown && own->row + 1 > rows)
            rows = own->row + 1;
    }
    return rows;
}

static void put_head(struct svg *svg, const struct flame_picture *picture, unsigned rows)
{
    unsigned height = TOP + (rows ? rows : 1) * ROW + 10;
    PRINT(svg,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
          "width=\"%.0f\" height=\"%u\" viewBox=\"0 0 %.0f %u\" role=\"img\" "
          "aria-labelledby=\"title about\" font-family=\"system-ui,sans-serif\" "
          "font-size=\"12\" fill=\"#1d2330\">\n<title id=\"title\">%s</title>\n<desc id=\"about\">",
          WIDTH, height, WIDTH, height, picture->title);
    put_text(svg, BYTES_STR(picture->subtitle), TITLE_MAX);
    PRINT(svg,
          "</desc>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
          "<text x=\"%.0f\" y=\"24\" font-size=\"16\" font-weight=\"600\">%s</text>\n"
          "<text x=\"%.0f\" y=\"43\" fill=\"#5b6475\">",
          MARGIN, picture->title, MARGIN);
    if (put_text(svg, BYTES_STR(picture->subtitle), SUBTITLE_MAX))
        put_string(svg, "\xe2\x80\xa6");
    put_string(svg, "</text>\n");
    if (!rows)
        PRINT(svg, "<text x=\"%.0f\" y=\"%d\">No samples.</text>\n", MARGIN, TOP + 13);
}

static int write_svg(struct svg *svg, const struct flame *flame,
                     const struct flame_picture *picture)
{
    double scale = (WIDTH - 2 * MARGIN) / (double)(flame->all.ns ? flame->all.ns : 1);
    struct layout *layouts = calloc(flame->n_nodes + 1, sizeof(*layouts));
    if (!layouts)
        return -ENOMEM;
    put_head(svg, picture, lay_out(flame, scale, layouts));
    for (size_t i = 0; !svg->error && i < flame->n_nodes; i++)
        if (layouts[i].shown)
            put_node(svg, flame, &flame->nodes[i], layouts[i].x,
                     (double)flame->nodes[i].weights.total.ns * scale, layouts[i].row);
    put_string(svg, "</svg>\n");
    free(layouts);
    return svg->error;
}

int flame_write_svg(const struct flame *flame, const struct flame_picture *picture, struct buf *out)
{
    struct svg svg = {.out = out};
    return write_svg(&svg, flame, picture);
}

int flame_write_svg_difference(const struct flame *flame, const struct flame_picture *picture,
                               const struct flame_ranges *ranges, struct buf *out)
{
    struct svg svg = {.out = out, .ranges = ranges};
    svg.most = most_change(&svg, flame);
    return write_svg(&svg, flame, picture);
}
