// SPDX-License-Identifier: Apache-2.0
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.concurrent.ThreadFactory;

/**
 * A few threads that serve requests one after the other, as a servlet container's do: each is a
 * server span with work of its own, and a child span with more. A line of standard input has them
 * serve: "THREADS REQUESTS MILLISECONDS [virtual]"; then "done" is printed. For each request a line
 * tells its truth: "request TRACE ROOT CHILD", and the CPU time within, in ns, of root and child (0
 * for virtual threads).
 */
final class Requests {
  private static volatile long sink;
  private final Tracer tracer = GlobalOpenTelemetry.getTracer("requests");
  private final long workNs;
  private final boolean virtual;

  private Requests(long workNs, boolean virtual) {
    this.workNs = workNs;
    this.virtual = virtual;
  }

  private static long burn(long until) {
    long sum = 0;
    while (System.nanoTime() < until) {
      for (int i = 0; i < 1000; i++) {
        sum += (long) i * i ^ sum;
      }
    }
    return sum;
  }

  private static void work(long ns) {
    sink += burn(System.nanoTime() + ns);
  }

  private static void query(long ns) {
    sink -= burn(System.nanoTime() + ns);
  }

  private long cpuNs() {
    return virtual ? 0 : ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  private void serve() {
    long began = cpuNs();
    Span root = tracer.spanBuilder("request").setSpanKind(SpanKind.SERVER).setNoParent().startSpan();
    String child;
    try (Scope scope = root.makeCurrent()) {
      work(workNs / 2);
      child = queried();
      work(workNs / 4);
    } finally {
      root.end();
    }
    System.out.println("request " + root.getSpanContext().getTraceId() + " "
        + root.getSpanContext().getSpanId() + " " + child + " " + (cpuNs() - began));
  }

  private String queried() {
    Span span = tracer.spanBuilder("query").setSpanKind(SpanKind.CLIENT).startSpan();
    try (Scope scope = span.makeCurrent()) {
      query(workNs / 4);
    } finally {
      span.end();
    }
    return span.getSpanContext().getSpanId();
  }

  private void run(int threads, int requests) throws Exception {
    Thread[] all = new Thread[threads];
    for (int i = 0; i < threads; i++) {
      Runnable serving = () -> {
        for (int n = 0; n < requests; n++) {
          serve();
          Thread.yield(); // a virtual thread may go on elsewhere
        }
      };
      all[i] = virtual ? virtualThreads().newThread(serving) : new Thread(serving);
      all[i].start();
    }
    for (Thread thread : all) {
      thread.join();
    }
    System.out.println("done");
  }

  /** By reflection: compiled for Java 17 as well. */
  private static ThreadFactory virtualThreads() throws Exception {
    Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
    return (ThreadFactory) Class.forName("java.lang.Thread$Builder").getMethod("factory").invoke(builder);
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    GlobalOpenTelemetry.get();
    System.out.println("ready");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.trim().split(" ");
      new Requests(Long.parseLong(words[2]) * 1_000_000, words.length > 3)
          .run(Integer.parseInt(words[0]), Integer.parseInt(words[1]));
    }
  }
}
