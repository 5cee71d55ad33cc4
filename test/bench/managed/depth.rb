# SPDX-License-Identifier: Apache-2.0
# Works below DEPTH calls, again and again.
def work
  sum = 0
  number = 0
  while number < 20_000
    sum += number & 7
    number += 1
  end
  sum
end

def descend(depth)
  return work if depth <= 1
  descend(depth - 1) + 1
end

depth = ARGV[0].to_i
descend(depth)
$stdout.sync = true
puts 'works'
descend(depth) while true
