#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the targets of a libFuzzer build, several at a time, and keeps account of it.

A line of ledger.tsv: target, fingerprint of all code of ours that is linked into it, CPU seconds and inputs
that this very code has had without a finding. So fuzzing adds up over machines and days, and begins anew with
a change. The fingerprint is of the preprocessed text: comments do not count. SIGINT and SIGTERM end it, with what
was done until then in the account.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
LEDGER = os.path.join(HERE, "ledger.tsv")
SLICE_SECONDS = 300  # of the clock, then what was done is written down
MARGIN_SECONDS = 120  # that a slice may take longer: its last input, leak check
INTERRUPTED = 72  # what libFuzzer exits with then


def targets_of(build):
    directory = os.path.join(build, "test")
    return sorted(name[len("fuzz_"):] for name in os.listdir(directory)
                  if name.startswith("fuzz_") and os.access(os.path.join(directory, name), os.X_OK)
                  and os.path.isfile(os.path.join(directory, name)))


# ---- what code it is ----

class Fingerprints:
    def __init__(self, build):
        self.build = build
        with open(os.path.join(build, "compile_commands.json")) as file:
            self.units = {unit["file"]: unit for unit in json.load(file)}
        self.texts = {}

    def of(self, target):
        found = hashlib.sha256()
        for path in sorted(self.linked(target)):
            found.update(self.text_hash(path))
        return found.hexdigest()[:16]

    def linked(self, target):
        """Our files that the program was made of, by its debug information."""
        output = subprocess.run(["readelf", "--debug-dump=info", "--dwarf-depth=1",
                                 os.path.join(self.build, "test", "fuzz_" + target)],
                                capture_output=True, text=True, check=True).stdout
        names = {match.split(": ")[-1].strip() for match in re.findall(r"DW_AT_name +:(.*)", output)}
        return {name for name in names if name in self.units}

    def text_hash(self, path):
        if path not in self.texts:
            unit = self.units[path]
            command = shlex.split(unit["command"])
            command = command[:command.index("-o")] + ["-DNDEBUG", "-E", "-P", "-o", "-", path]
            text = subprocess.run(command, cwd=unit["directory"], capture_output=True, check=True).stdout
            self.texts[path] = hashlib.sha256(text.replace(SOURCE.encode(), b".")).digest()
        return self.texts[path]


# ---- the account ----

class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.rows = {}
        if os.path.exists(LEDGER):
            with open(LEDGER) as file:
                for line in file:
                    target, fingerprint, seconds, inputs = line.split()
                    self.rows[target] = (fingerprint, int(seconds), int(inputs))

    def of(self, target, fingerprint):
        row = self.rows.get(target)
        return row[1:] if row and row[0] == fingerprint else (0, 0)

    def add(self, target, fingerprint, seconds, inputs):
        with self.lock:
            had_seconds, had_inputs = self.of(target, fingerprint)
            self.rows[target] = (fingerprint, had_seconds + round(seconds), had_inputs + inputs)
            with open(LEDGER + ".new", "w") as file:
                for name, row in sorted(self.rows.items()):
                    file.write("%s\t%s\t%d\t%d\n" % (name, *row))
            os.rename(LEDGER + ".new", LEDGER)


# ---- fuzzing ----

class Running:
    """The programs that run, to be ended early."""
    ended = False
    processes = set()

    @classmethod
    def end(cls, *_):
        cls.ended = True
        for process in list(cls.processes):
            process.send_signal(signal.SIGINT)


def run_slice(build, target, seconds):
    """CPU seconds, inputs, and what was found: the end of the output, or None."""
    corpus = os.path.join(build, "corpus", target)
    os.makedirs(corpus, exist_ok=True)
    log = os.path.join(build, "fuzz_%s.log" % target)
    command = [os.path.join(build, "test", "fuzz_" + target), "-max_total_time=%d" % seconds, "-timeout=10",
               "-rss_limit_mb=2048", "-print_final_stats=1", "-artifact_prefix=%s/" % build, corpus,
               os.path.join(HERE, "corpus", target)]
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=build, start_new_session=True)
        Running.processes.add(process)
        timer = threading.Timer(seconds + MARGIN_SECONDS, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        Running.processes.discard(process)
        timer.cancel()
    with open(log, errors="replace") as file:
        text = file.read()
    inputs = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    found = None if process.returncode in (0, INTERRUPTED) and inputs else text[-4000:]
    return usage.ru_utime + usage.ru_stime, int(inputs.group(1)) if inputs else 0, found


def fuzz(args, ledger, target, fingerprint):
    """False: something was found."""
    left = args.seconds
    while left > 0 and not Running.ended:
        if args.due:
            left = args.due - ledger.of(target, fingerprint)[0]
            if left <= 0:
                break
        # a program that has just been started uses no CPU for a moment: no slices of a second
        seconds, inputs, found = run_slice(args.build, target, max(10, min(left, SLICE_SECONDS)))
        if found:
            print("== %s: FOUND\n%s" % (target, found), flush=True)
            return False
        ledger.add(target, fingerprint, seconds, inputs)
        print("== %s: %d CPU s, %d inputs" % (target, seconds, inputs), flush=True)
        left -= SLICE_SECONDS
    return True


def report(args, ledger, fingerprints):
    short = 0
    for target in args.targets:
        seconds, inputs = ledger.of(target, fingerprints[target])
        short += seconds < (args.due or 0)
        print("fuzz_%s_cpu %.1f min\nfuzz_%s_inputs %d" % (target, seconds / 60, target, inputs))
    if args.due:
        print("%d of %d targets had %g CPU minutes and more on this code" %
              (len(args.targets) - short, len(args.targets), args.due / 60))
    return short == 0


def arguments():
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all, unless named")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("--due", type=int, metavar="SECONDS",
                        help="instead: until this code has had so many CPU seconds, with those of former runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (default: one a CPU)")
    parser.add_argument("--report", action="store_true", help="only print what this code has had")
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    known = targets_of(args.build)
    args.targets = [target.removeprefix("fuzz_") for target in args.targets] or known
    for target in args.targets:
        if target not in known:
            parser.error("no fuzz target '%s'; there are: %s" % (target, " ".join(known)))
    return args


def main():
    args = arguments()
    ledger, code = Ledger(), Fingerprints(args.build)
    fingerprints = {target: code.of(target) for target in args.targets}
    clean = True
    if not args.report:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, Running.end)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            runs = [pool.submit(fuzz, args, ledger, target, fingerprints[target]) for target in args.targets]
            clean = all([run.result() for run in runs])
    enough = report(args, ledger, fingerprints)
    return 0 if clean and enough else 1


if __name__ == "__main__":
    sys.exit(main())
