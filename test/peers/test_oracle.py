# SPDX-License-Identifier: Apache-2.0
"""Stacks of real programs under load against what elfutils says of the same registers and memory (see
test/support/programs/oracle.c; docs/design/unwinding.md has the figures).

Programs that are missing are installed from Debian where that is possible, else skipped. A single one:
test_oracle.py Oracle.test_git
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import go_toolchain  # noqa: E402
from go_toolchain import SOURCE, Toolchain, VERSIONS  # noqa: E402

BUILD = os.environ["SPANPROF_BUILD_DIR"]
ORACLE = os.path.join(BUILD, "test", "oracle")
COMPARE = os.path.join(BUILD, "test", "eh_frame_compare")
LOADS = os.path.join(SOURCE, "test", "peers", "loads")
SMALL_LOADS = os.path.join(SOURCE, "test", "support", "loads")
AT_LEAST = 1000
ENOUGH = 1500
SECONDS_AT_MOST = 90

# Where elfutils goes wrong in Go programs: docs/design/unwinding.md says why.
GO = [name + suffix for suffix in ("", ".abi0") for name in (
    "runtime.systemstack", "runtime.asmcgocall", "runtime.morestack", "runtime.nanotime1", "runtime.walltime",
    "runtime.mcall", "runtime.mstart", "runtime.sigtramp")]


def install(package):
    """False: it cannot be had here."""
    if os.geteuid() or not shutil.which("apt-get"):
        return False
    return not subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package],
                              env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"), check=False,
                              capture_output=True, timeout=600).returncode


def shell(script, *arguments):
    return ["/bin/sh", "-ec", script, "sh", *arguments]


class Oracle(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="spanprof-oracle-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def program(self, name, package):
        where = os.environ["PATH"] + ":/usr/sbin:/usr/lib/postgresql/15/bin"
        if not shutil.which(name, path=where) and not install(package):
            self.skipTest("no " + name)
        return shutil.which(name, path=where) or self.skipTest("no " + name)

    def build(self, compiler, source, *arguments):
        output = os.path.join(self.directory, "load")
        subprocess.run([compiler, *arguments, "-o", output, os.path.join(LOADS, source)], check=True, timeout=300)
        return output

    def compare(self, label, command, explained=()):
        options = [option for function in explained for option in ("-e", function)]
        done = subprocess.run(
            [ORACLE, "-s", str(SECONDS_AT_MOST), "-n", str(AT_LEAST), "-u", str(ENOUGH), "-v", "5", *options, *command],
            check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.directory,
            encoding="utf-8", errors="replace", timeout=SECONDS_AT_MOST + 60)
        if done.returncode == 77:
            self.skipTest("no right to sample")
        start = max(done.stdout.find("FIGURE oracle"), 0)
        figure, counts = (done.stdout[start:].splitlines() + ["", ""])[:2]
        counts = ";".join(part for part in counts.split(";") if not part.endswith(" 0"))
        print("%s%-24s %s\n%-24s %s" % (done.stdout[:start], label, figure.partition(" identical ")[2], "", counts),
              flush=True)
        self.assertEqual(done.returncode, 0)

    # ---- interpreters and virtual machines ----

    def test_python(self):
        self.compare("python3", ["/usr/bin/python3", os.path.join(SMALL_LOADS, "sorting.py")])

    def test_perl(self):
        self.compare("perl", [self.program("perl", "perl"), os.path.join(SMALL_LOADS, "words.pl")])

    def test_shell(self):
        self.compare("bash", [self.program("bash", "bash"), os.path.join(SMALL_LOADS, "pipes.sh")])

    def test_node(self):
        self.compare("node", [self.program("node", "nodejs"), os.path.join(LOADS, "load.js")])

    def java(self, label, *options):
        java = self.program("java", "default-jdk-headless")
        self.compare(label, [java, *options, os.path.join(LOADS, "Load.java")])

    def test_java(self):
        self.java("java")

    def test_java_frame_pointers(self):
        self.java("java, frame pointers", "-XX:+PreserveFramePointer")

    # ---- tools ----

    def test_git(self):
        git = self.program("git", "git")
        self.compare("git", shell(
            'export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n'
            '$1 init -q . && for i in 1 2 3 4; do cp -r /usr/include/linux d$i && $1 add . && $1 commit -qm $i; done\n'
            'while :; do $1 repack -qadf --depth=50; $1 log -p --stat | cat >log; $1 blame d1/bpf.h >log; done', git))

    def test_sqlite3(self):
        sqlite3 = self.program("sqlite3", "sqlite3")
        self.compare("sqlite3", shell('$1 a.db <$2', sqlite3, os.path.join(LOADS, "load.sql")))

    def test_openssl(self):
        openssl = self.program("openssl", "openssl")
        self.compare("openssl", shell(
            'while :; do for what in rsa2048 ecdsap256 ecdhx25519 sha256 sha512 aes-128-gcm aes-256-cbc '
            'chacha20-poly1305; do $1 speed -seconds 1 -evp $what || $1 speed -seconds 1 $what; done; done', openssl))

    def test_xz(self):
        xz = self.program("xz", "xz-utils")
        self.compare("xz", shell('while :; do cat /usr/bin/* | $1 -6 | $1 -dc >/dev/null; done', xz))

    def test_ffmpeg(self):
        ffmpeg = self.program("ffmpeg", "ffmpeg")
        self.compare("ffmpeg", [ffmpeg, "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=640x480", "-f", "lavfi", "-i",
                                "sine", "-c:v", "libx264", "-c:a", "aac", "-f", "null", "-"])

    def compiler(self, label, compiler):
        self.compare(label, shell('while :; do $1 -std=c++17 -O2 -g -c -o load.o $2; done', compiler,
                                  os.path.join(LOADS, "load.cpp")))

    def test_cc1plus(self):
        self.compiler("gcc's cc1plus", self.program("g++", "g++"))

    def test_clang(self):
        self.compiler("clang", self.program("clang++-14", "clang-14"))

    # ---- servers ----

    def test_nginx(self):
        nginx, ab = self.program("nginx", "nginx-light"), self.program("ab", "apache2-utils")
        with open(os.path.join(self.directory, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write("daemon off; user root; worker_processes 2; pid nginx.pid; error_log stderr;\n"
                       "events {}\nhttp { access_log off; gzip on; gzip_types *; ssi on;\n"
                       "server { listen 127.0.0.1:8931; root /usr/include; location /x { return 204; }\n"
                       "location / { autoindex on; sub_filter include INCLUDE; } } }\n")
        self.compare("nginx, ab", shell(
            '$1 -p $PWD -c nginx.conf & sleep 1\n'
            'while :; do for at in x stdio.h linux/; do $2 -q -k -c 8 -n 2000 -H "Accept-Encoding: gzip" '
            'http://127.0.0.1:8931/$at; done; done', nginx, ab))

    def test_haproxy(self):
        haproxy, ab = self.program("haproxy", "haproxy"), self.program("ab", "apache2-utils")
        with open(os.path.join(self.directory, "haproxy.cfg"), "w", encoding="utf-8") as file:
            file.write("defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 9s\n"
                       "frontend f\n bind 127.0.0.1:8932\n default_backend b\nbackend b\n server s 127.0.0.1:8933\n"
                       "frontend g\n bind 127.0.0.1:8933\n http-request return status 200 content-type text/plain "
                       "lf-string '%[src] %[path,url_dec,lower,sha2(256),hex]'\n")
        self.compare("haproxy, ab", shell('$1 -f haproxy.cfg & sleep 1\nwhile :; do $2 -q -c 8 -n 5000 '
                                          'http://127.0.0.1:8932/some/path; done', haproxy, ab))

    def test_redis(self):
        redis = self.program("redis-server", "redis-server")
        bench = self.program("redis-benchmark", "redis-tools")
        self.compare("redis", shell('$1 --port 8934 --save "" & sleep 1\n'
                                    'while :; do $2 -p 8934 -q -n 20000 -r 1000 -d 100 -P 4; done', redis, bench))

    def test_postgres(self):
        initdb, postgres = self.program("initdb", "postgresql"), self.program("postgres", "postgresql")
        pgbench = os.path.join(os.path.dirname(os.path.realpath(initdb)), "pgbench")
        os.chmod(self.directory, 0o777)
        as_user = "" if os.geteuid() else "setpriv --reuid=postgres --regid=postgres --clear-groups"
        self.compare("postgres, pgbench", shell(
            'as="$4"; data=$PWD/data; socket=$PWD\n$as $1 -D $data -A trust >/dev/null\n'
            '$as $2 -D $data -k $socket -c listen_addresses= & sleep 3\n'
            '$as $3 -h $socket -i -q -s 2 postgres\n'
            'while :; do $as $3 -h $socket -c 4 -T 5 postgres; $as $3 -h $socket -S -c 2 -T 3 postgres; done',
            initdb, postgres, pgbench, as_user))

    # ---- compiled here ----

    def cpp(self, label, *options):
        self.compare(label, [self.build(self.program("g++", "g++"), "load.cpp", "-std=c++17", *options)])

    def test_cpp(self):
        self.cpp("C++ -O2", "-O2")

    def test_cpp_static(self):
        self.cpp("C++ -O3, static", "-O3", "-static")

    def test_cpp_debug(self):
        self.cpp("C++ -O0", "-O0")

    def test_musl_static(self):
        musl = self.program("musl-gcc", "musl-tools")
        self.compare("C, static, musl", [self.build(musl, "load.c", "-O2", "-static")])

    def test_rust(self):
        rustc = self.program("rustc", "rustc")
        self.compare("rust, release", [self.build(rustc, "load.rs", "--edition=2021", "-O")])

    def test_rust_stripped(self):
        rustc = self.program("rustc", "rustc")
        self.compare("rust, stripped, panic=abort", [self.build(
            rustc, "load.rs", "--edition=2021", "-O", "-Cpanic=abort", "-Cstrip=symbols")])

    # ---- Go ----

    def versions(self):
        """Those that can be had, if any."""
        found = []
        for version in VERSIONS:
            try:
                found.append(Toolchain(version))
            except go_toolchain.Missing as missing:
                print(missing)
        return found or self.skipTest("no toolchain at all")

    def test_go_rows(self):
        """Without running anything: each row of the runtime's table against what Go tells debuggers."""
        for toolchain in self.versions():
            for name, arguments in (("exe", ()), ("pie", ("-buildmode=pie",))):
                if arguments and int(toolchain.version.split(".")[1]) < 18:
                    continue  # relocations fill their tables
                program = toolchain.build("load", "rows-" + name, "-ldflags=-compressdwarf=false", *arguments,
                                          CGO_ENABLED="0")
                with self.subTest(version=toolchain.version, variant=name):
                    done = subprocess.run([COMPARE, "-g", program], check=False, capture_output=True, text=True,
                                          timeout=120)
                    print("go %s %s: %s" % (toolchain.version, name, done.stdout.strip()), flush=True)
                    self.assertEqual(done.returncode, 0)
                    self.assertGreater(int(re.search(r"(\d+) rows", done.stdout).group(1)), 10000)

    def test_go(self):
        for toolchain in self.versions():
            with self.subTest(version=toolchain.version):
                self.compare("go " + toolchain.version, [toolchain.build("load", "exe", CGO_ENABLED="0")], GO)

    def go(self, label, *arguments, **variables):
        toolchain = self.versions()[-1]
        name = label.replace(" ", "-").replace(",", "")
        self.compare("go %s, %s" % (toolchain.version, label),
                     [toolchain.build("load", name, *arguments, **variables)], GO)

    def test_go_pie(self):
        self.go("PIE", "-buildmode=pie", CGO_ENABLED="0")

    def test_go_cgo(self):
        self.go("cgo", CGO_ENABLED="1")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    sys.exit(77 if program.result.skipped and program.result.wasSuccessful() and
             len(program.result.skipped) == program.result.testsRun else not program.result.wasSuccessful())
