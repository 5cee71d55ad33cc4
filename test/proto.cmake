# SPDX-License-Identifier: Apache-2.0
foreach(name wire pb otlp_spans otlp_spans_rewrite otlp_profiles otlp_profiles_check pprof)
    spanprof_unit_test(${name} spanprof_proto)
endforeach()
foreach(name otlp_spans_rewrite otlp_profiles pprof)
    target_include_directories(test_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_options(test_${name} PRIVATE
        -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc)
endforeach()

foreach(name wire pb otlp_spans otlp_profiles)
    spanprof_fuzz_target(${name} spanprof_proto)
endforeach()

spanprof_bench(otlp spanprof_proto)
