/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stock program with the SDK's batch processor and OTLP/HTTP exporter: a pool of threads takes
 * jobs, each a span with spans inside, and hands a part of it to another pool. A number on stdin:
 * that many jobs, then "done". What had which thread when: $TRUTH/PID.
 */
#include "set_up.h"

#include "opentelemetry/exporters/otlp/otlp_http_exporter.h"
#include "opentelemetry/exporters/otlp/otlp_http_exporter_factory.h"
#include "opentelemetry/sdk/trace/batch_span_processor.h"
#include "opentelemetry/sdk/trace/batch_span_processor_options.h"

#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <deque>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <time.h>
#include <unistd.h>

static nostd::shared_ptr<trace::Tracer> tracer;
static FILE *truth;

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

static __attribute__((noinline)) void work()
{
    uint64_t x = 88172645463325252;
    for (int i = 0; i < 2000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        __asm__ volatile("" : "+r"(x));
    }
}

/* Uses CPU time for the thread's current span. */
static void burn(int milliseconds)
{
    auto span = trace::GetSpan(opentelemetry::context::RuntimeContext::GetCurrent())->GetContext();
    int64_t from = now_ns(CLOCK_REALTIME);
    int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + milliseconds * 1000000;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        work();
    char ids[100] = "", trace_id[33] = "", span_id[17] = "";
    if (span.IsValid()) {
        span.trace_id().ToLowerBase16(nostd::span<char, 32>(trace_id, 32));
        span.span_id().ToLowerBase16(nostd::span<char, 16>(span_id, 16));
        snprintf(ids, sizeof(ids), ",\"trace_id\":\"%s\",\"span_id\":\"%s\"", trace_id, span_id);
    }
    fprintf(truth, "{\"type\":\"%s\",\"tid\":%ld,\"from\":%lld,\"to\":%lld%s}\n",
            span.IsValid() ? "on" : "off", syscall(SYS_gettid), static_cast<long long>(from),
            static_cast<long long>(now_ns(CLOCK_REALTIME)), ids);
}

class Pool
{
  public:
    explicit Pool(int n)
    {
        while (n--)
            std::thread([this] { run(); }).detach();
    }

    void add(std::function<void()> job)
    {
        std::lock_guard<std::mutex> guard(lock_);
        jobs_.push_back(std::move(job));
        open_++;
        changed_.notify_all();
    }

    void wait()
    {
        std::unique_lock<std::mutex> guard(lock_);
        changed_.wait(guard, [this] { return !open_; });
    }

  private:
    void run()
    {
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            changed_.wait(guard, [this] { return !jobs_.empty(); });
            auto job = std::move(jobs_.front());
            jobs_.pop_front();
            guard.unlock();
            job();
            guard.lock();
            open_--;
            changed_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> jobs_;
    int open_ = 0;
};

static void render(Pool &helpers)
{
    auto span = tracer->StartSpan("render");
    trace::Scope scope(span);
    burn(2);
    auto context = opentelemetry::context::RuntimeContext::GetCurrent();
    helpers.add([context] {
        {
            auto token = opentelemetry::context::RuntimeContext::Attach(context);
            burn(2); /* for the span of the job */
            auto fetch = tracer->StartSpan("fetch");
            trace::Scope inner(fetch);
            burn(2);
            fetch->End();
        }
        burn(1); /* for none */
    });
    {
        auto layout = tracer->StartSpan("layout");
        trace::Scope inner(layout);
        burn(4);
        auto lines = tracer->StartSpan("lines");
        {
            trace::Scope innermost(lines);
            burn(4);
        }
        lines->End();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        layout->End();
    }
    burn(2);
    span->End();
}

static void wait_a_while()
{
    auto span = tracer->StartSpan("wait");
    trace::Scope scope(span);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

int main()
{
    namespace otlp = opentelemetry::exporter::otlp;
    namespace sdk = opentelemetry::sdk::trace;
    truth = fopen((std::string(getenv("TRUTH")) + "/" + std::to_string(getpid())).c_str(), "a");
    if (!truth)
        return 1;
    setvbuf(truth, nullptr, _IOLBF, BUFSIZ);
    sigset_t signals; /* before the processor has a thread, which inherits them */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    sdk::BatchSpanProcessorOptions options;
    options.max_queue_size = 65536;
    options.schedule_delay_millis = std::chrono::milliseconds(200);
    tracer = set_up(std::unique_ptr<Processor>(new sdk::BatchSpanProcessor(
                        otlp::OtlpHttpExporterFactory::Create(), options)),
                    true);
    std::thread([&signals] {
        int which;
        sigwait(&signals, &which);
        static_cast<Provider *>(trace::Provider::GetTracerProvider().get())->ForceFlush();
        _exit(0);
    }).detach();
    static Pool pool(4), helpers(2);
    int n;
    while (std::cin >> n) {
        while (n--) {
            pool.add([] { render(helpers); });
            pool.add(wait_a_while);
        }
        pool.wait();
        helpers.wait();
        std::cout << "done" << std::endl;
    }
    pause();
}
