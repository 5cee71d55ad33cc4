# SPDX-License-Identifier: Apache-2.0
# spanprof_embed(OUT FOLDER): a C file with the files of FOLDER, compressed, as exporter/pages/pages_assets.h has
# them. In pages "/assets/" becomes "/assets/VERSION/", so that a browser may keep the other files for good.
# Run as a script (-P) it writes that file.
function(spanprof_embed_type name result)
    get_filename_component(extension ${name} LAST_EXT)
    set(type_.html "text/html; charset=utf-8")
    set(type_.css "text/css; charset=utf-8")
    set(type_.js "text/javascript; charset=utf-8")
    set(type_.svg image/svg+xml)
    set(type_.png image/png)
    set(type_.txt "text/plain; charset=utf-8")
    if(NOT DEFINED type_${extension})
        message(FATAL_ERROR "${name}: no type is known for ${extension}")
    endif()
    set(type "${type_${extension}}")
    set(${result} "${type}" PARENT_SCOPE)
endfunction()

# A hash of all files.
function(spanprof_embed_version result)
    set(hashes "")
    foreach(path ${ARGN})
        file(SHA256 ${path} hash)
        get_filename_component(name ${path} NAME)
        string(APPEND hashes "${name} ${hash}\n")
    endforeach()
    string(SHA256 version "${hashes}")
    string(SUBSTRING ${version} 0 12 version)
    set(${result} ${version} PARENT_SCOPE)
endfunction()

# What is embedded for a file: of a page, a copy with the version.
function(spanprof_embed_versioned path version copy result)
    set(${result} ${path} PARENT_SCOPE)
    if(path MATCHES "[.]html$")
        file(READ ${path} text)
        string(REPLACE "/assets/" "/assets/${version}/" text "${text}")
        file(WRITE ${copy} "${text}")
        set(${result} ${copy} PARENT_SCOPE)
    endif()
endfunction()

function(spanprof_embed_write out)
    spanprof_embed_version(version ${ARGN})
    set(data "")
    set(table "")
    set(number 0)
    foreach(path ${ARGN})
        get_filename_component(name ${path} NAME)
        spanprof_embed_type(${name} type)
        spanprof_embed_versioned(${path} ${version} ${out}.page path)
        file(SHA256 ${path} hash)
        string(SUBSTRING ${hash} 0 16 etag)
        file(SIZE ${path} size)
        execute_process(COMMAND gzip -9 -n -c ${path} OUTPUT_FILE ${out}.gz COMMAND_ERROR_IS_FATAL ANY)
        file(READ ${out}.gz hex HEX)
        string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
        string(APPEND data "static const uint8_t file_${number}[] = {${hex}};\n")
        string(APPEND table "    {\"${name}\", \"${type}\", \"\\\"${etag}\\\"\", "
            "{file_${number}, sizeof(file_${number})}, ${size}},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    file(REMOVE ${out}.gz ${out}.page)
    file(WRITE ${out} "/* Made by cmake/Embed.cmake. */\n#include \"exporter/pages/pages_assets.h\"\n"
        "${data}const char pages_assets_version[] = \"${version}\";\n"
        "const struct pages_asset pages_assets[] = {\n${table}};\n"
        "const size_t pages_assets_count = ${number};\n")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    file(GLOB files ${FOLDER}/*)
    list(SORT files)
    spanprof_embed_write(${OUT} ${files})
    return()
endif()

find_program(GZIP gzip REQUIRED)
function(spanprof_embed out folder)
    file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DFOLDER=${folder} -P ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake
        DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake)
endfunction()
