# SPDX-License-Identifier: Apache-2.0
# spanprof_bpf_test(NAME): test/bpf/test_NAME.c, on the real kernel as root; else skipped (77).
function(spanprof_bpf_test name)
    add_executable(test_bpf_${name} ${CMAKE_SOURCE_DIR}/test/bpf/test_${name}.c)
    target_include_directories(test_bpf_${name} PRIVATE ${CMAKE_SOURCE_DIR}/test/bpf)
    target_link_libraries(test_bpf_${name} PRIVATE spanprof_agent spanprof_flags PkgConfig::CMOCKA ${ARGN})
    add_test(NAME bpf.${name} COMMAND test_bpf_${name})
    # one at a time: they take CPUs off line and count what others would disturb
    set_tests_properties(bpf.${name} PROPERTIES LABELS bpf SKIP_RETURN_CODE 77 TIMEOUT 180 RUN_SERIAL ON)
endfunction()

spanprof_bpf_test(sampler PkgConfig::LIBBPF Threads::Threads)
spanprof_bpf_test(sampler_host PkgConfig::LIBBPF Threads::Threads)
spanprof_bpf(spanprof_refused_bpf support/refused.bpf.c)
spanprof_bpf_test(sampler_why PkgConfig::LIBBPF spanprof_refused_bpf)
spanprof_bpf_test(contexts PkgConfig::LIBBPF Threads::Threads)
spanprof_bpf_test(contexts_labels PkgConfig::LIBBPF Threads::Threads)
spanprof_bpf_test(contexts_obi PkgConfig::LIBBPF Threads::Threads)
spanprof_bpf_test(contexts_torn PkgConfig::LIBBPF Threads::Threads)
add_test(NAME soak.contexts_torn COMMAND test_bpf_contexts_torn 600)
set_tests_properties(soak.contexts_torn PROPERTIES LABELS soak SKIP_RETURN_CODE 77 TIMEOUT 2400 RUN_SERIAL ON)
spanprof_bpf_test(ring Threads::Threads)
spanprof_bpf_test(procstream Threads::Threads ${CMAKE_DL_LIBS})
spanprof_bpf_test(keeper)
spanprof_bpf_test(keeper_silence)
spanprof_bpf_test(unwind_maps PkgConfig::LIBBPF)

# What differs between processors is compiled for each, also where none of them can load it.
foreach(arch x86 arm64)
    add_test(NAME unit.sampler_bpf_${arch}
        COMMAND ${BPF_CLANG} ${SPANPROF_BPF_FLAGS} -D__TARGET_ARCH_${arch}
                -c ${CMAKE_SOURCE_DIR}/agent-bpf/bpf/sampler.bpf.c -o /dev/null)
    set_tests_properties(unit.sampler_bpf_${arch} PROPERTIES LABELS unit TIMEOUT 60)
endforeach()

spanprof_unit_test(perf_record spanprof_agent)
spanprof_unit_test(bpf_parts spanprof_agent)
spanprof_fuzz_target(perf_record spanprof_agent)
spanprof_bench(bpf spanprof_agent PkgConfig::LIBBPF Threads::Threads)
target_compile_options(bench_bpf PRIVATE -fomit-frame-pointer)
target_sources(bench_bpf PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/unwind_rig.c ${CMAKE_CURRENT_LIST_DIR}/support/analyst_rig.c)
