# SPDX-License-Identifier: Apache-2.0
# What measures CPU time runs alone; what mostly waits runs beside others.
spanprof_integration_test(support TIMEOUT 30)
spanprof_integration_test(accuracy SERIAL LONG TIMEOUT 150)
spanprof_integration_test(long_spans SERIAL LONG TIMEOUT 90
    ARGUMENTS LongSpans.test_longer_than_the_wait LongSpans.test_sent_twice)
spanprof_integration_test(restarts FILE long_spans SERIAL LONG TIMEOUT 150
    ARGUMENTS LongSpans.test_sent_again_after_restart LongSpans.test_service_killed_in_mid_span
    LongSpans.test_restarted_in_mid_span LongSpans.test_killed_whole_in_mid_span)
spanprof_integration_test(forwarding TIMEOUT 120 LABELS tsan)
spanprof_integration_test(kills FILE durability TIMEOUT 150 ARGUMENTS Kills)
spanprof_integration_test(disk FILE durability TIMEOUT 120 ARGUMENTS Disk)
spanprof_integration_test(backend LONG TIMEOUT 150)
spanprof_integration_test(file TIMEOUT 120)
spanprof_integration_test(input TIMEOUT 120)
spanprof_integration_test(command TIMEOUT 150)
spanprof_integration_test(hostile SERIAL TIMEOUT 150)
spanprof_integration_test(contexts_otel FILE contexts SERIAL LONG TIMEOUT 120
    ARGUMENTS Matrix.test_otel_thread_context Matrix.test_otel_variants Matrix.test_custom_labels)
spanprof_integration_test(contexts_elastic FILE contexts SERIAL LONG TIMEOUT 120
    ARGUMENTS Matrix.test_elastic Matrix.test_elastic_is_registered_with_again_after_a_restart)
spanprof_integration_test(contexts_precedence FILE contexts SERIAL TIMEOUT 60
    ARGUMENTS Precedence)
spanprof_integration_test(hostile_contexts SERIAL LONG TIMEOUT 150)
spanprof_integration_test(rights FILE processes TIMEOUT 60 ARGUMENTS Rights)
spanprof_integration_test(analyst FILE processes SERIAL LONG TIMEOUT 150 ARGUMENTS Analyst)
spanprof_integration_test(storm FILE processes SERIAL LONG TIMEOUT 150 ARGUMENTS Storm)
spanprof_integration_test(late_library FILE processes TIMEOUT 60 ARGUMENTS LateLibrary)
spanprof_integration_test(leaks LONG TIMEOUT 120)

spanprof_integration_test(soak_long_span FILE long_spans SERIAL TIMEOUT 600 LABELS soak
    ENVIRONMENT SPANPROF_SOAK=1 ARGUMENTS LongSpans.test_longer_than_the_wait)
spanprof_integration_test(soak_storm FILE processes SERIAL TIMEOUT 3600 LABELS soak
    ENVIRONMENT SPANPROF_SOAK=1 ARGUMENTS Storm)
spanprof_integration_test(soak_torn FILE hostile_contexts SERIAL TIMEOUT 1500 LABELS soak
    ENVIRONMENT SPANPROF_SOAK=1 ARGUMENTS Torn)

# With OTLP classes and a gRPC library that others made: ./dev test peers installs them.
set(peers ${CMAKE_SOURCE_DIR}/build/peers/bin/python)
spanprof_integration_test(schema PYTHON ${peers} LABELS peers)
spanprof_integration_test(peers_forwarding FILE forwarding PYTHON ${peers} LABELS peers TIMEOUT 120
    ENVIRONMENT SPANPROF_OTLP=package)
spanprof_integration_test(peers_hostile FILE hostile PYTHON ${peers} LABELS peers TIMEOUT 150
    ENVIRONMENT SPANPROF_OTLP=package)
