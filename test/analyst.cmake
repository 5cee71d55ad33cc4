# SPDX-License-Identifier: Apache-2.0
foreach(module process process_limits container elf symbols analyst_messages analyst_environment
        analyst_binary)
    spanprof_unit_test(${module} spanprof_agent)
endforeach()
spanprof_failing_alloc(test_process_limits)
spanprof_one_thread(process_limits)

# The executable that is read is the test itself.
set(test_build_id 0102030405060708090a0b0c0d0e0f1011121314)
target_compile_definitions(test_elf PRIVATE TEST_BUILD_ID="${test_build_id}")
target_link_options(test_elf PRIVATE -Wl,--build-id=0x${test_build_id}
    -Wl,--export-dynamic-symbol=otel_thread_ctx_v1)
foreach(module elf symbols)
    target_link_libraries(test_${module} PRIVATE ${CMAKE_DL_LIBS})
endforeach()

spanprof_unit_test(otel_context spanprof_agent spanprof_context)
target_sources(test_otel_context PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/context_fixture.c)

spanprof_unit_test(analyst spanprof_agent)
target_sources(test_analyst PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/context_fixture.c
    ${CMAKE_CURRENT_LIST_DIR}/support/analyst_rig.c)

# On the real kernel, as root: a map like the sampler's.
add_executable(context_host ${CMAKE_CURRENT_LIST_DIR}/support/context_host.c)
target_include_directories(context_host PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(context_host PRIVATE spanprof_flags ${CMAKE_DL_LIBS})
# The general dynamic model: the variable's block is found through the thread's DTV.
add_library(context_user_dynamic MODULE ${CMAKE_CURRENT_LIST_DIR}/support/context_user.c)
foreach(source mapping payload process_context shared_state thread_context)
    target_sources(context_user_dynamic PRIVATE ${CMAKE_SOURCE_DIR}/context/${source}.c)
endforeach()
target_include_directories(context_user_dynamic PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(context_user_dynamic PRIVATE -fvisibility=default -fno-strict-aliasing
    $<$<BOOL:${SPANPROF_HAVE_TLSDESC}>:-mtls-dialect=gnu>)
target_link_libraries(context_user_dynamic PRIVATE spanprof_flags)
add_executable(test_bpf_analyst ${CMAKE_CURRENT_LIST_DIR}/bpf/test_analyst.c
    ${CMAKE_CURRENT_LIST_DIR}/support/context_fixture.c
    ${CMAKE_CURRENT_LIST_DIR}/support/analyst_rig.c)
target_link_libraries(test_bpf_analyst PRIVATE spanprof_agent spanprof_context spanprof_flags
    PkgConfig::CMOCKA PkgConfig::LIBBPF ${CMAKE_DL_LIBS})
target_compile_definitions(test_bpf_analyst PRIVATE CONTEXT_HOST="$<TARGET_FILE:context_host>"
    CONTEXT_USER_A="${CMAKE_CURRENT_BINARY_DIR}/libcontext_user_a.so"
    CONTEXT_USER_SHARED="${CMAKE_CURRENT_BINARY_DIR}/libcontext_user_shared.so"
    CONTEXT_USER_DYNAMIC="$<TARGET_FILE:context_user_dynamic>")
add_dependencies(test_bpf_analyst context_host context_user_a context_user_shared context_user_dynamic)
add_test(NAME bpf.analyst COMMAND test_bpf_analyst)
set_tests_properties(bpf.analyst PROPERTIES LABELS bpf SKIP_RETURN_CODE 77 TIMEOUT 180 RUN_SERIAL ON)

add_library(context_sources MODULE ${CMAKE_CURRENT_LIST_DIR}/support/context_sources.c)
target_include_directories(context_sources PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(context_sources PRIVATE spanprof_flags)
add_executable(test_bpf_analyst_sources ${CMAKE_CURRENT_LIST_DIR}/bpf/test_analyst_sources.c
    ${CMAKE_CURRENT_LIST_DIR}/support/context_fixture.c
    ${CMAKE_CURRENT_LIST_DIR}/support/analyst_rig.c)
target_link_libraries(test_bpf_analyst_sources PRIVATE spanprof_agent spanprof_context
    spanprof_flags PkgConfig::CMOCKA PkgConfig::LIBBPF ${CMAKE_DL_LIBS})
target_compile_definitions(test_bpf_analyst_sources PRIVATE
    CONTEXT_SOURCES_LIBRARY="$<TARGET_FILE:context_sources>")
add_dependencies(test_bpf_analyst_sources context_sources)
add_test(NAME bpf.analyst_sources COMMAND test_bpf_analyst_sources)
set_tests_properties(bpf.analyst_sources PROPERTIES LABELS bpf SKIP_RETURN_CODE 77 TIMEOUT 180
    RUN_SERIAL ON)

foreach(target elf otel_context analyst_message analyst_environment proc)
    spanprof_fuzz_target(${target} spanprof_agent)
endforeach()

spanprof_bench(analyst spanprof_agent spanprof_context PkgConfig::LIBBPF)
target_sources(bench_analyst PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/context_fixture.c)
