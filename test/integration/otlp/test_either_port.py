# SPDX-License-Identifier: Apache-2.0
"""The port for gRPC takes HTTP, and the port for HTTP takes gRPC, unless that would be a way around a token or TLS."""
import os
import socket
import subprocess
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

TOKEN = "a-token-0123456789"
AUTH = {"auth": {"authenticator": "bearertokenauth"}}
SILENT = 40  # connections to each port that say nothing


class EitherPort(harness.IntegrationTest):
    def instance(self, grpc_keys=None, http_keys=None, token=False):
        extensions = {"bearertokenauth": {"token": TOKEN}} if token else {}
        instance = self.spanprof(start=False, sampler=False, over={
            "receivers": {"otlp": {"protocols": {"grpc": grpc_keys or {}, "http": http_keys or {}}}},
            "extensions": extensions, "service": {"extensions": ["sqlite_storage", *extensions]}})
        instance.launch()
        self.listens(instance.grpc_address)
        self.listens(instance.http_address)
        instance.may_end = False
        return instance

    @staticmethod
    def listens(address):
        def connects():
            try:
                socket.create_connection(address.rsplit(":", 1), timeout=10).close()
                return True
            except OSError:
                return False
        harness.wait_until(connects, 15, "spanprof listens")

    def grpc_code(self, address, token=None):
        client = sender.GrpcSender(address)
        try:
            client.send(sender.request_of(1)[0], timeout=3, metadata=[("authorization", "Bearer " + token)] if token else [])
            return "OK"
        except grpc.RpcError as error:
            return error.code().name
        finally:
            client.close()

    def http_status(self, address, token=None):
        connection = sender.http.client.HTTPConnection(address, timeout=10)
        headers = {"Content-Type": "application/x-protobuf", **({"Authorization": "Bearer " + token} if token else {})}
        try:
            connection.request("POST", "/v1/traces", sender.request_of(1)[0], headers)
            return connection.getresponse().status
        except (OSError, sender.http.client.HTTPException):
            return None
        finally:
            connection.close()

    def test_spans_come_by_both(self):
        instance = self.instance()
        idle = [socket.create_connection(address.rsplit(":", 1)) for address in (instance.grpc_address, instance.http_address)
                for _ in range(SILENT)]
        sent = []
        for address in (instance.grpc_address, instance.http_address):
            client = sender.GrpcSender(address)
            body, ids = sender.request_of(3)
            client.send(body)
            client.close()
            sent += ids
            body, ids = sender.request_of(3)
            self.assertEqual(sender.post(address, body)[0], 200)
            sent += ids
        harness.wait_until(lambda: set(sent) <= {span.span_id for span in self.backend.spans()}, 20, "all spans arrive")
        for connection in idle:
            connection.close()

    def test_one_token_for_both(self):
        instance = self.instance(AUTH, AUTH, token=True)
        for address in (instance.grpc_address, instance.http_address):
            self.assertEqual((self.grpc_code(address), self.grpc_code(address, TOKEN)), ("UNAUTHENTICATED", "OK"))
            self.assertEqual((self.http_status(address), self.http_status(address, TOKEN)), (401, 200))

    def test_a_token_for_one(self):
        """The one that needs none does not take what came by the other."""
        instance = self.instance(AUTH, None, token=True)
        self.assertEqual(self.grpc_code(instance.grpc_address), "UNAUTHENTICATED")
        self.assertIsNone(self.http_status(instance.grpc_address))
        self.assertIsNone(self.http_status(instance.grpc_address, TOKEN))
        self.assertEqual(self.grpc_code(instance.http_address), "UNAVAILABLE")
        self.assertEqual(self.http_status(instance.http_address), 200)

    def test_tls_for_one(self):
        certificates = os.path.join(self.directory, "certificates")
        os.mkdir(certificates)
        subprocess.run([os.path.join(harness.BUILD, "test", "make_certificates"), certificates], check=True)
        keys = {"cert_file": certificates + "/server.crt", "key_file": certificates + "/server.key"}
        instance = self.instance(None, {"tls": keys})
        self.assertIsNone(self.http_status(instance.grpc_address))
        self.assertEqual(self.grpc_code(instance.grpc_address), "OK")
        self.assertIsNone(self.http_status(instance.http_address))
        self.assertEqual(self.grpc_code(instance.http_address), "UNAVAILABLE")


if __name__ == "__main__":
    harness.main()
