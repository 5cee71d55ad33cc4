# SPDX-License-Identifier: Apache-2.0
# Several requests of a signal on their way to one destination.
spanprof_unit_test(lane spanprof_exporter_fixture)
spanprof_unit_test(lane_hand spanprof_exporter_fixture)
spanprof_unit_test(lane_slice spanprof_exporter_fixture)
spanprof_integration_test(in_flight TIMEOUT 120)
