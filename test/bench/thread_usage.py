# SPDX-License-Identifier: Apache-2.0
"""Where the threads of a process spend their time, from /proc: which of them, or whether the disk, is at its limit.

CPU time and the wait for a CPU are exact (schedstat); waiting for the disk is seen 100 times a second (state D).
"""
import collections
import os
import threading
import time

LOOK_S = 0.01
FULL_PERCENT = 90  # of its time: nothing of it is left


class Share(collections.namedtuple("Share", "name cpu queue disk")):
    """In percent of the time: on a CPU, ready but without one, waiting for the disk."""

    @property
    def busy(self):
        return self.cpu + self.queue + self.disk


def _read(pid, tid, name):
    with open("/proc/%d/task/%d/%s" % (pid, tid, name)) as file:
        return file.read()


def _bytes_written(pid):
    with open("/proc/%d/io" % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_bytes:"))


def _cpu_idle():
    """Seconds that this machine's CPUs had nothing to do, or waited for the disk."""
    with open("/proc/stat") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


class ThreadUsage:
    """Looks at the threads that pid has now, until stop()."""

    def __init__(self, pid):
        self.pid = pid
        self.names = {tid: "loop" if tid == pid else _read(pid, tid, "comm").strip()
                      for tid in map(int, os.listdir("/proc/%d/task" % pid))}
        self.looks, self.at_disk = 0, collections.Counter()
        self.before = self._counters()
        self.stopped = threading.Event()
        self.watcher = threading.Thread(target=self._watch)
        self.watcher.start()

    def _counters(self):
        times = {tid: tuple(map(int, _read(self.pid, tid, "schedstat").split()[:2])) for tid in self.names}
        return time.monotonic(), times, _bytes_written(self.pid), _cpu_idle()

    def _watch(self):
        while not self.stopped.wait(LOOK_S):
            self.looks += 1
            for tid in self.names:
                self.at_disk[tid] += _read(self.pid, tid, "stat").rsplit(")", 1)[1].split()[0] == "D"

    def stop(self):
        after = self._counters()
        self.stopped.set()
        self.watcher.join()
        (began, times, written, idle), (ended, times_after, written_after, idle_after) = self.before, after
        percent = 100 / (ended - began)
        self.shares = sorted((Share(name, *((after - before) / 1e9 * percent
                                            for before, after in zip(times[tid], times_after[tid])),
                                    100 * self.at_disk[tid] / max(1, self.looks))
                              for tid, name in self.names.items()), key=lambda share: -share.busy)
        self.written_per_second = (written_after - written) / (ended - began)
        self.machine_percent = 100 - (idle_after - idle) * percent / os.cpu_count()

    def limit(self):
        """In words."""
        top = self.shares[0]
        of_top = "%s thread %.0f %% of a CPU, %.0f %% ready without one, %.0f %% waiting for the disk" % (
            top.name, top.cpu, top.queue, top.disk)
        if top.busy >= FULL_PERCENT and top.disk > top.cpu + top.queue:
            return "disk: " + of_top
        if top.busy >= FULL_PERCENT and top.cpu >= top.queue:
            return of_top
        if self.machine_percent >= FULL_PERCENT:
            return "this machine's CPUs, %.0f %% busy with all that runs here; %s" % (self.machine_percent, of_top)
        return "none of the threads; the busiest: " + of_top
