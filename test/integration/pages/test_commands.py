# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a running spanprof, and record, which runs one of its own."""
import fcntl
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
import harness  # noqa: E402
import test_pages  # noqa: E402

PROGRAM = os.path.join(harness.BUILD, "spanprof")
BURN = ("import hashlib, time\n"
        "end = time.process_time() + %f\n"
        "x = b'a'\n"
        "while time.process_time() < end:\n"
        "    for _ in range(1000): x = hashlib.sha256(x * 20).digest()\n")


def run(*words, env=None, **more):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=90,
                          env=harness.environment(**(env or {})), **more)


def cgroups():
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        roots = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    return sorted(name for root in roots for name in os.listdir(root) if name.startswith("spanprof-record-"))


class Terminal:
    """A terminal of this size, in which the program runs."""

    def __init__(self, *words, rows=24, columns=100):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(PROGRAM, [PROGRAM, *words])
        self.shown = b""
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            return False
        self.shown += more
        return bool(more)

    def screen(self):
        """The lines of the last screen that is whole."""
        screens = self.shown.decode(errors="replace").split("\x1b[H")[1:]
        whole = [screen for screen in screens if re.search("q ends[^\r]*\r", screen)]
        return whole[-1].replace("\r", "").replace("\x1b[J", "").split("\n") if whole else []

    def wait(self, condition, what):
        end = time.monotonic() + 20 * harness.SLOWNESS
        while not condition(self.screen()):
            if time.monotonic() > end:
                raise AssertionError("not on the screen: %s\n%s" % (what, "\n".join(self.screen())))
            self.read(0.2)
        return self.screen()

    def press(self, key, heading):
        os.write(self.fd, key.encode())
        return self.wait(lambda lines: len(lines) > 3 and heading in lines[2], heading)

    def end(self, key="q"):
        os.write(self.fd, key.encode())
        end = time.monotonic() + 20 * harness.SLOWNESS
        while self.read(5 * harness.SLOWNESS):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class WrongLines(unittest.TestCase):
    def refused(self, *words, code=2, env=None):
        done = run(*words, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_flags(self):
        self.assertIn("--frm", self.refused("top", "--frm", "-1h"))
        self.assertIn("nothing behind --from", self.refused("top", "--from"))
        self.assertIn("too many arguments", self.refused("trace", "1", "2"))
        self.assertIn("record what?", self.refused("record", "-F", "10"))
        self.assertIn("1 to 1000", self.refused("record", "-F", "5000", "true"))
        self.assertIn("1 to 1000", self.refused("record", "-F", "x", "true"))
        self.assertIn("the name ends with what to write", self.refused("record", "-o", "x.png", "touch", "ran"))
        self.assertIn("one of them", self.refused("flame", "--json", "-o", "/nonexistent/x.svg"))
        self.assertIn("--by is function", self.refused("top", "--by", "colour"))
        self.assertIn("1 to 10000", self.refused("top", "--limit", "0"))
        self.assertIn("1 to 10000", self.refused("top", "--limit", "-3"))

    def test_nobody_listens(self):
        said = self.refused("traces", "--socket", "/nonexistent/socket", code=1)
        self.assertIn("/nonexistent/socket: no spanprof listens there", said)
        said = self.refused("traces", code=1, env={"SPANPROF_STATE_DIR": "/nonexistent"})
        self.assertIn("/nonexistent/spanprof.sock", said)
        said = self.refused("traces", code=1, env={"SPANPROF_SOCKET": "/nonexistent/other"})
        self.assertIn("/nonexistent/other", said)

    def test_help(self):
        for command in ("top", "traces", "trace", "flame", "status", "record"):
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Usage: spanprof %s" % command, done.stdout)
            self.assertIn("--socket PATH", done.stdout)
        self.assertIn("record", run("--help").stdout)


class Asking(test_pages.Shop):
    def command(self, *words, code=0):
        done = run(*words, "--socket", self.socket)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_from_the_slowest_trace_to_its_function(self):
        slowest = self.command("traces", "--service", "shop", "--from", self.begun).splitlines()[1]
        self.assertIn("GET /checkout", slowest)
        trace_id = [word for word in slowest.split() if len(word) == 32][0]
        waterfall = self.command("trace", trace_id)
        culprit = [line for line in waterfall.splitlines() if "render receipt" in line][0]
        self.assertIn("█", culprit)
        self.assertIn("glyph_advance", culprit)
        self.assertEqual(json.loads(self.command("trace", trace_id, "--json"))["trace_id"], trace_id)

        picture = os.path.join(self.directory, "trace.svg")
        self.command("flame", "--trace", trace_id, "-o", picture)
        self.assertIn("glyph_advance", "".join(xml.parse(picture).getroot().itertext()))
        folded = os.path.join(self.directory, "trace.folded")
        self.command("flame", "--trace=" + trace_id, "-o", folded)
        with open(folded, encoding="utf-8") as file:
            self.assertIn("render_receipt;", file.read())
        pprof = os.path.join(self.directory, "trace.pb.gz")
        self.command("flame", "--trace", trace_id, "-o", pprof)
        with gzip.open(pprof) as file:
            self.assertIn(trace_id.encode(), file.read())

        top = self.command("top", "--service", "shop").splitlines()
        self.assertIn("glyph_advance", top[3])
        for check in (self.tops_by_all_there_is, self.live_top, self.narrow_top):
            with self.subTest(check.__name__):
                check()

        self.assertIn("trace", self.command("trace", "0" * 31 + "1", code=1))
        self.assertIn("trace_id", self.command("trace", "zz", code=1))
        self.assertIn(".svg", self.command("flame", "-o", "x.png", code=1))
        self.assertIn("No such file", self.command("flame", "-o", "/nonexistent/x.svg", code=1))

    def tops_by_all_there_is(self):
        """What is printed is what the server answers; plain text where no terminal is."""
        since = ("--service", "shop", "--from", self.begun)
        for by, wanted in (("service", "shop"), ("span", "render receipt  shop"), ("thread", "demo_service"),
                           ("process", "demo_service  %d" % self.shop.pid), ("container", "(none)"),
                           ("host", socket.gethostname())):
            lines = self.command("top", "--by", by, *since).splitlines()
            self.assertIn(by.upper(), lines[2])
            self.assertTrue(any(line.endswith(wanted) for line in lines[3:]), lines)
            self.assertNotIn("\x1b", "".join(lines))
            answer = json.loads(self.command("top", "--by=" + by, "--json", *since))
            self.assertEqual(answer["by"], by)
            shares = [float(line.split()[0]) for line in lines[3:]]
            self.assertEqual(shares, sorted(shares, reverse=True))
        self.assertEqual(len(self.command("top", "--by", "thread", "--limit", "1", *since).splitlines()), 4)
        totals = self.totals(self.command("top", "--order", "total", *since).splitlines())
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertGreater(totals[0], 90)
        functions = json.loads(self.command("top", "--json", "--limit", "3", "--order", "total", *since))["functions"]
        self.assertEqual(len(functions), 3)
        self.assertIn("order", self.command("top", "--order", "latest", code=1))
        self.assertIn("glyph_advance", self.command("top", "--host", socket.gethostname(), *since))
        self.assertNotIn("glyph_advance", self.command("top", "--host", "elsewhere", *since))

    @staticmethod
    def totals(lines):
        return [float(shares[1]) for shares in (re.findall(r"([\d.]+) %", line) for line in lines[3:]) if shares[1:]]

    def live_top(self):
        """Keys say what is shown; the screen that was there comes back."""
        terminal = Terminal("top", "--socket", self.socket, "--service", "shop", "--from", self.begun)
        lines = terminal.wait(bool, "functions")
        self.assertIn("FUNCTION, MODULE", lines[2])
        self.assertTrue(any("glyph_advance" in line for line in lines[3:]), lines)
        for key, heading, wanted in (("s", "SERVICE", "shop"), ("n", "SPAN, SERVICE", "render receipt"),
                                     ("t", "THREAD", "demo_service"), ("p", "PROCESS", str(self.shop.pid)),
                                     ("c", "CONTAINER", "(none)"), ("h", "HOST", socket.gethostname()),
                                     ("f", "FUNCTION", "glyph_advance")):
            lines = terminal.press(key, heading)
            self.assertTrue(any(wanted in line for line in lines[3:]), (key, lines))
        self.assertIn("o order: self", lines[-1])
        os.write(terminal.fd, b"o")
        lines = terminal.wait(lambda lines: "o order: total" in lines[-1], "the order")
        self.assertEqual(self.totals(lines), sorted(self.totals(lines), reverse=True))
        self.assertEqual(terminal.end("\x1b[1;5sx\x1bOs\x1b[Aq"), 0)  # arrows and a letter that mean nothing
        self.assertTrue(terminal.shown.startswith(b"\x1b[?1049h"))
        self.assertTrue(terminal.shown.endswith(b"\x1b[?1049l"))
        interrupted = Terminal("top", "--socket", self.socket)
        interrupted.wait(bool, "anything")
        self.assertEqual(interrupted.end("\x03"), 0)
        self.assertTrue(interrupted.shown.endswith(b"\x1b[?1049l"))

    def narrow_top(self):
        """No line is longer than the terminal, and no screen higher, also when that changes."""
        terminal = Terminal("top", "--socket", self.socket, "--service", "shop", "--from", self.begun)
        for rows, columns in ((12, 100), (10, 79), (8, 55), (7, 30), (6, 20), (30, 120)):
            terminal.shown = terminal.shown[:8]
            terminal.resize(rows, columns)
            lines = terminal.wait(lambda lines: lines and len(lines[2].replace("\x1b[7m", "").replace("\x1b[0m", ""))
                                  == columns, "%d columns" % columns)
            plain = [line.replace("\x1b[7m", "").replace("\x1b[0m", "") for line in lines]
            self.assertLessEqual(max(map(len, plain)), columns)
            self.assertLessEqual(len(lines), rows)
            self.assertNotIn("\x1b", "".join(plain))
            self.assertIn("glyph_adv", plain[3])
        self.assertEqual(terminal.end(), 0)


class Elsewhere(unittest.TestCase):
    """What answers at the socket is no spanprof, or one that is started anew."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="spanprof-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.socket = os.path.join(self.directory, "socket")

    def answer(self, *answers, header=b""):
        """One to each who connects; then nobody listens."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket)
        listener.listen(4)
        listener.settimeout(20 * harness.SLOWNESS)

        def serve():
            for body in answers:
                peer, _ = listener.accept()
                with peer:
                    peer.recv(65536)
                    peer.sendall(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (header, len(body), body))
            listener.close()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join)

    def test_names_that_would_steer_a_terminal(self):
        evil = "a\x1b[2J\x9b31m\u202eb\r\nc\x07"
        functions = {"cpu_ns": 1e308, "samples": -1, "from_ms": 0, "to_ms": 1e308,
                     "functions": [{"function": evil, "module": evil, "self_ns": 1e308, "total_ns": -5}, 7, None]}
        trace = {"trace_id": evil, "duration_ns": 5, "spans": [
            {"name": evil, "known": True, "depth": 1e300, "top_function": evil, "busy": [[1, 2], 3, [1e308, 1e308]]},
            {"name": evil, "known": True, "depth": -1}]}
        traces = {"traces": [{"trace_id": evil, "service": evil, "name": evil, "top_function": evil}]}
        series = {"bucket_ms": 1, "series": [{"name": evil, "service": evil, "pid": 1e300, "cpu_ns": "x"}]}
        for words, body in ((("top",), functions), (("top", "--by", "span"), series), (("traces",), traces),
                            (("trace", "1"), trace)):
            self.answer(json.dumps(body).encode())
            done = run(*words, "--socket", self.socket)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("a?[2J", done.stdout)
            for character in done.stdout:
                self.assertTrue(character == "\n" or (character >= " " and character not in "\x7f\x9b\u202e"),
                                (words, done.stdout))
            os.unlink(self.socket)

    def test_the_rest_and_what_waits_are_said(self):
        series = {"from_ms": 0, "bucket_ms": 60000, "waiting_samples": 412, "series": [
            {"name": "GET /", "service": "shop", "cpu_ns": 2e9, "samples": 9, "buckets_ns": [2e9]},
            {"name": "", "service": "", "cpu_ns": 1e9, "samples": 5, "buckets_ns": [1e9]},
            {"name": "", "service": "", "others": True, "cpu_ns": 1e9, "samples": 5, "buckets_ns": [1e9]}]}
        self.answer(json.dumps(series).encode())
        lines = run("top", "--by", "span", "--socket", self.socket).stdout.splitlines()
        self.assertIn("19 samples; 412 on this node still wait for their span", lines[0])
        self.assertEqual([line.split("  ")[-1].strip() for line in lines[-2:]], ["(none)", "(all others)"])

    def test_what_is_not_whole_is_said(self):
        picture = os.path.join(self.directory, "x.svg")
        for words, body, header in ((("top",), b'{"functions": [], "complete": %s}', b""),
                                    (("top", "--by", "span"), b'{"series": [], "complete": %s}', b""),
                                    (("traces",), b'{"traces": [], "complete": %s}', b""),
                                    (("trace", "1"), b'{"spans": [], "complete": %s}', b""),
                                    (("flame", "-o", picture), b"%s", b"Spanprof-More: true\r\n")):
            for whole in (b"true", b"false"):
                self.answer(body % whole, header=b"" if whole == b"true" else header)
                done = run(*words, "--socket", self.socket)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual("incomplete" in done.stderr, whole == b"false", (words, done.stderr))
                self.assertEqual(done.stderr.count("\n"), int(whole == b"false"))
                os.unlink(self.socket)
        with open(picture, encoding="utf-8") as file:
            self.assertEqual(file.read(), "false")  # what was found

    def test_a_screen_says_that_it_is_not_whole(self):
        """In the line above the keys, which is empty else."""
        body = b'{"cpu_ns": 0, "samples": 77, "functions": [], "complete": %s}'
        self.answer(*[body % whole for whole in (b"true", b"true", b"false", b"false", b"true")])
        terminal = Terminal("top", "--socket", self.socket, columns=60)
        lines = terminal.wait(lambda lines: lines and "77 samples" in lines[0], "an answer")
        self.assertEqual((len(lines), lines[-2]), (5, ""))
        lines = terminal.wait(lambda lines: "incomplete" in lines[-2], "a sentence")
        self.assertIn("77 samples", lines[0])
        self.assertEqual((len(lines), len(lines[-2])), (5, 60))
        terminal.wait(lambda lines: lines[-2] == "", "an answer that is whole")
        self.assertEqual(terminal.end(), 0)

    def test_nobody_answers_for_a_while(self):
        """The screen says so, and goes on with the next answer."""
        empty = b'{"cpu_ns": 0, "samples": 77, "functions": []}'
        self.answer(empty, empty)
        terminal = Terminal("top", "--socket", self.socket)
        terminal.wait(lambda lines: lines and "no spanprof listens there" in lines[0], "a sentence")
        os.unlink(self.socket)
        self.answer(empty)
        lines = terminal.wait(lambda lines: "77 samples" in lines[0], "the next answer")
        self.assertIn("FUNCTION", lines[2])
        self.assertEqual(terminal.end(), 0)


class Record(unittest.TestCase):
    def setUp(self):
        if harness.why_no_sampling():
            self.skipTest(harness.why_no_sampling())
        self.directory = tempfile.mkdtemp(prefix="spanprof-test-")
        os.chmod(self.directory, 0o755)  # the service is not root
        self.addCleanup(shutil.rmtree, self.directory)
        self.output = os.path.join(self.directory, "record.svg")
        self.cgroups_before = cgroups()

    def record(self, *words, **more):
        return run("record", "-o", self.output, *words, env={"TMPDIR": self.directory}, **more)

    def assert_nothing_is_left(self):
        self.assertEqual([name for name in os.listdir(self.directory) if "record-" in name], [])
        self.assertEqual(cgroups(), self.cgroups_before)

    def test_the_command_and_its_children(self):
        burn = BURN % 1
        done = self.record("-F", "499", "--json", "--", "sh", "-c",
                           "%s -c \"$1\" & %s -c \"$1\"; wait; echo said; exit 7" % ("/usr/bin/python3", "/usr/bin/python3"),
                           "sh", burn)
        self.assertEqual(done.returncode, 7, done.stderr)
        first, answer = done.stdout.split("\n", 1)
        self.assertEqual(first, "said")
        answer = json.loads(answer)
        used = 2 + 0.05 * harness.SLOWNESS
        self.assertGreater(answer["cpu_ns"], 0.9 * 2e9)
        self.assertLess(answer["cpu_ns"], 1.15e9 * used + 0.3e9)
        self.assertTrue(any("libcrypto" in each["module"] for each in answer["functions"]))
        with open(self.output, encoding="utf-8") as picture:
            self.assertIn("</svg>", picture.read())
        self.assert_nothing_is_left()

    def test_a_command_that_tells_of_its_spans(self):
        """They go elsewhere, or nowhere; what ran in them is in the picture as all else."""
        workload = os.path.join(harness.BUILD, "test", "workload")
        done = self.record("-F", "499", "--json", "--", workload, "--seconds", "3", "--span-ms", "200")
        self.assertEqual(done.returncode, 0, done.stderr)
        *truth, answer = map(json.loads, done.stdout.splitlines())
        in_spans = sum(record["cpu_ns"] for record in truth if record["type"] == "span")
        self.assertGreater(in_spans, 0)
        self.assertGreater(answer["cpu_ns"], 0.9 * in_spans)
        with open(self.output, encoding="utf-8") as picture:
            self.assertIn("burn_", picture.read())
        self.assert_nothing_is_left()

    def test_long_commands_are_kept_whole(self):
        done = self.record("--", "sh", "-c", "cat $TMPDIR/spanprof-record-*/spanprof.yaml")
        retention, mib = re.search(r"history: {retention: (\w+), max_size_mib: (\d+)}", done.stdout).groups()
        free = os.statvfs(self.directory)
        half_mib = free.f_bavail * free.f_frsize / 2 / 2**20
        self.assertEqual(retention, "168h")
        self.assertGreaterEqual(int(mib), max(512, min(0.4 * half_mib, 524288)))
        self.assertNotIn("incomplete", done.stderr)

    def test_no_room_is_told(self):
        small = os.path.join(self.directory, "small")
        os.mkdir(small)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", small], check=True)
        done = run("record", "-o", self.output, "/usr/bin/python3", "-c", BURN % 1, env={"TMPDIR": small})
        self.assertRegex(done.stderr, r"incomplete: the oldest samples, \d+ times those of 5 s, had to go")

    def test_what_cannot_be_run(self):
        done = self.record("/nonexistent/program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("/nonexistent/program: No such file", done.stderr)
        self.assert_nothing_is_left()

    def test_what_cannot_be_written(self):
        """It is told before the command runs, and nothing of what is there is touched."""
        ran = os.path.join(self.directory, "ran")
        os.mkdir(os.path.join(self.directory, "directory.svg"))
        for output, why in (("nowhere/x.svg", "No such file"), ("directory.svg", "Is a directory")):
            self.output = os.path.join(self.directory, output)
            done = self.record("touch", ran)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("%s: %s" % (self.output, why), done.stderr)
        self.assertFalse(os.path.exists(ran))
        self.output = os.path.join(self.directory, "earlier.svg")
        with open(self.output, "w", encoding="utf-8") as file:
            file.write("earlier")
        done = self.record("cp", self.output, ran)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(ran, encoding="utf-8") as copy, open(self.output, encoding="utf-8") as picture:
            self.assertEqual((copy.read(), "</svg>" in picture.read()), ("earlier", True))
        self.output = os.path.join(self.directory, "new.svg")
        self.assertEqual(self.record("test", "!", "-e", self.output).returncode, 0)
        self.assert_nothing_is_left()

    def test_interrupted(self):
        """ctrl-C ends the command; what it did is told."""
        command = subprocess.Popen([PROGRAM, "record", "-o", self.output, "/usr/bin/python3", "-c", BURN % 60],
                                   stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=harness.environment(TMPDIR=self.directory))
        time.sleep(5 * harness.SLOWNESS)
        os.killpg(command.pid, signal.SIGINT)
        _, said = command.communicate(timeout=60)
        self.assertNotEqual(command.returncode, 0)
        self.assertIn("written: ", said)
        self.assert_nothing_is_left()

    def test_needs_root(self):
        done = self.record("true", user=65534)
        self.assertEqual(done.returncode, 1)
        self.assertIn("root", done.stderr)


if __name__ == "__main__":
    harness.main()
