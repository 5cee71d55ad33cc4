# SPDX-License-Identifier: Apache-2.0
"""The file exporter: what was acknowledged is in the file, through kills and rotation; a disk that cannot
be written holds up nobody else and loses nothing."""
import contextlib
import glob
import json
import os
import re
import stat
import sys

from google.protobuf import json_format

INTEGRATION = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(INTEGRATION, folder) for folder in ("support", "otlp")]
import harness  # noqa: E402
import receiver_schema  # noqa: E402
import sender  # noqa: E402
import test_json  # noqa: E402


class File(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)  # the service is not root

    def to_file(self, settings=None, also_grpc=False, user=None):
        self.path = os.path.join(self.directory, "out", "otlp.json")
        exporters = ["file"] + (["otlp_grpc"] if also_grpc else [])
        service = {"pipelines": {"traces": {"exporters": exporters},
                                 "logs": {"receivers": ["otlp"], "exporters": ["file"]}}}
        if user:
            service["user"] = user
        over = {"exporters": {"file": {"path": self.path, "create_directory": True,
                                       **(settings or {})}}, "service": service}
        return self.spanprof(sampler=False, over=over)

    def files(self):
        """Oldest first: backups, then the file."""
        return sorted(glob.glob(os.path.join(self.directory, "out", "otlp-*.json"))) + \
            ([self.path] if os.path.exists(self.path) else [])

    def lines(self):
        for path in self.files():
            with contextlib.suppress(FileNotFoundError):  # it is rotated meanwhile
                with open(path, "rb") as file:
                    yield from file

    def requests(self):
        make = receiver_schema.message(receiver_schema.TRACE_REQUEST)
        found = []
        for line in self.lines():
            tree = json.loads(line)
            if "resourceSpans" in tree:
                found.append(json_format.ParseDict(
                    test_json.with_ids(tree, test_json.from_hex), make()))
        return found

    def span_ids(self):
        """Of whole lines."""
        return {found.decode() for line in self.lines() if line.endswith(b"]}\n")
                for found in re.findall(rb'"spanId":"([0-9a-f]{16})"', line)}

    def await_spans(self, expected, timeout=20):
        harness.wait_until(lambda: self.span_ids() >= expected, timeout, "all spans are in the file")

    def test_what_came_is_in_the_file(self):
        spanprof = self.to_file()
        body, ids = sender.request_of(20, padding=50)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        log = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a\\nb"}}]}]}]}'
        self.assertEqual(sender.post(spanprof.http_address, log, content_type="application/json",
                                     path="/v1/logs")[0], 200)
        self.await_spans(set(ids))
        harness.wait_until(lambda: log + b"\n" in self.lines(), 10, "the log")
        request, = self.requests()
        expected = receiver_schema.message(receiver_schema.TRACE_REQUEST).FromString(body)
        self.assertEqual(request, expected)
        self.assertFalse(os.stat(self.path).st_mode & stat.S_IRWXO)
        self.stop_spanprof(spanprof)

    def test_kills_and_rotation(self):
        """Whatever was acknowledged is in the file or its backups, and every line is whole but
        perhaps the last before a kill."""
        spanprof = self.to_file({"rotation": {"max_megabytes": 1, "max_backups": 1000}})
        load = sender.Load(spanprof.grpc_address, senders=4, spans=50, padding=300)
        for _ in range(4):
            harness.wait_until(lambda: load.count() > 0, 10, "spans are taken")
            before = load.count()
            harness.wait_until(lambda: load.count() > before + 2000, 20, "spans are taken")
            spanprof.kill_service()
        load.stop()
        acknowledged = load.acknowledged
        self.assertGreater(len(acknowledged), 8000)
        self.await_spans(acknowledged, 30)
        self.stop_spanprof(spanprof)
        self.assertGreater(len(self.files()), 3)
        cut = 0
        for line in self.lines():
            try:
                json.loads(line)
            except ValueError:
                cut += 1
        self.assertLessEqual(cut, 4)
        print("%d spans in %d files, %d cut lines" % (len(acknowledged), len(self.files()), cut))

    def test_a_file_that_cannot_be_written_holds_up_nobody(self):
        os.mkdir(os.path.join(self.directory, "out"))
        os.chmod(os.path.join(self.directory, "out"), 0o777)
        os.mkdir(os.path.join(self.directory, "out", "otlp.json"))
        spanprof = self.to_file(also_grpc=True)
        body, ids = sender.request_of(5)
        sender.GrpcSender(spanprof.grpc_address).send(body)
        self.backend.wait(lambda: len(self.backend.spans()) == 5, 10, "the backend has them")
        self.assertIn("Is a directory", spanprof.log())
        os.rmdir(self.path)
        self.await_spans(set(ids), 30)
        self.stop_spanprof(spanprof)


if __name__ == "__main__":
    harness.main()
