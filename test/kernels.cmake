# SPDX-License-Identifier: Apache-2.0
# What test/kernels/kernels.py runs on other kernels (and on this one): ./dev test kernels.
set(kernels ${CMAKE_CURRENT_LIST_DIR}/kernels)
set(support ${CMAKE_CURRENT_LIST_DIR}/support)

add_executable(kernel_check ${kernels}/kernel_check.c ${kernels}/linked_samples.c)
target_link_libraries(kernel_check PRIVATE spanprof_exporter_fixture spanprof_flags PkgConfig::LIBBPF)

# One source with frame pointers and without, behind the flags of all else; every call is to be seen.
set(flags $<TARGET_PROPERTY:spanprof_flags,INTERFACE_COMPILE_OPTIONS>)
set(framed -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer)
set(frameless -fomit-frame-pointer)
foreach(frames framed frameless)
    set(name kernel_workload_${frames})
    add_executable(${name} ${kernels}/kernel_workload.c ${support}/workload_burn.c
        ${support}/span_export.c)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_compile_options(${name} PRIVATE ${flags} -O2 -fno-optimize-sibling-calls ${${frames}})
    target_link_libraries(${name} PRIVATE spanprof_base spanprof_context)
endforeach()
add_custom_target(kernels DEPENDS spanprof kernel_check kernel_workload_framed
    kernel_workload_frameless)
