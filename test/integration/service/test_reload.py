# SPDX-License-Identifier: Apache-2.0
"""SIGHUP: another configuration is taken without a refused request, or said to be wrong and not taken."""
import contextlib
import json
import os
import re
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import sender  # noqa: E402

NOT_TAKEN = "the changed configuration is not taken"


class Reload(harness.IntegrationTest):
    def reload(self, config=None, text=None):
        with open(self.sp.config_path, "w") as file:
            file.write(text or json.dumps(config))
        self.sp.process.send_signal(signal.SIGHUP)

    def wait_log(self, text, count=1):
        harness.wait_until(lambda: self.sp.log().count(text) >= count, 20,
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
        harness.wait_until(lambda: self.status(address) == status, 20, "%s answers %s" % (address, status))

    def test_under_load(self):
        self.sp = self.spanprof(sampler=harness.why_no_sampling() is None)
        load = sender.Load(self.sp.grpc_address)
        door = "127.0.0.1:%d" % harness.free_port()
        with_door, without = self.add_door(door), self.sp.config
        supervisor, services = self.sp.supervisor, []
        for config, status in ((with_door, 200), (without, None), (with_door, 200)):
            time.sleep(1)
            services.append(self.sp.service)
            before = load.count()
            self.reload(config)
            self.wait_door(door, status)
            harness.wait_until(lambda n=before: load.count() > n, 10, "the load goes on")
        time.sleep(1)
        load.stop()
        self.assertEqual(load.refused, 0)
        self.assertEqual(len(set(services + [self.sp.service])), 4)
        self.assertEqual((self.sp.supervisor, self.sp.process.poll()), (supervisor, None))
        self.backend.wait(lambda: load.acknowledged <= {span.span_id for span in self.backend.spans()},
                          20, "all acknowledged spans")
        if harness.why_no_sampling() is None:
            self.sp.wait_sampling()

    def map_ids(self):
        """Of the BPF maps that the supervisor holds."""
        ids = set()
        for name in os.listdir("/proc/%d/fdinfo" % self.sp.supervisor):
            try:
                with open("/proc/%d/fdinfo/%s" % (self.sp.supervisor, name)) as file:
                    ids.update(re.findall(r"^map_id:\s*(\d+)", file.read(), re.M))
            except OSError:
                continue
        return ids

    @staticmethod
    def cpu_seconds(pid):
        with open("/proc/%d/stat" % pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @harness.needs_sampling
    def test_sampling_goes_on(self):
        """The same sampler samples on; one with other settings is another."""
        self.sp = self.spanprof(over={"receivers": {"sampler": {"exclude": {"comms": ["nobody"]}}}})
        workload = self.workload("--mode", "duty", "--duty", "100", "--seconds", "120",
                                 "--span-ms", "100", endpoint=self.sp.http_address)
        self.sp.wait_sampling()
        maps = self.map_ids()
        self.assertTrue(maps)
        door = "127.0.0.1:%d" % harness.free_port()
        began, cpu_s = time.time_ns(), self.cpu_seconds(workload.pid)
        steps = ((self.add_door(door), 200), (self.sp.config, None), (self.add_door(door), 200))
        for count, (config, status) in enumerate(steps, 1):
            time.sleep(1)
            self.reload(config)
            self.wait_door(door, status)
            # A closed door is no sign yet: a reload while the service stops would replace this one.
            self.wait_log("sampling goes on as it was", count)
            self.assertEqual(self.map_ids(), maps)
        time.sleep(1)
        ended, cpu_s = time.time_ns(), self.cpu_seconds(workload.pid) - cpu_s
        time.sleep(0.5)
        workload.kill()
        self.backend.wait(lambda: self.sampled_until(workload.pid) > ended, 30, "its samples")
        sampled_s = sum(began < t < ended for t in self.sample_times(workload.pid)) / harness.FREQUENCY
        print("%.1f s with 3 reloads: %.2f s of CPU time, %.2f s of it sampled" % (
            (ended - began) / 1e9, cpu_s, sampled_s))
        self.assertGreater(sampled_s, 0.8 * cpu_s - 0.1)  # a second is missed if it begins anew
        faster = json.loads(json.dumps(self.sp.config))
        faster["receivers"]["sampler"]["frequency"] = 2 * harness.FREQUENCY
        self.reload(faster)
        harness.wait_until(lambda: self.map_ids() and not self.map_ids() & maps, 20, "it is loaded anew")

    def sample_times(self, pid):
        return [t for sample in self.backend.samples() if sample.resource.get("process.pid") == pid
                for t in sample.times]

    def sampled_until(self, pid):
        return max(self.sample_times(pid), default=0)

    def test_changed_once_more(self):
        """While the service stops for a change: the newest is taken, unless it is wrong."""
        self.sp = self.spanprof(sampler=False)
        doors = ["127.0.0.1:%d" % harness.free_port() for _ in range(3)]
        before = self.sp.service
        with self.pending_profiles_up():
            self.reload(self.add_door(doors[0]))
            self.wait_log("taking it")
            self.reload(self.add_door(doors[1]))
            self.wait_log("taking it", 2)
            self.reload(text="receivers: 1")
            self.wait_log(NOT_TAKEN)
            self.assertEqual(self.sp.service, before)
        self.wait_door(doors[1], 200)
        self.assertEqual(self.sp.log().count(": ready"), 2)
        self.assertIsNone(self.status(doors[0]))
        with self.pending_profiles_up():
            self.reload(self.add_door(doors[2]))
            self.wait_log("taking it", 3)
            self.reload(self.add_door(doors[1]))  # as it is: it comes back all the same
            self.wait_log("taking it", 4)
        self.wait_log(": ready", 3)
        self.wait_door(doors[1], 200)
        self.assertIsNone(self.status(doors[2]))

    @contextlib.contextmanager
    def pending_profiles_up(self):
        """The service does not stop for a while: a request is being received."""
        host, port = self.sp.http_address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
                               b"Content-Type: application/x-protobuf\r\n\r\nx")
            time.sleep(0.2)
            yield

    def test_exporter_by_its_other_name(self):
        """What waits for otlp_grpc is otlp's, and goes out."""
        self.sp = self.spanprof(sampler=False)
        self.backend.stop()
        body, ids = sender.request_of(10)
        self.assertEqual(sender.post(self.sp.http_address, body)[0], 200)
        config = json.loads(json.dumps(self.sp.config))
        config["exporters"]["otlp"] = config["exporters"].pop("otlp_grpc")
        config["service"]["pipelines"]["traces"]["exporters"] = ["otlp"]
        self.reload(config)
        self.wait_log(": ready", 2)
        self.backend.start()
        self.backend.wait(lambda: set(ids) <= {span.span_id for span in self.backend.spans()}, 20,
                          "they arrive")

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

    def test_what_cannot_be_read_holds_nobody(self):
        """As on a file system that does not answer: a pipe that nobody writes to."""
        self.sp = self.spanprof(sampler=False)
        service, door = self.sp.service, "127.0.0.1:%d" % harness.free_port()
        os.unlink(self.sp.config_path)
        os.mkfifo(self.sp.config_path)
        self.sp.process.send_signal(signal.SIGHUP)
        self.wait_log("not read within 10 s")
        self.wait_log(NOT_TAKEN)
        self.assertEqual((self.sp.service, self.status(self.sp.http_address)), (service, 200))
        os.unlink(self.sp.config_path)
        self.reload(self.add_door(door))
        self.wait_door(door, 200)

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
