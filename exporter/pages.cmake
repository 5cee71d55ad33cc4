# SPDX-License-Identifier: Apache-2.0
# The pages, with the files of exporter/pages in the program.
include(${CMAKE_SOURCE_DIR}/cmake/Embed.cmake)
spanprof_embed(${CMAKE_BINARY_DIR}/pages_embedded.c ${CMAKE_CURRENT_LIST_DIR}/pages)
target_link_libraries(spanprof_exporter PUBLIC m)
target_sources(spanprof_exporter PRIVATE flame.c flame_finish.c flame_svg.c flame_write.c pages.c
    pages_assets.c pages_attributes.c pages_call.c pages_describe.c pages_door.c pages_groups.c pages_json.c pages_problems.c
    pages_query.c pages_routes.c pages_stacks.c pages_status.c pages_traces.c scrape.c
    ${CMAKE_BINARY_DIR}/pages_embedded.c)
