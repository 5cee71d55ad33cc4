# SPDX-License-Identifier: Apache-2.0
# Two threads that call and return all the time, by methods, blocks and a method in C.
def hot(x)
  y = x
  y += 1 while y % 7 != 3
  deeper(y)
end

def deeper(x)
  x * 3 % 1001
end

def each_hot(n)
  [1, 2, 3].each { |x| n = hot(n + x) }
  n
end

def by_block
  i = 1
  i = each_hot(i) while true
end

def by_call
  i = 1
  i = hot(i) while true
end

%i[by_block by_call].each do |way|
  Thread.new do
    Thread.current.name = way.to_s
    send(way)
  end
end
$stdout.write("ready\t2\n")
$stdout.flush
sleep
