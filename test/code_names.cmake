# SPDX-License-Identifier: Apache-2.0
# Frames of code without a file: test/store.cmake has the library.
spanprof_unit_test(code_names spanprof_store_fixture)
