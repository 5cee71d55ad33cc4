/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/pages/pages_route.h"

#define JSON       "application/json"
#define FLAME      (PAGES_TAKES_VIEW | PAGES_TAKES_FRAMES)
#define DIFFERENCE (FLAME | PAGES_TAKES_BASE)

static const struct pages_route routes[] = {
    {.path = "/api/traces",
     .type = JSON,
     .takes = PAGES_TAKES_TRACE_ORDER | PAGES_TAKES_LIMIT,
     .answer = pages_traces},
    {.path = "/api/trace", .type = JSON, .takes = PAGES_NEEDS_TRACE, .answer = pages_trace},
    {.path = "/api/flame", .type = JSON, .takes = FLAME, .answer = pages_flame_json},
    {.path = "/api/diff", .type = JSON, .takes = DIFFERENCE, .answer = pages_diff},
    {.path = "/api/functions",
     .type = JSON,
     .takes =
         PAGES_TAKES_FUNCTION_ORDER | PAGES_TAKES_LIMIT | PAGES_TAKES_BASE | PAGES_TAKES_FRAMES,
     .answer = pages_functions},
    {.path = "/api/timeline", .type = JSON, .takes = PAGES_TAKES_BUCKETS, .answer = pages_timeline},
    {.path = "/api/spans", .type = JSON, .takes = PAGES_TAKES_LIMIT, .answer = pages_spans},
    {.path = "/api/values", .type = JSON, .takes = PAGES_TAKES_OF, .answer = pages_values},
    {.path = "/api/status", .type = JSON, .takes = PAGES_TAKES_NOTHING, .answer = pages_status},
    {.path = "/api/address",
     .type = JSON,
     .takes = PAGES_TAKES_NOTHING,
     .of_node = true,
     .answer = pages_address},
    {.path = "/flame.svg", .type = "image/svg+xml", .takes = DIFFERENCE, .answer = pages_flame_svg},
    {.path = "/flame.folded",
     .type = "text/plain; charset=utf-8",
     .takes = DIFFERENCE,
     .answer = pages_flame_folded,
     .download = "flame.folded"},
    {.path = "/flame.speedscope.json",
     .type = JSON,
     .takes = PAGES_TAKES_FRAMES,
     .answer = pages_flame_speedscope,
     .download = "flame.speedscope.json"},
    {.path = "/flame.pb.gz",
     .type = "application/octet-stream",
     .takes = PAGES_TAKES_FRAMES,
     .answer = scrape_pprof,
     .download = "flame.pb.gz"},
    {.path = "/debug/pprof/profile",
     .type = "application/octet-stream",
     .takes = PAGES_TAKES_SECONDS | PAGES_TAKES_FRAMES,
     .answer = scrape_pprof_live,
     .delay_ns = scrape_pprof_delay_ns,
     .download = "profile"},
    {.path = "/v1development/profiles",
     .type = "application/x-protobuf",
     .takes = PAGES_TAKES_SINCE,
     .answer = scrape_profiles},
};

const struct pages_route *pages_route_find(const char *path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

void pages_say_more(struct pages_request *request)
{
    request->headers[request->n_headers++] = (struct pages_header){"Spanprof-More", "true"};
}
