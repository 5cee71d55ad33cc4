# SPDX-License-Identifier: Apache-2.0
# Backpressure: more than can be written.
spanprof_unit_test(admission spanprof_server_fixture)
spanprof_unit_test(health_watch spanprof_server_fixture)
spanprof_integration_test(overload SERIAL TIMEOUT 120)
spanprof_integration_test(connections SERIAL TIMEOUT 120)
