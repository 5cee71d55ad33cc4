# SPDX-License-Identifier: Apache-2.0
"""Receivers whose clients must send a token: the Collector's keys, over gRPC and HTTP, from a file that changes."""
import os
import signal
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

FIRST, SECOND, THIRD = "first-token-0123456789", "second-token-0123456789", "third-token-0123456789"


class Tokens(harness.IntegrationTest):
    def instance(self, auth):
        protocol = {"auth": {"authenticator": "bearertokenauth/senders"}}
        instance = self.spanprof(start=False, sampler=False, over={
            "receivers": {"otlp": {"protocols": {"grpc": protocol, "http": protocol}}},
            "extensions": {"bearertokenauth/senders": auth},
            "service": {"extensions": ["sqlite_storage", "bearertokenauth/senders"]}})
        instance.launch()
        harness.wait_until(lambda: self.answers(instance), 15, "spanprof serves")
        instance.may_end = False
        return instance

    def answers(self, instance):
        try:
            return self.http_answer(instance, None)[0] == 401
        except OSError:
            return False

    def grpc_code(self, instance, *headers):
        client = sender.GrpcSender(instance.grpc_address)
        try:
            client.send(sender.request_of(1)[0], metadata=[("authorization", header) for header in headers])
            return "OK"
        except grpc.RpcError as error:
            return error.code().name
        finally:
            client.close()

    def http_answer(self, instance, header, method="POST"):
        connection = sender.http.client.HTTPConnection(instance.http_address, timeout=10)
        headers = {"Content-Type": "application/x-protobuf"}
        if header:
            headers["Authorization"] = header
        connection.request(method, "/v1/traces", sender.request_of(1)[0], headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.getheader("WWW-Authenticate")

    def assert_only(self, instance, good, bad, scheme="Bearer"):
        for token in good:
            self.assertEqual(self.grpc_code(instance, scheme + " " + token), "OK")
            self.assertEqual(self.http_answer(instance, scheme + " " + token)[0], 200)
        for header in [None, "", "Basic " + FIRST, *(scheme + " " + token for token in bad)]:
            with self.subTest(header):
                self.assertEqual(self.grpc_code(instance, *([header] if header is not None else [])),
                                 "UNAUTHENTICATED")
                self.assertEqual(self.http_answer(instance, header), (401, "Bearer"))

    def test_one_token(self):
        instance = self.instance({"token": FIRST})
        self.assert_only(instance, [FIRST], [SECOND, FIRST[:-1], FIRST + "x", FIRST + ", Bearer " + SECOND])
        self.assertEqual(self.grpc_code(instance, "Bearer " + FIRST, "Bearer " + FIRST), "UNAUTHENTICATED")
        self.assertGreater(instance.metric("spanprof_grpc_server_calls_total", "unauthenticated"), 3)

    def test_several_and_a_scheme(self):
        instance = self.instance({"scheme": "Token", "tokens": [FIRST, SECOND]})
        self.assert_only(instance, [FIRST, SECOND], [THIRD], scheme="Token")

    def test_health_needs_none(self):
        instance = self.instance({"token": FIRST})
        channel = grpc.insecure_channel(instance.grpc_address)
        self.assertEqual(channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10), b"\x08\x01")
        channel.close()

    def test_file(self):
        """Read by the user who starts spanprof; again on SIGHUP; a file without tokens changes nothing."""
        directory = self.directory
        path = os.path.join(directory, "tokens")
        with open(path, "w") as file:
            file.write(FIRST + "\n" + SECOND + "\n")
        os.chmod(path, 0o600)
        instance = self.instance({"filename": path})
        self.assert_only(instance, [FIRST, SECOND], [THIRD])
        with open(path, "w") as file:
            file.write(THIRD + "\n")
        instance.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.grpc_code(instance, "Bearer " + THIRD) == "OK", 10, "the new token counts")
        self.assertEqual(self.grpc_code(instance, "Bearer " + FIRST), "UNAUTHENTICATED")
        with open(path, "w") as file:
            file.write("short\n")
        instance.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: "holds no tokens" in instance.log(), 10, "it is said")
        self.assertEqual(self.grpc_code(instance, "Bearer " + THIRD), "OK")


if __name__ == "__main__":
    harness.main()
