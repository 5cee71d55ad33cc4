# SPDX-License-Identifier: Apache-2.0
foreach(module config config_errors config_value config_yaml config_expand config_print config_cli
        config_alloc)
    spanprof_unit_test(${module} spanprof_config)
endforeach()
spanprof_failing_alloc(test_config_alloc)
spanprof_fuzz_target(config spanprof_config)
