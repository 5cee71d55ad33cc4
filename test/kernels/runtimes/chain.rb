# SPDX-License-Identifier: Apache-2.0
# Calls of known names for SECONDS of CPU time: outer, middle, inner, which works.
def inner(turns)
  total = 0
  turn = 0
  while turn < turns
    total += turn % 7
    turn += 1
  end
  total
end

def middle(turns)
  inner(turns) + 1
end

def outer(turns)
  middle(turns) + 1
end

last = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) + Float(ARGV[0])
outer(100_000) while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < last
