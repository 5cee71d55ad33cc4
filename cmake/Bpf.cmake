# SPDX-License-Identifier: Apache-2.0
# spanprof_bpf(TARGET file.bpf.c): clang -target bpf and bpftool's skeleton, as a SYSTEM include.
find_program(BPF_CLANG NAMES clang-14 clang REQUIRED)
find_program(BPFTOOL NAMES bpftool PATHS /usr/sbin REQUIRED)
set(SPANPROF_BPF_FLAGS -g -O2 -target bpf -mcpu=v3 -Wall -Werror
    -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/agent-bpf/bpf/vmlinux)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
    set(SPANPROF_BPF_ARCH arm64)
else()
    set(SPANPROF_BPF_ARCH x86)
endif()
function(spanprof_bpf target source)
    get_filename_component(stem ${source} NAME_WE)
    set(out ${CMAKE_BINARY_DIR}/bpf)
    set(object ${out}/${stem}.bpf.o)
    set(skeleton ${out}/${stem}.skel.h)
    add_custom_command(OUTPUT ${object} ${skeleton}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
        COMMAND ${BPF_CLANG} ${SPANPROF_BPF_FLAGS} -D__TARGET_ARCH_${SPANPROF_BPF_ARCH}
                -MD -MF ${object}.d -MT ${object}
                -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
        COMMAND ${BPFTOOL} gen skeleton ${object} name ${stem}_bpf > ${skeleton}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d)
    add_custom_target(${target}_object DEPENDS ${skeleton})
    add_library(${target} INTERFACE)
    add_dependencies(${target} ${target}_object)
    target_include_directories(${target} SYSTEM INTERFACE ${out})
    target_link_libraries(${target} INTERFACE PkgConfig::LIBBPF)
endfunction()
