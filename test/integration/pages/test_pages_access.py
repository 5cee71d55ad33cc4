# SPDX-License-Identifier: Apache-2.0
"""The door of the pages: who is answered, what never depends on data, and what hostile clients and names achieve."""
import base64
import gzip
import http.client
import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402
from test_pages import QUESTIONS, Pages  # noqa: E402

VIEWS = ("/", "/traces", "/trace", "/functions", "/flame", "/timeline", "/diff", "/status")
TOKEN = "0123456789abcdef-A"


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("x", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self.path)


class Door(Pages):
    def test_files(self):
        self.start()
        found = set()
        for view in VIEWS:
            status, headers, body = self.ask(view)
            self.assertEqual(status, 200)
            self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
            self.assertEqual(headers["Cache-Control"], "no-cache")
            found |= set(re.findall(rb'"(/assets/[^"]+)"', body))
            for name, wanted in (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
                                 ("Cross-Origin-Resource-Policy", "same-origin")):
                self.assertEqual(headers[name], wanted)
            policy = headers["Content-Security-Policy"]
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';"))
            self.assertNotIn("unsafe", policy)
        self.assertGreater(len(found), 3)
        for path in sorted(found):
            status, headers, plain = self.ask(path.decode())
            self.assertEqual(status, 200, path)
            self.assertIn("immutable", headers["Cache-Control"])
            status, packed, body = self.ask(path.decode(), {"Accept-Encoding": "br, gzip"})
            self.assertEqual(packed["Content-Encoding"], "gzip")
            self.assertEqual(gzip.decompress(body), plain)
            name = os.path.join(harness.SOURCE, "exporter", "pages", "web", os.path.basename(path.decode()))
            with open(name, "rb") as file:
                self.assertEqual(file.read(), plain)
            status, again, body = self.ask(path.decode(), {"If-None-Match": headers["ETag"]})
            self.assertEqual((status, body), (304, b""))
            status, _, body = self.ask(path.decode(), {"Accept-Encoding": "gzip;q=0"})
            self.assertEqual(body, plain)
        folder, name = os.path.split(min(found).decode())
        for path in (folder, folder + "/", folder[:-1] + "/" + name, folder + "0/" + name, "/assets/" + name,
                     folder + "/../../pages.h", "/assets/", "/assets/../pages.h", "/assets/index.htm", "/etc/passwd", "/api", "//"):
            self.assertEqual(self.ask(path)[0], 404, path)

    def test_both_families_and_the_socket(self):
        self.start()
        for connection in (self.tcp(), http.client.HTTPConnection("::1", self.port, timeout=10),
                           Unix(self.socket)):
            try:
                status, _, body = self.ask("/api/traces", connection=connection)
            except OSError as error:
                if connection.host != "::1":
                    raise
                continue  # a node without IPv6
            self.assertEqual((status, json.loads(body)["traces"]), (200, []))
        self.assertEqual(os.stat(self.socket).st_mode & 0o777, 0o600)

    def test_hosts(self):
        self.start(pages={"allowed_hosts": ["node1.example"]})
        for host, wanted in (("localhost", 200), ("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200),
                             ("node1.example", 200), ("evil.example", 421), ("localhost.evil.example", 421),
                             ("", 421)):
            for path in ("/", "/api/status"):
                self.assertEqual(self.ask(path, {"Host": host})[0], wanted, host)
        self.assertIn("allowed_hosts", self.problem("/", 421, headers={"Host": "evil.example"}))
        self.assertEqual(self.ask("/", {"Host": "anything"}, Unix(self.socket))[0], 200)

    def test_what_is_not_asked_for(self):
        self.start()
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            status, headers, _ = self.ask("/api/status", method=method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        status, headers, body = self.ask("/api/status", method="HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertEqual(self.problem("/api/flame", colour="red"),
                         "colour is not asked for here: see docs/api.md")
        self.assertEqual(self.problem("/api/flame", from_="soon"),
                         "from is not a time in Unix milliseconds, or before now, like -1h")
        self.assertEqual(self.problem("/api/trace"), "trace_id is missing")
        self.assertEqual(self.problem("/api/flame?service=%ff"),
                         "service is not text in UTF-8, of at most 16 KiB")
        self.assertEqual(self.problem("/api/flame?service=a%00b"),
                         "service is not text in UTF-8, of at most 16 KiB")
        self.assertEqual(self.problem("/api/trace", 404, trace_id="ab" * 16),
                         "this trace is not kept here")
        for path in QUESTIONS:
            if path != "/api/status":
                self.assertEqual(self.ask(path, from_="-1h", service="shop")[0], 200, path)

    def test_heads(self):
        """Answered from the request alone: nobody waits, and the store is not asked."""
        self.start()
        begun = time.monotonic()
        for path in QUESTIONS + ("/flame.pb.gz", "/v1development/profiles", "/debug/pprof/profile?seconds=600",
                                 "/api/trace?trace_id=" + "ab" * 16):
            with socket.create_connection(("127.0.0.1", self.port), 20) as peer:
                peer.sendall(b"HEAD %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
                answer = b"".join(iter(lambda: peer.recv(65536), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
            self.assertEqual(answer.index(b"\r\n\r\n"), len(answer) - 4)
            for name in (b"Content-Length", b"Transfer-Encoding", b"Spanprof-Cursor"):
                self.assertNotIn(name, answer, path)
            self.assertIn(b"Content-Type: %s" % (b"image/svg" if path == "/flame.svg" else b""), answer)
        self.assertLess(time.monotonic() - begun, 10 * harness.SLOWNESS)
        for path, wanted in (("/api/trace", 400), ("/api/flame?colour=red", 400), ("/api/none", 404)):
            self.assertEqual(self.ask(path, method="HEAD")[0], wanted, path)
        self.assertEqual(self.ask("/", {"Host": "evil.example"}, method="HEAD")[0], 421)
        sheet = re.search(rb'"(/assets/[^"]+/app.css)"', self.ask("/")[2]).group(1).decode()
        status, headers, body = self.ask(sheet, method="HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertEqual(int(headers["Content-Length"]), len(self.ask(sheet)[2]))

    def test_token(self):
        file = os.path.join(self.directory, "token")
        self.put(file, TOKEN + "\n")
        spanprof = self.start(pages={"auth": {"token_file": file}})
        bearer = {"Authorization": "Bearer " + TOKEN}
        self.assertEqual(self.ask("/")[0], 200)  # files are the same everywhere
        for headers in ({}, {"Authorization": "Bearer " + TOKEN[:-1]}, {"Authorization": TOKEN}):
            status, answer, _ = self.ask("/api/status", headers)
            self.assertEqual((status, answer["WWW-Authenticate"]), (401, 'Bearer realm="spanprof"'))
        self.assertEqual(self.ask("/api/status", bearer)[0], 200)
        self.assertEqual(self.ask("/api/status", {}, Unix(self.socket))[0], 200)
        self.put(file, "another-token-0123456789")
        os.kill(spanprof.supervisor, signal.SIGHUP)
        harness.wait_until(lambda: self.ask("/api/status", bearer)[0] == 401, 10, "the new token counts")
        self.assertEqual(self.ask("/api/status",
                                  {"Authorization": "Bearer another-token-0123456789"})[0], 200)

    def test_token_by_default(self):
        """Nothing about it is configured: one is made, and only who may read the store can have it."""
        spanprof = self.start(pages={"auth": {}})
        made = os.path.join(spanprof.store, "pages.token")
        with open(made) as file:
            token = file.read().strip()
        self.assertEqual(os.stat(made).st_mode & 0o777, 0o640)
        self.assertEqual(self.ask("/")[0], 200)
        self.assertEqual(self.ask("/api/status")[0], 401)
        self.assertEqual(self.ask("/debug/pprof/profile?seconds=0")[0], 401)
        basic = base64.b64encode(b"anyone:" + token.encode()).decode()
        for authorization in ("Bearer " + token, "Basic " + basic):
            self.assertEqual(self.ask("/api/status", {"Authorization": authorization})[0], 200)
        code, address, _ = harness.run_spanprof("pages", "--socket", self.socket)
        self.assertEqual((code, address), (0, "http://localhost:%d/#token=%s\n" % (self.port, token)))
        for connection in (None, Unix(self.socket)):  # the port tells nobody
            status, _, body = self.ask("/api/address", {"Authorization": "Bearer " + token}, connection)
            self.assertEqual(status, 200 if connection else 404, body)
        self.assertNotIn(token, spanprof.log())
        spanprof.kill_service()
        self.assertEqual(self.ask("/api/status", {"Authorization": "Bearer " + token})[0], 200)

    def put(self, path, text):
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def test_from_elsewhere(self):
        certificates = os.path.join(self.directory, "certificates")
        os.mkdir(certificates)
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), certificates],
                       check=True)
        tls = {"cert_file": os.path.join(certificates, "server.crt"),
               "key_file": os.path.join(certificates, "server.key")}
        port = harness.free_port()
        self.start(pages={"endpoint": "0.0.0.0:%d" % port, "auth": {"token": TOKEN}, "tls": tls})
        context = ssl.create_default_context(cafile=os.path.join(certificates, "ca.crt"))
        for headers, wanted in (({}, 401), ({"Authorization": "Bearer " + TOKEN}, 200)):
            connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
            self.assertEqual(self.ask("/api/status", headers, connection)[0], wanted)
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.ask("/", connection=plain)
        plain.close()

    def test_reload_and_restart(self):
        spanprof = self.start()
        other = harness.free_port()
        spanprof.config["extensions"]["pages"]["endpoint"] = "localhost:%d" % other
        with open(spanprof.config_path, "w") as file:
            json.dump(spanprof.config, file)
        os.kill(spanprof.supervisor, signal.SIGHUP)
        self.port = other
        harness.wait_until(self.answers, 15, "the other port answers")
        self.assertEqual(self.ask("/", connection=Unix(self.socket))[0], 200)
        spanprof.kill_service()
        self.assertTrue(self.answers())
        self.stop_spanprof(spanprof)
        self.assertFalse(os.path.exists(self.socket))

    def reload(self, spanprof, config):
        with open(spanprof.config_path, "w") as file:
            json.dump(config, file)
        os.kill(spanprof.supervisor, signal.SIGHUP)

    def test_the_socket_goes_with_the_pages(self):
        """When they are taken out of the configuration, move, or come with one that is not taken."""
        spanprof = self.start()
        with_pages = spanprof.config
        moved, without = json.loads(json.dumps(with_pages)), json.loads(json.dumps(with_pages))
        elsewhere = os.path.join(self.directory, "elsewhere.sock")
        moved["extensions"]["pages"]["socket"] = elsewhere
        del without["extensions"]["pages"]
        without["service"]["extensions"].remove("pages")
        for config, there in ((moved, (False, True)), (without, (False, False)), (with_pages, (True, False))):
            self.reload(spanprof, config)
            harness.wait_until(lambda: (os.path.exists(self.socket), os.path.exists(elsewhere)) == there,
                               15, "the paths are as they should be")
        harness.wait_until(self.answers, 15, "the pages are back")
        self.assertEqual(self.ask("/", connection=Unix(self.socket))[0], 200)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            moved["service"]["telemetry"]["metrics"] = {"address": "127.0.0.1:%d" % taken.getsockname()[1]}
            self.reload(spanprof, moved)
            harness.wait_until(lambda: "is not taken" in spanprof.log(), 15, "a refusal")
        self.assertFalse(os.path.exists(elsewhere))
        self.assertEqual(self.ask("/", connection=Unix(self.socket))[0], 200)

    def test_the_socket_of_another_stays(self):
        """Who has taken the path over since keeps it."""
        spanprof = self.start()
        os.unlink(self.socket)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.socket)
            inode = os.stat(self.socket).st_ino
            self.stop_spanprof(spanprof)
            self.assertEqual(os.stat(self.socket).st_ino, inode)
            os.unlink(self.socket)

    def answers(self):
        try:
            return self.ask("/api/status")[0] == 200
        except OSError:
            return False


class Hostile(Pages):
    def test_large_heads(self):
        self.start()
        statuses = set()
        for size in (20000, 40000, 200000):
            try:
                statuses.add(self.ask("/api/flame?service=" + "x" * size)[0])
            except (OSError, http.client.HTTPException):
                statuses.add(0)  # cut
        self.assertLessEqual(statuses, {0, 400, 413, 414, 431})
        many = "&".join("attribute=a%d=b" % i for i in range(200))
        self.assertEqual(self.problem("/api/flame?" + many), "more than 64 parameters")
        self.assertEqual(self.ask("/api/status")[0], 200)

    def test_bodies_are_not_taken(self):
        self.start()
        with socket.create_connection(("127.0.0.1", self.port), 10) as peer:
            peer.sendall(b"POST /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n")
            peer.settimeout(10)
            try:
                for _ in range(200):
                    peer.sendall(b"x" * 10000)
            except OSError:
                pass
        self.assertEqual(self.ask("/api/status")[0], 200)

    def test_many_connections(self):
        """Beyond the limit idle ones give way, each counted; who asks is served all the while."""
        spanprof = self.start()
        peers = [socket.create_connection(("127.0.0.1", self.port), 10) for _ in range(100)]
        harness.wait_until(lambda: self.quiet_ask() == 200, 10, "a question among idle connections is answered")
        harness.wait_until(
            lambda: spanprof.metric("spanprof_pages_connections_crowded_out_total") >= 36, 10, "idle ones give way"
        )
        self.assertLessEqual(spanprof.metric("spanprof_pages_connections"), 64)
        self.assertEqual(spanprof.metric("spanprof_pages_connections_refused_total"), 0)
        for peer in peers:
            peer.close()
        self.assertEqual(self.ask("/v1/traces")[0], 404)

    def quiet_ask(self):
        try:
            return self.ask("/api/status")[0]
        except (OSError, http.client.HTTPException):
            return 0

    def test_more_questions_than_wait(self):
        """Each is answered: 200, or 503 with a word when to come again. Then all is well again."""
        self.start()
        peers = []
        for _ in range(60):
            peer = socket.create_connection(("127.0.0.1", self.port), 20)
            peer.sendall(b"GET /api/flame?from=-24h HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            peers.append(peer)
        statuses = []
        for peer in peers:
            answer = b""
            while True:
                data = peer.recv(65536)
                if not data:
                    break
                answer += data
            peer.close()
            statuses.append(int(answer.split(b" ", 2)[1]))
            if statuses[-1] == 503:
                self.assertIn(b"Retry-After: 1", answer)
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertGreater(statuses.count(200), 20)
        self.assertEqual(self.ask("/api/status")[0], 200)

    def test_hostile_names(self):
        """Whatever spans are called: valid JSON without markup, and the same names again."""
        spanprof = self.start()
        names = {"<script>alert(1)</script>", "</script><!--", "x" * 10000, "\u202eevil\u202c \u2066rtl\u2069",
                 "quote\" back\\slash ' & \u2028", "\u00e4\U0001f525", "tab\tnewline\n", "?q=%3Cb%3E&a=b"}
        client = sender.GrpcSender(spanprof.grpc_address)
        for name in names:
            request, spans = sender.new_request({"service.name": name})
            sender.add_span(spans, name, attributes={name: name, "http.route": name})
            body = request.SerializeToString()
            client.send(body)
            broken = body.replace(name[:3].encode(), b"\xff\xfe" + name[:3].encode()[2:])
            client.status(broken)  # refused, or taken with other names
        harness.wait_until(lambda: len(self.json("/api/traces")["traces"]) >= len(names),
                           20, "traces are kept")
        for path in ("/api/traces", "/api/values?of=service", "/api/values?of=span", "/api/status"):
            status, _, body = self.ask(path)
            self.assertEqual(status, 200)
            for character in "<>&'\u2028":
                self.assertNotIn(character.encode(), body, path)
            json.loads(body)
        for summary in self.json("/api/traces")["traces"]:
            status, _, body = self.ask("/api/trace", trace_id=summary["trace_id"])
            self.assertNotIn(b"<", body)
            self.assertEqual(json.loads(body)["spans"][0]["name"], summary["name"])
            found = self.json("/api/traces", span=summary["name"])["traces"]
            self.assertIn(summary["trace_id"], [other["trace_id"] for other in found])
            svg = self.ask("/flame.svg", span=summary["name"])[2]
            self.assertNotIn(b"<script", svg)
            xml.fromstring(svg)

    @unittest.skipUnless(harness.SOAK, "takes 30 s of waiting: with the soak tests")
    def test_slow_heads(self):
        spanprof = self.start()
        with socket.create_connection(("127.0.0.1", self.port), 60) as peer:
            begun = time.monotonic()
            try:
                for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 1000:
                    peer.sendall(bytes([byte]))
                    time.sleep(0.2)
                    if peer in select.select([peer], [], [], 0)[0]:
                        break
            except OSError:
                pass
            self.assertLess(time.monotonic() - begun, 45)
        self.assertGreater(spanprof.metric("spanprof_pages_timeouts_total"), 0)


if __name__ == "__main__":
    harness.main()
