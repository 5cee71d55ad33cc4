# SPDX-License-Identifier: Apache-2.0
# Stacks that are promised: test/store.cmake, test/intake.cmake have the libraries.
spanprof_unit_test(promised spanprof_store_fixture)
