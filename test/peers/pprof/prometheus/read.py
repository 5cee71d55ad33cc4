# SPDX-License-Identifier: Apache-2.0
"""Metrics on standard input, as Prometheus's own Python library reads them, as JSON. Argument: their Content-Type."""
import json
import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as plain


def exemplar_of(sample):
    found = sample.exemplar
    return found and {"labels": found.labels, "value": found.value,
                      "timestamp": found.timestamp and float(found.timestamp)}


read = openmetrics if sys.argv[1].startswith("application/openmetrics-text") else plain
families = {family.name: {
    "type": family.type, "help": family.documentation, "unit": family.unit,
    "samples": [{"name": sample.name, "labels": sample.labels, "value": sample.value, "exemplar": exemplar_of(sample)}
                for sample in family.samples]} for family in read.text_string_to_metric_families(sys.stdin.read())}
json.dump(families, sys.stdout)
