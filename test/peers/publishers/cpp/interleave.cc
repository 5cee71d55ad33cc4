/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what the publisher has written is the SDK's current span, at each step of threads that
 * take turns. A line a case: name, checks, wrong ones.
 */
#include "set_up.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using opentelemetry::context::RuntimeContext;

static nostd::shared_ptr<trace::Tracer> tracer;
static std::atomic<unsigned> checks, wrong;

static bool right()
{
    struct spanprof_context published;
    spanprof_context_get(&published);
    auto span = trace::GetSpan(RuntimeContext::GetCurrent())->GetContext();
    if (!span.IsValid() || span.IsRemote())
        return !memcmp(published.span_id, "\0\0\0\0\0\0\0", 8);
    return !memcmp(published.trace_id, span.trace_id().Id().data(), 16) &&
           !memcmp(published.span_id, span.span_id().Id().data(), 8) &&
           published.trace_flags == span.trace_flags().flags();
}

static void check()
{
    checks++;
    wrong += !right();
}

static void nest(int depth)
{
    check();
    if (!depth)
        return;
    auto span = tracer->StartSpan("span");
    check();
    {
        trace::Scope scope(span);
        check();
        std::this_thread::yield();
        nest(depth - 1);
        check();
        nest(depth - 1);
    }
    check();
    span->End();
}

static void in_threads(int n, void (*run)())
{
    std::vector<std::thread> threads;
    for (int i = 0; i < n; i++)
        threads.emplace_back(run);
    for (auto &thread : threads)
        thread.join();
}

static void case_threads()
{
    in_threads(8, [] {
        for (int i = 0; i < 150; i++)
            nest(5);
    });
}

/* A context that one thread has made is attached on others, and left in no order. */
static void case_handed()
{
    auto span = tracer->StartSpan("handed");
    trace::Scope scope(span);
    static opentelemetry::context::Context context;
    context = RuntimeContext::GetCurrent();
    in_threads(6, [] {
        for (int i = 0; i < 500; i++) {
            check();
            auto outer = RuntimeContext::Attach(context);
            check();
            auto span1 = tracer->StartSpan("first"), span2 = tracer->StartSpan("second");
            auto first = RuntimeContext::Attach(trace::SetSpan(context, span1));
            auto second = RuntimeContext::Attach(trace::SetSpan(context, span2));
            check();
            first.reset(); /* and with it the second */
            check();
            second.reset();
            check();
            outer.reset();
            check();
        }
    });
    check();
}

static void case_remote()
{
    uint8_t id[16] = {1};
    trace::SpanContext remote(trace::TraceId(id), trace::SpanId(nostd::span<uint8_t, 8>(id, 8)),
                              trace::TraceFlags(1), true);
    opentelemetry::context::Context none;
    auto token = RuntimeContext::Attach(
        trace::SetSpan(none, nostd::shared_ptr<trace::Span>(new trace::DefaultSpan(remote))));
    check();
    nest(3);
    check();
}

static std::vector<std::string> mappings_named(const std::string &name)
{
    std::ifstream maps("/proc/self/maps");
    std::vector<std::string> found;
    std::string line;
    while (std::getline(maps, line))
        if (line.find(name) != std::string::npos)
            found.push_back(line.substr(line.find(name) + name.size()));
    return found;
}

static int mappings()
{
    return static_cast<int>(mappings_named("OTEL_CTX").size());
}

/* The process context is another's: a mapping of its name, as the ABI wants it. */
static void take()
{
    const size_t size = 4096;
    int file = memfd_create("OTEL_CTX", 0);
    if (ftruncate(file, size) ||
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) == MAP_FAILED)
        abort();
}

static int inert(int others)
{
    auto span = tracer->StartSpan("span");
    trace::Scope scope(span);
    struct spanprof_context published;
    spanprof_context_get(&published);
    printf("%s [", mappings() != others || published.span_id[0] ? "published" : "nothing published");
    for (const auto &rest : mappings_named("/memfd:spanprof-refused-"))
        printf("%s", rest.substr(0, rest.find(' ')).c_str());
    puts("]");
    return 0;
}

static void case_fork()
{
    auto span = tracer->StartSpan("parent");
    trace::Scope scope(span);
    pid_t pid = fork();
    if (!pid) {
        struct spanprof_context published;
        spanprof_context_get(&published);
        bool none = !memcmp(published.span_id, "\0\0\0\0\0\0\0", 8) && !mappings();
        auto child = tracer->StartSpan("child");
        trace::Scope inner(child);
        _exit(!(none && right() && mappings() == 1));
    }
    int status = 1;
    waitpid(pid, &status, 0);
    checks++;
    wrong += status != 0;
    check();
}

static void run(const char *name, void (*body)())
{
    checks = wrong = 0;
    body();
    printf("%s %u %u\n", name, checks.load(), wrong.load());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    bool taken = argc > 1 && !strcmp(argv[1], "taken");
    if (taken)
        take();
    tracer = set_up(std::unique_ptr<Processor>(new NoProcessor), true);
    if (argc > 1)
        return inert(taken);
    run("threads", case_threads);
    run("handed", case_handed);
    run("remote", case_remote);
    run("fork", case_fork);
}
