#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes metrics.bin and logs.bin beside itself: what an SDK exports of a web server, 200 data points
and 100 log records. The same bytes each time."""
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support", "python"))
import receiver_schema  # noqa: E402

NOW = 1763730000000000000
ROUTES = ["/cart", "/checkout", "/product/{id}", "/search", "/login"]


def put(owner, key, value):
    pair = owner.attributes.add(key=key)
    setattr(pair.value, "int_value" if isinstance(value, int) else "string_value", value)


def describe(resource, scope):
    for key, value in (("service.name", "shop"), ("service.version", "4.2.0"), ("process.pid", 4711),
                       ("host.name", "node-17"), ("telemetry.sdk.language", "go")):
        put(resource, key, value)
    scope.name = "io.opentelemetry.http"
    scope.version = "1.30.0"


def metrics():
    request = receiver_schema.message(receiver_schema.METRICS_REQUEST)()
    resource = request.resource_metrics.add()
    scope = resource.scope_metrics.add()
    describe(resource.resource, scope.scope)
    for i in range(20):
        metric = scope.metrics.add(name="http.server.metric_%d" % i, unit="s",
                                   description="Something of HTTP server requests.")
        histogram = i % 4 == 3
        data = metric.histogram if histogram else metric.sum
        data.aggregation_temporality = 2
        for k in range(10):
            point = data.data_points.add(start_time_unix_nano=NOW, time_unix_nano=NOW + 10 ** 10)
            put(point, "http.request.method", random.choice(["GET", "POST"]))
            put(point, "http.route", ROUTES[k % 5])
            put(point, "http.response.status_code", 200 + k)
            if histogram:
                point.count, point.sum, point.min, point.max = 100, 12.5, 0.001, 2.5
                point.explicit_bounds.extend([0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10])
                point.bucket_counts.extend([random.randrange(1000) for _ in range(9)])
            else:
                point.as_int = random.randrange(1 << 30)
    return request


def logs():
    request = receiver_schema.message(receiver_schema.LOGS_REQUEST)()
    resource = request.resource_logs.add()
    scope = resource.scope_logs.add()
    describe(resource.resource, scope.scope)
    for i in range(100):
        record = scope.log_records.add(time_unix_nano=NOW + i, observed_time_unix_nano=NOW + i,
                                       severity_number=9, severity_text="INFO",
                                       trace_id=random.randbytes(16), span_id=random.randbytes(8),
                                       flags=1)
        record.body.string_value = "request %d for %s done in %d ms, %d bytes sent to the client" % (
            i, ROUTES[i % 5], random.randrange(500), random.randrange(100000))
        put(record, "code.function.name", "main.(*Server).handle")
        put(record, "code.line.number", 118)
        put(record, "thread.id", 4711 + i % 8)
    return request


if __name__ == "__main__":
    random.seed(1)
    for name, request in (("metrics", metrics()), ("logs", logs())):
        with open(os.path.join(HERE, name + ".bin"), "wb") as file:
            file.write(request.SerializeToString(deterministic=True))
