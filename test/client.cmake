# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(client spanprof_client)
spanprof_fuzz_target(client spanprof_client Threads::Threads)
