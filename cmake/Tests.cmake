# SPDX-License-Identifier: Apache-2.0
# What the lists of test/ share.
set(SPANPROF_UNIT_TIMEOUT 120)
if(SPANPROF_SANITIZE)
    set(SPANPROF_UNIT_TIMEOUT 360)
endif()
set(SPANPROF_SUPPORT ${CMAKE_SOURCE_DIR}/test/support)
# All programs and libraries of test/ lie in one folder, whichever list builds them.
set(SPANPROF_TEST_OUTPUT ${CMAKE_BINARY_DIR}/test)

# Not needed to build: tests that lack one of these are left out.
find_program(SPANPROF_MUSL_GCC musl-gcc)
find_program(SPANPROF_GXX g++)
pkg_check_modules(LIBDW IMPORTED_TARGET libdw)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(SPANPROF_X86_64 ON)
endif()

# spanprof_cost(TEST): ctest starts the tests that take longest first, so that no CPU waits for the last one.
# costs.cmake has their seconds in CI's dev build; it is written by `summary.py --costs build/results/*.xml`.
include(${CMAKE_SOURCE_DIR}/test/costs.cmake)
function(spanprof_cost test)
    if(DEFINED SPANPROF_SECONDS_${test})
        set_tests_properties(${test} PROPERTIES COST ${SPANPROF_SECONDS_${test}})
    endif()
endfunction()

# spanprof_unit_test(NAME LIBS ...): test_NAME.c of the current folder, ctest label "unit".
function(spanprof_unit_test name)
    add_executable(test_${name} test_${name}.c)
    target_link_libraries(test_${name} PRIVATE ${ARGN} spanprof_flags PkgConfig::CMOCKA)
    target_compile_definitions(test_${name} PRIVATE SPANPROF_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME unit.${name} COMMAND test_${name})
    set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT ${SPANPROF_UNIT_TIMEOUT} SKIP_RETURN_CODE 77)
    spanprof_cost(unit.${name})
endfunction()

# spanprof_one_thread(NAME ...): unit tests that take their time and start no thread. TSan, which makes them ten
# times as slow, would have nothing to look at.
function(spanprof_one_thread)
    foreach(name ${ARGN})
        set_property(TEST unit.${name} APPEND PROPERTY LABELS one_thread)
    endforeach()
endfunction()

# spanprof_support(TARGET FILE ...): sources of test/support that TARGET is built with.
function(spanprof_support target)
    list(TRANSFORM ARGN PREPEND ${SPANPROF_SUPPORT}/)
    target_sources(${target} PRIVATE ${ARGN})
endfunction()

# spanprof_failing_alloc(TARGET): the n-th allocation can be made to fail, see test/support/faults/fail_alloc.h.
function(spanprof_failing_alloc target)
    spanprof_support(${target} faults/fail_alloc.c)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_options(${target} PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
        -Wl,--wrap=strdup,--wrap=strndup)
endfunction()

# spanprof_fixed_keys(TARGET): which tenants have one share is the same in each run.
function(spanprof_fixed_keys target)
    spanprof_support(${target} faults/fixed_keys.c)
    target_link_options(${target} PRIVATE -Wl,--wrap=getrandom)
endfunction()

# spanprof_counting_work(TARGET): its work can be counted, see test/support/faults/count_work.h.
function(spanprof_counting_work target)
    spanprof_support(${target} faults/count_work.c)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_options(${target} PRIVATE -Wl,--wrap=memcmp,--wrap=memcpy,--wrap=memmove
        -Wl,--wrap=strlen,--wrap=strnlen,--wrap=bytes_siphash,--wrap=bytes_siphash128
        -Wl,--wrap=otlp_resource_attribute,--wrap=otlp_span_attribute
        -Wl,--wrap=sqlite3_step,--wrap=sqlite3_bind_blob64)
endfunction()

# spanprof_workload(TARGET LIBS ...): frames of the program are to be seen: no inlining across, no tail calls.
function(spanprof_workload name)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_options(${name} PRIVATE -O2 -fno-omit-frame-pointer
        -mno-omit-leaf-frame-pointer -fno-optimize-sibling-calls)
    target_link_libraries(${name} PRIVATE ${ARGN} spanprof_flags Threads::Threads)
endfunction()
