# SPDX-License-Identifier: Apache-2.0
# End-to-end tests: test/integration/test_NAME.py against the real program, with workloads whose truth is
# known. Labels beside "integration": tsan (also under TSan), soak and peers (not by default).
find_package(Threads REQUIRED)
set(support ${CMAKE_CURRENT_LIST_DIR}/support)

# Frames of these programs are to be seen: no inlining across, no tail calls.
function(spanprof_workload name)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_options(${name} PRIVATE -O2 -fno-omit-frame-pointer
        -mno-omit-leaf-frame-pointer -fno-optimize-sibling-calls)
    target_link_libraries(${name} PRIVATE ${ARGN} spanprof_flags Threads::Threads)
endfunction()

add_executable(workload ${support}/workload.c ${support}/workload_span.c ${support}/workload_burn.c
    ${support}/span_export.c)
spanprof_workload(workload spanprof_context)

add_executable(workload_hostile ${support}/workload_hostile.c ${support}/workload_burn.c)
set_target_properties(workload_hostile PROPERTIES ENABLE_EXPORTS ON)
spanprof_workload(workload_hostile)

add_library(workload_plugin MODULE ${support}/workload_plugin.c ${support}/workload_span.c
    ${support}/workload_burn.c ${support}/span_export.c)
spanprof_workload(workload_plugin spanprof_context)
add_executable(workload_host ${support}/workload_host.c)
spanprof_workload(workload_host ${CMAKE_DL_LIBS})

add_executable(demo_service ${CMAKE_CURRENT_LIST_DIR}/demo/demo_service.c
    ${CMAKE_CURRENT_LIST_DIR}/demo/demo_shop.c ${CMAKE_CURRENT_LIST_DIR}/demo/demo_trace.c
    ${support}/span_export.c)
spanprof_workload(demo_service spanprof_context)

# spanprof_integration_test(NAME [FILE name] [SERIAL] [LONG] [TIMEOUT s] [LABELS ...] [PYTHON path]
#     [ENVIRONMENT ...] [ARGUMENTS ...]): test_FILE.py (default: NAME), whole or the cases named.
# LONG: in sanitizer builds not by default, but with the soak tests.
function(spanprof_integration_test name)
    cmake_parse_arguments(TEST "SERIAL;LONG" "TIMEOUT;PYTHON;FILE" "LABELS;ENVIRONMENT;ARGUMENTS" ${ARGN})
    set(python ${TEST_PYTHON})
    if(NOT python)
        set(python /usr/bin/python3)
    endif()
    set(file ${TEST_FILE})
    if(NOT file)
        set(file ${name})
    endif()
    set(labels ${TEST_LABELS})
    if(TEST_LONG AND SPANPROF_SANITIZE)
        list(APPEND labels long)
    elseif(NOT labels MATCHES "soak|peers")
        list(APPEND labels integration)
    endif()
    set(timeout ${TEST_TIMEOUT})
    if(NOT timeout)
        set(timeout 90)
    endif()
    if(SPANPROF_SANITIZE)
        math(EXPR timeout "${timeout} * 2")
    endif()
    add_test(NAME integration.${name}
        COMMAND ${python} -B ${CMAKE_SOURCE_DIR}/test/integration/test_${file}.py ${TEST_ARGUMENTS})
    set(environment "SPANPROF_BINARY=${CMAKE_BINARY_DIR}/spanprof"
        "SPANPROF_BUILD_DIR=${CMAKE_BINARY_DIR}" "SPANPROF_SANITIZE=${SPANPROF_SANITIZE}"
        ${TEST_ENVIRONMENT})
    set_tests_properties(integration.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
        SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}" RUN_SERIAL "${TEST_SERIAL}")
endfunction()

if(EXISTS ${CMAKE_SOURCE_DIR}/main.c)
    include(${CMAKE_CURRENT_LIST_DIR}/integration/tests.cmake)
endif()
