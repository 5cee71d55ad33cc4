# SPDX-License-Identifier: Apache-2.0
# Threads that spin, each at a place that it reaches in its own way; before, it has said by what
# frames: "NAME<TAB>LABEL<TAB>PATH<TAB>LINE" for each, the innermost first. NAME is the thread's.
# It is written when all have: writing lets the others spin for a while.
SAID = Queue.new

def said
  name = Thread.current.name
  frames = caller_locations(1).map { |at| "#{name}\t#{at.label}\t#{at.path}\t#{at.lineno}\n" }
  SAID.push(frames.join)
end

class Shop
  def self.open(item); new.render(item); end

  def render(item)
    [item].each { |one| layout(one) { |x| x } }
  end

  def layout(item)
    said; i = 0; i += 1 while item
  end

  define_method(:defined) { said; i = 0; i += 1 while true }
end

module Helper
  def helped; said; i = 0; i += 1 while true; end
end

class Shop::Corner
  include Helper
  class << self
    def built(*all, key: 1, **others, &block); all.map { |x| block.call(x) }; end
  end

  def <=>(other)
    said; i = 0; i += 1 while other
  end

  def method_missing(name, *args)
    said; i = 0; i += 1 while name
  end

  def respond_to_missing?(*); true; end
end

def by_method; said; i = 0; i += 1 while true; end
def by_class; Shop.open(1); end
def by_defined; Shop.new.defined; end
def by_module; Shop::Corner.new.helped; end
def by_sort; [Shop::Corner.new, Shop::Corner.new].sort; end
def by_times; 3.times { |x| [1].each_with_index { |y, z| said; i = 0; i += 1 while true } }; end
def by_eval; eval("said; i = 0; i += 1 while true", binding, "(made)", 77); end
def by_instance; Shop.new.instance_eval { said; i = 0; i += 1 while true }; end
def by_missing; Shop::Corner.new.anything(1); end
def by_send; Shop.new.public_send(:render, 2); end
def by_keywords; Shop::Corner.built(1, key: 2, other: 3) { |x| said; i = 0; i += 1 while x }; end
def by_lambda; ->(x) { said; i = 0; i += 1 while x }.call(1); end
def by_symbol; [Shop.new].map(&:defined); end
def by_gsub; "abc".gsub(/b/) { said; i = 0; i += 1 while true }; end
def by_hash; Hash.new { |h, k| said; i = 0; i += 1 while true }[1]; end

def by_rescue
  raise "no"
rescue StandardError
  begin
    said; i = 0; i += 1 while true
  ensure
    nil
  end
end

def by_ensure
  nil
ensure
  [1].each { said; i = 0; i += 1 while true }
end

def by_fiber
  Fiber.new { [1].map { |x| said; i = 0; i += 1 while x } }.resume
end

def by_enumerator
  made = Enumerator.new { |out| said; i = 0; i += 1 while out }
  made.next
end

def by_depth(n = 60)
  return by_depth(n - 1) if n.positive?
  said; i = 0; i += 1 while true
end

def by_long_code
  a = [1, 2, 3].map { |x| x + 1 }
  b = { a: a, b: [a, a], c: a.map { |x| x.to_s }, d: a.inspect, e: a.to_s + a.inspect }
  c = a.map { |x| x * 2 }.select(&:even?).map { |x| [x, x, x] }.flatten.sort.reverse.uniq
  d = b.map { |k, v| [k, v] }.to_h.keys.map(&:to_s).sort.join(",").split(",").map(&:to_sym)
  e = a.zip(c).flatten.compact.map { |x| x.to_i + 1 }.each_slice(2).to_a.flatten.sum.to_s * 2
  f = "#{a} #{b} #{c} #{d} #{e} #{a} #{b} #{c} #{d} #{e}".tr("a-z", "A-Z").squeeze.strip
  g = [a, b, c, d, e, f].map(&:class).map(&:name).map(&:downcase).map(&:to_sym).sort.first
  h = (1..9).each_with_object([]) { |x, out| out << x if x.odd? }.inject(:+).to_s.rjust(9, "0")
  k = [a.size, b.size, c.size, d.size, e.size, f.size, g.size, h.size].max.clamp(1, 10).pred.succ
  [k].each { |x| said; i = 0; i += 1 while x }
end

WAYS = private_methods(false).grep(/\Aby_/).sort
gate = Queue.new
WAYS.each do |way|
  Thread.new do
    Thread.current.name = way.to_s
    gate.pop
    send(way)
  end
end
WAYS.each { gate.push(1) }
$stdout.write(WAYS.map { SAID.pop }.join + "ready\t#{WAYS.size}\n")
$stdout.flush
sleep
