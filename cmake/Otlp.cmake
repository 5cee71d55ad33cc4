# SPDX-License-Identifier: Apache-2.0
# spanprof_otlp(TARGET protos...): protoc-c on proto/otlp/schema/*.proto, as a SYSTEM include.
find_program(PROTOC_C protoc-c REQUIRED)
function(spanprof_otlp target)
    set(out ${CMAKE_BINARY_DIR}/otlp)
    set(sources)
    foreach(proto ${ARGN})
        string(REPLACE ".proto" "" stem ${proto})
        add_custom_command(OUTPUT ${out}/${stem}.pb-c.c ${out}/${stem}.pb-c.h
            COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
            COMMAND ${PROTOC_C} -I${CMAKE_SOURCE_DIR}/proto/otlp/schema --c_out=${out}
                    ${CMAKE_SOURCE_DIR}/proto/otlp/schema/${proto}
            DEPENDS ${CMAKE_SOURCE_DIR}/proto/otlp/schema/${proto})
        list(APPEND sources ${out}/${stem}.pb-c.c)
    endforeach()
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} SYSTEM PUBLIC ${out})
    target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C)
endfunction()
