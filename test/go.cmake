# SPDX-License-Identifier: Apache-2.0
# Go executables: small made-up ones here, those of the toolchains in test/peers.
spanprof_unit_test(go_binary spanprof_agent)
target_sources(test_go_binary PRIVATE ${CMAKE_CURRENT_LIST_DIR}/support/go_file.c)

spanprof_fuzz_target(go_binary spanprof_agent)

# What of a file is found, for the tests of test/peers.
add_executable(go_inspect ${CMAKE_CURRENT_LIST_DIR}/support/go_inspect.c)
target_link_libraries(go_inspect PRIVATE spanprof_agent spanprof_flags)
