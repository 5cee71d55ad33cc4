# SPDX-License-Identifier: Apache-2.0
foreach(name json otlp_json)
    spanprof_unit_test(${name} spanprof_proto)
endforeach()
spanprof_failing_alloc(test_otlp_json)
spanprof_fuzz_target(otlp_json spanprof_proto)

add_executable(json_convert support/json_convert.c)
target_link_libraries(json_convert PRIVATE spanprof_proto spanprof_flags)
spanprof_bench(json spanprof_proto)
spanprof_integration_test(json TIMEOUT 60)
