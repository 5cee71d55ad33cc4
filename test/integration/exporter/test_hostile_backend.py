# SPDX-License-Identifier: Apache-2.0
"""A backend that speaks HTTP/2 badly: what it did not take is sent again, and nothing is lost.

The first class has the eight cases of gRPC's negative HTTP/2 interoperability tests.
"""
import os
import struct
import sys
import time

INTEGRATION = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(INTEGRATION, folder) for folder in ("support", "otlp")]
import h2_server  # noqa: E402
import harness  # noqa: E402
import sender  # noqa: E402
import test_signals as signals  # noqa: E402
from h2_server import Script, block, header  # noqa: E402

BODY = {"traces": lambda: sender.request_of(5)[0], "metrics": lambda: signals.metrics_of(5)[0],
        "logs": lambda: signals.logs_of(5)[0]}
MANY = 3  # calls that go wrong


class HostileBackend(harness.IntegrationTest):
    def setUp(self):
        super().setUp()
        self.server = h2_server.Server()
        self.addCleanup(self.server.stop)
        pipelines = {name: {"receivers": ["otlp"], "exporters": ["otlp_grpc"]} for name in BODY}
        self.sp = self.spanprof(sampler=False, over={
            "exporters": {"otlp_grpc": {"endpoint": self.server.address, "compression": "none", "timeout": "2s"}},
            "service": {"pipelines": pipelines}})

    def send(self, name="traces", body=None):
        body = body or BODY[name]()
        client = sender.GrpcSender(self.sp.grpc_address, signal=name)
        client.send(body)
        client.close()
        return body

    def await_bodies(self, bodies, timeout=20):
        """Each was taken, and once. Small requests that wait together may leave as one."""
        self.server.wait(lambda: all(any(body in taken for taken in self.server.taken) for body in bodies),
                         timeout * harness.SLOWNESS, "all is taken")
        everything = b"".join(self.server.taken)
        self.assertEqual([everything.count(body) for body in bodies], [1] * len(bodies))

    def run_script(self, script, n=2, body=None):
        """n requests, one after the other, get through."""
        self.server.use(script)
        for _ in range(n):
            self.await_bodies([self.send(body=body)])

    def outcomes(self):
        names = ("ok", "retry", "refused")
        return [int(self.sp.metric("spanprof_exporter_requests_total", '"%s"' % name)) for name in names]

    def assert_tried_again(self, script, times=MANY, **options):
        """The first calls do not succeed, those after them do."""
        before = self.outcomes()
        self.run_script(script, **options)
        ok, retry, refused = (after - was for after, was in zip(self.outcomes(), before))
        self.assertEqual((retry, refused), (times, 0))
        self.assertEqual(self.sp.metric("spanprof_exporter_dropped_items_total"), 0)


class FirstCalls(Script):
    """The first ones go as `wrong` says, the others well."""

    def __init__(self, wrong, n=MANY):
        self.wrong, self.n = wrong, n

    def call(self, connection, stream, n):
        if n > self.n:
            connection.answer(stream)
        else:
            self.wrong(connection, stream)


class Interop(HostileBackend):
    def test_goaway(self):
        class Goaway(Script):
            def call(self, connection, stream, n):
                connection.answer(stream)
                if n == 1:
                    connection.goaway(stream.number)

        self.assert_tried_again(Goaway(), times=0, n=3)
        self.assertEqual(len(self.server.connections), 2)

    def test_rst_after_header(self):
        def wrong(connection, stream):
            connection.begin(stream)
            connection.reset(stream)
        self.assert_tried_again(FirstCalls(wrong))

    def test_rst_during_data(self):
        def wrong(connection, stream):
            connection.begin(stream)
            connection.data(stream, b"\0\0\0\0\x08\x0a\x06")
            connection.reset(stream)
        self.assert_tried_again(FirstCalls(wrong))

    def test_rst_after_data(self):
        def wrong(connection, stream):
            connection.begin(stream)
            connection.data(stream, bytes(5))
            connection.reset(stream)
        self.assert_tried_again(FirstCalls(wrong))

    def test_ping(self):
        class Ping(Script):
            pings = 0

            def ping(self, connection):
                connection.frame(h2_server.PING, 0, 0, b"12345678")
                self.pings += 1

            def call(self, connection, stream, n):
                self.ping(connection)
                connection.begin(stream)
                self.ping(connection)
                connection.data(stream, bytes(5))
                self.ping(connection)
                connection.end(stream)

        script = Ping()
        self.assert_tried_again(script, times=0, n=5)
        harness.wait_until(lambda: self.server.connections[0].pings_answered == script.pings == 15, 5,
                           "all pings are answered")

    def test_max_streams(self):
        class Slow(Script):
            settings = struct.pack(">HI", h2_server.MAX_STREAMS, 1)

            def call(self, connection, stream, n):
                time.sleep(0.2)
                connection.answer(stream)

        self.run_script(Slow(), n=1)  # calls may precede the server's settings
        connection, = self.server.connections
        connection.most_streams = 0
        self.await_bodies([self.send(name) for _ in range(3) for name in BODY])
        self.assertEqual((connection.most_streams, len(self.server.connections)), (1, 1))
        self.assertEqual(self.outcomes()[1:], [0, 0])

    def check_padding(self, padding):
        """The answer is 20 times a window, if padding counts: 5 bytes a frame."""
        message = signals.wire.field(1, signals.wire.field(2, b"x" * 25000))

        class Padded(Script):
            def call(self, connection, stream, n):
                connection.answer(stream, message, padding, piece=5)

        self.assert_tried_again(Padded(), times=0, n=2)

    def test_data_frame_padding(self):
        self.check_padding(255)

    def test_no_data_frame_padding(self):
        self.check_padding(None)


class Other(HostileBackend):
    """What servers, proxies and attackers do besides."""

    def test_resets_before_any_answer(self):
        for error in (h2_server.NO_ERROR, h2_server.REFUSED_STREAM, h2_server.CANCEL, h2_server.CALM):
            with self.subTest(error=error):
                self.assert_tried_again(FirstCalls(lambda connection, stream: connection.reset(stream, error)))

    def test_goaway_before_the_call(self):
        """It says that this call was not looked at."""
        def wrong(connection, stream):
            connection.goaway(0)
            connection.close()
        self.assert_tried_again(FirstCalls(wrong))

    def test_the_connection_ends(self):
        def mid_frame(connection, stream):
            connection.begin(stream)
            connection.send(b"\0\0\x64\0\0")
            connection.close()
        for wrong in (lambda connection, stream: connection.close(), mid_frame):
            with self.subTest(wrong=wrong):
                self.assert_tried_again(FirstCalls(wrong))

    def test_no_answer(self):
        self.assert_tried_again(FirstCalls(lambda connection, stream: None, n=1), times=1)

    def test_proxies(self):
        def html(connection, stream):
            connection.headers(stream, block(status="503", content_type="text/html"))
            connection.data(stream, b"<html>" + b"x" * 5000)
            connection.frame(h2_server.DATA, h2_server.END_STREAM, stream.number)
            connection.forget(stream)

        def bare(connection, stream):
            connection.headers(stream, block(status="502"), end=True)
            connection.forget(stream)

        def interim(connection, stream):
            for _ in range(3):
                connection.headers(stream, block(status="103", link="</x>"))
            connection.end(stream, "14")
        for wrong in (html, bare, interim):
            with self.subTest(wrong=wrong.__name__):
                self.assert_tried_again(FirstCalls(wrong))

    def test_breaches_of_protocol(self):
        """The connection ends, and the call with it: by our own judgement, so it is not the request's fault."""
        def data_first(connection, stream):
            connection.data(stream, bytes(5))

        def pushed(connection, stream):
            connection.frame(h2_server.PUSH, h2_server.END_HEADERS, stream.number, b"\0\0\0\2\x88")

        def bad_block(connection, stream):
            connection.headers(stream, b"\xff\xff\xff\xff\xff\xff\xff")

        def window_overflow(connection, stream):
            connection.frame(h2_server.WINDOW, 0, 0, b"\x7f\xff\xff\xff")

        def long_frame(connection, stream):
            connection.send(b"\xff\xff\xff\0\0\0\0\0\1" + bytes(20000))

        def too_many_continuations(connection, stream):
            connection.frame(h2_server.HEADERS, 0, stream.number, b"\x88")
            for _ in range(1000):
                connection.frame(h2_server.CONTINUATION, 0, stream.number, header("a", "b"))

        def settings_flood(connection, stream):
            for _ in range(3000):
                connection.frame(h2_server.SETTINGS)
            connection.close()
        for wrong in (data_first, pushed, bad_block, window_overflow, long_frame, too_many_continuations,
                      settings_flood):
            with self.subTest(wrong=wrong.__name__):
                self.assert_tried_again(FirstCalls(wrong))

    def test_not_even_http2(self):
        class Http1(Script):
            n = 0

            def connected(self, connection):
                self.n += 1
                if self.n <= MANY:
                    connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                    return False

        class Mute(Http1):
            def connected(self, connection):
                self.n += 1
                if self.n <= 1:
                    time.sleep(4)
                    return False
        for script in (Http1(), Mute()):
            with self.subTest(script=script):
                self.run_script(script)
        self.assertEqual(self.sp.metric("spanprof_exporter_dropped_items_total"), 0)

    def test_small_windows(self):
        """100 bytes of a stream at a time."""
        class Narrow(Script):
            settings = struct.pack(">HI", h2_server.INITIAL_WINDOW, 100)

        body = sender.request_of(20, padding=500)[0]
        self.run_script(Narrow(), n=1, body=body)
        self.assertEqual(self.outcomes()[1:], [0, 0])

    def test_an_answer_before_the_end(self):
        """Success or not, it counts; what was not sent yet of the call is let go."""
        class Early(Script):
            settings = struct.pack(">HI", h2_server.INITIAL_WINDOW, 1000)

            def opened(self, connection, stream, n):
                if n <= MANY:
                    connection.begin(stream)
                    connection.end(stream, "14")
                    connection.reset(stream)

        body = sender.request_of(20, padding=500)[0]
        self.assert_tried_again(Early(), n=1, body=body)


if __name__ == "__main__":
    harness.main()
