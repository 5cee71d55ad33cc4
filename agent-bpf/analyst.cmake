# SPDX-License-Identifier: Apache-2.0
# The analyst, its socket, and the service's process table.
set(AGENT_ANALYST_LIBRARIES spanprof_proto PkgConfig::LIBBPF PkgConfig::LZMA PkgConfig::ZLIB PkgConfig::ZSTD iberty)
set(AGENT_ANALYST_SOURCES
    analyst.c analyst_attach.c analyst_binary.c analyst_client.c analyst_code.c analyst_context.c analyst_elastic.c
    analyst_environment.c analyst_ledger.c analyst_messages.c analyst_publishers.c analyst_resource.c
    analyst_names.c analyst_scan.c analyst_tables.c analyst_unwind.c analyst_stats.c analyst_subject.c container.c elastic_message.c
    debug_file.c demangle.c dwarf_cursor.c dwarf_file.c dwarf_form.c dwarf_functions.c dwarf_index.c dwarf_line.c
    dwarf_lines.c dwarf_ranges.c dwarf_unit.c elastic_socket.c elastic_storage.c elf.c elf_compressed.c elf_dynamic.c fs_rights.c function_names.c
    elf_search.c elf_symtab.c go_binary.c go_buildinfo.c go_code.c go_symbols.c kallsyms.c otel_context.c proc_maps.c proc_pid.c
    process.c process_details.c process_image.c process_requests.c safe_open.c symbols.c tls.c)
