# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: another configuration is taken without a refused request, or said to be wrong and not taken."""
import json
import os
import signal
import socket
import time

import harness
import sender

NOT_TAKEN = "the changed configuration is not taken"


class Reload(harness.IntegrationTest):
    def reload(self, config=None, text=None):
        with open(self.sp.config_path, "w") as file:
            file.write(text or json.dumps(config))
        self.sp.process.send_signal(signal.SIGHUP)

    def wait_log(self, text, count=1):
        harness.wait_until(lambda: self.sp.log().count(text) >= count, 20 * harness.SLOWNESS,
                           "the log says %r %d times" % (text, count))

    def add_door(self, address):
        over = {"receivers": {"otlp/more": {"protocols": {"http": {"endpoint": address}}}},
                "service": {"pipelines": {"traces": {"receivers": ["otlp", "otlp/more"]}}}}
        return harness.merge(json.loads(json.dumps(self.sp.config)), over)

    def status(self, address):
        try:
            return sender.post(address, sender.request_of(1)[0])[0]
        except OSError:
            return None

    def wait_door(self, address, status):
        harness.wait_until(lambda: self.status(address) == status, 20 * harness.SLOWNESS,
                           "%s answers %s" % (address, status))

    def test_under_load(self):
        self.sp = self.spanprof(sampler=harness.why_no_sampling() is None)
        load = sender.Load(self.sp.grpc_address)
        door = "127.0.0.1:%d" % harness.free_port()
        with_door, without = self.add_door(door), self.sp.config
        keeper, services = self.sp.keeper, []
        for config, status in ((with_door, 200), (without, None), (with_door, 200)):
            time.sleep(1)
            services.append(self.sp.service)
            before = load.count()
            self.reload(config)
            self.wait_door(door, status)
            harness.wait_until(lambda n=before: load.count() > n, 10 * harness.SLOWNESS, "the load goes on")
        time.sleep(1)
        load.stop()
        self.assertEqual(load.refused, 0)
        self.assertEqual(len(set(services + [self.sp.service])), 4)
        self.assertEqual((self.sp.keeper, self.sp.process.poll()), (keeper, None))
        self.backend.wait(lambda: load.acknowledged <= {span.span_id for span in self.backend.spans()},
                          20 * harness.SLOWNESS, "all acknowledged spans")
        if harness.why_no_sampling() is None:
            self.sp.wait_sampling()

    def test_what_is_wrong_is_not_taken(self):
        self.sp = self.spanprof(sampler=False)
        service = self.sp.service
        self.reload(text="receivers: {otlp: {protocols: {grpc: {endpoynt: x}}}}")
        self.wait_log(NOT_TAKEN)
        self.assertIn("endpoynt", self.sp.log())
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.reload(self.add_door("127.0.0.1:%d" % taken.getsockname()[1]))
            self.wait_log(NOT_TAKEN, 2)
        self.assertIn("the port is in use", self.sp.log())
        self.reload(self.sp.config)  # as it was: nothing is started anew
        time.sleep(0.5)
        self.assertEqual(self.sp.service, service)
        self.assertEqual(self.status(self.sp.http_address), 200)

    def test_what_does_not_start_is_taken_back(self):
        self.sp = self.spanprof(sampler=False)
        broken = os.path.join(self.directory, "broken.pem")
        with open(broken, "w") as file:
            file.write("no certificate")
        config = self.add_door("127.0.0.1:%d" % harness.free_port())
        config["receivers"]["otlp/more"]["protocols"]["http"]["tls"] = {"cert_file": broken,
                                                                        "key_file": broken}
        self.reload(config)
        self.wait_log("going back")
        self.wait_door(self.sp.http_address, 200)
        self.reload(self.add_door(self.sp.http_address.rsplit(":", 1)[0] + ":%d" % harness.free_port()))
        self.wait_log("ready", 3)


if __name__ == "__main__":
    harness.main()
