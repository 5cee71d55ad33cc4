# SPDX-License-Identifier: Apache-2.0
spanprof_unit_test(file_writer spanprof_exporter)
spanprof_unit_test(file_exporter spanprof_exporter_fixture)
