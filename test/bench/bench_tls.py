#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TLS beside plain text: spans acknowledged through gRPC, and handshakes, by CPU time of the service.

Prints `name value unit`. h2load sends; the debug exporter empties the outbox. ECDSA: P-256; RSA: 2048 bits.
"""
import os
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration", "support"))
import harness  # noqa: E402
import sender  # noqa: E402

SECONDS = 5
CONNECTIONS, ROUNDS = 200, 10


def print_figure(name, value, unit):
    print("%s %.6g %s" % (name, value, unit), flush=True)


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(directory, certificates, name):
    """The second receiver has TLS with that certificate."""
    os.mkdir(directory)
    port = harness.free_port()
    program = harness.Spanprof(directory, "127.0.0.1:1", sampler=False, over={
        "exporters": {"debug": {}},
        "receivers": {"otlp/tls": {"protocols": {"grpc": {
            "endpoint": "127.0.0.1:%d" % port,
            "tls": {"cert_file": os.path.join(certificates, name + ".crt"),
                    "key_file": os.path.join(certificates, name + ".key")}}}}},
        "service": {"telemetry": {"logs": {"level": "error"}}, "pipelines": {
            "traces": {"receivers": ["otlp", "otlp/tls"], "exporters": ["debug"]}}}})
    return program.start(), "https://127.0.0.1:%d" % port


def h2load(url, path, *arguments):
    subprocess.run(["h2load", *arguments, "-d", path, "-H", "te: trailers",
                    "-H", "content-type: application/grpc", url + sender.METHODS["traces"]],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def grpc_file(directory, name):
    with open(os.path.join(HERE, name + ".bin"), "rb") as file:
        body = file.read()
    path = os.path.join(directory, name + ".grpc")
    with open(path, "wb") as file:
        file.write(b"\0" + struct.pack(">I", len(body)) + body)
    return path


def measure_spans(program, url, path, name):
    counter = "spanprof_spans_received_total"
    before, cpu, began = program.metric(counter), cpu_seconds(program.service), time.monotonic()
    h2load(url, path, "-D", str(SECONDS), "-c", "4", "-m", "8")
    wall = time.monotonic() - began
    cpu = cpu_seconds(program.service) - cpu
    spans = program.metric(counter) - before
    print_figure(name + "_spans_per_second", spans / wall, "spans/s")
    print_figure(name + "_spans_per_cpu_second", spans / cpu, "spans/s of CPU")


def measure_connections(program, url, path, name):
    """Connections with one small request each: what is more than by plain text is the handshake."""
    cpu, began = cpu_seconds(program.service), time.monotonic()
    for _ in range(ROUNDS):
        h2load(url, path, "-n", str(CONNECTIONS), "-c", str(CONNECTIONS))
    wall = time.monotonic() - began
    cpu = cpu_seconds(program.service) - cpu
    print_figure(name + "_connections_per_second", CONNECTIONS * ROUNDS / wall, "connections/s")
    print_figure(name + "_connections_per_cpu_second", CONNECTIONS * ROUNDS / cpu, "connections/s of CPU")


def main():
    with tempfile.TemporaryDirectory(prefix="spanprof-bench-") as directory:
        certificates = os.path.join(directory, "certificates")
        os.mkdir(certificates)
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), certificates], check=True)
        large, small = grpc_file(directory, "spans_330"), os.path.join(directory, "empty.grpc")
        with open(small, "wb") as file:
            file.write(bytes(5))
        program, url = start(os.path.join(directory, "ecdsa"), certificates, "server")
        for name, at in (("plain", "http://" + program.grpc_address), ("tls", url)):
            measure_spans(program, at, large, name)
            measure_connections(program, at, small, name)
        print_figure("tls_pss_mib", harness.pss_kib(program.service) / 1024, "MiB")
        program.stop()
        program, url = start(os.path.join(directory, "rsa"), certificates, "rsa")
        measure_connections(program, url, small, "tls_rsa")
        program.stop()


main()
