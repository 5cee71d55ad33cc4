# SPDX-License-Identifier: Apache-2.0
set(SPANPROF_UNIT_TIMEOUT 120)
if(SPANPROF_SANITIZE)
    set(SPANPROF_UNIT_TIMEOUT 360)
endif()

# spanprof_unit_test(NAME LIBS ...): test/unit/test_NAME.c, ctest label "unit".
function(spanprof_unit_test name)
    add_executable(test_${name} ${CMAKE_SOURCE_DIR}/test/unit/test_${name}.c)
    target_link_libraries(test_${name} PRIVATE ${ARGN} spanprof_flags PkgConfig::CMOCKA)
    target_compile_definitions(test_${name} PRIVATE SPANPROF_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME unit.${name} COMMAND test_${name})
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT ${SPANPROF_UNIT_TIMEOUT})
endfunction()

# spanprof_one_thread(NAME ...): unit tests that take their time and start no thread. TSan, which makes them ten
# times as slow, would have nothing to look at.
function(spanprof_one_thread)
    foreach(name ${ARGN})
        set_property(TEST unit.${name} APPEND PROPERTY LABELS one_thread)
    endforeach()
endfunction()

add_custom_target(fuzz_targets)

# spanprof_fuzz_target(NAME LIBS ...): test/fuzz/fuzz_NAME.c defines LLVMFuzzerTestOneInput. Without
# SPANPROF_FUZZ it is linked to a driver that replays test/fuzz/corpus/NAME in ctest, label "fuzz".
function(spanprof_fuzz_target name)
    add_executable(fuzz_${name} ${CMAKE_SOURCE_DIR}/test/fuzz/fuzz_${name}.c)
    target_link_libraries(fuzz_${name} PRIVATE ${ARGN} spanprof_flags)
    add_dependencies(fuzz_targets fuzz_${name})
    if(SPANPROF_FUZZ)
        target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    else()
        target_sources(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/test/fuzz/replay.c)
        add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${CMAKE_SOURCE_DIR}/test/fuzz/corpus/${name})
        set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 120)
    endif()
endfunction()

# spanprof_bench(NAME LIBS ...): test/bench/bench_NAME.c; prints lines `name value unit`, run by ./dev bench.
function(spanprof_bench name)
    add_executable(bench_${name} ${CMAKE_SOURCE_DIR}/test/bench/bench_${name}.c)
    target_link_libraries(bench_${name} PRIVATE ${ARGN} spanprof_flags)
    target_compile_definitions(bench_${name} PRIVATE SPANPROF_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endfunction()

# spanprof_failing_alloc(TARGET): the n-th allocation can be made to fail, see test/support/fail_alloc.h.
function(spanprof_failing_alloc target)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/test/support/fail_alloc.c)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_options(${target} PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
        -Wl,--wrap=strdup,--wrap=strndup)
endfunction()
