# SPDX-License-Identifier: Apache-2.0
add_library(spanprof_bench_rig STATIC ${CMAKE_CURRENT_LIST_DIR}/support/bench_rig.c)
target_link_libraries(spanprof_bench_rig PUBLIC spanprof_store PRIVATE spanprof_flags)
