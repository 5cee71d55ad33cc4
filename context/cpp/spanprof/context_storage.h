/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tells profilers which OpenTelemetry span each thread of a C++ program works for (OTEP 4947), by
 * libspanprof-context (`pkg-config --cflags --libs spanprof-context`). Once, in main, before the
 * first span, with the Resource of the SDK's provider:
 *
 *     spanprof::ContextStorage::Install(resource);
 *
 * What is published is the span of the current context: at each Attach and Detach, which are a
 * trace::Scope's begin and end, and the switch of a coroutine library that keeps contexts by them.
 * Nothing is allocated then beyond what OpenTelemetry's own storage does.
 *
 * SPANPROF_CONTEXT=off switches it off. What fails leaves OpenTelemetry as it is, silent unless
 * SPANPROF_CONTEXT_DEBUG=1. C++14; opentelemetry-cpp's API, headers only. Errors: false.
 */
#include "opentelemetry/context/context.h"
#include "opentelemetry/context/runtime_context.h"
#include "opentelemetry/nostd/shared_ptr.h"
#include "opentelemetry/nostd/unique_ptr.h"
#include "opentelemetry/nostd/variant.h"
#include "opentelemetry/trace/context.h"
#include "opentelemetry/trace/span.h"
#include "opentelemetry/trace/span_context.h"
#include "opentelemetry/trace/span_metadata.h"

#include <spanprof_context.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace spanprof
{

/* An attribute's value as text; lists as JSON has them. */
struct AttributeText {
    std::string operator()(const std::string &value) const
    {
        return value;
    }

    std::string operator()(bool value) const
    {
        return value ? "true" : "false";
    }

    std::string operator()(double value) const
    {
        char text[32];
        std::snprintf(text, sizeof(text), "%.17g", value);
        return text;
    }

    template <class Number> std::string operator()(Number value) const
    {
        return std::to_string(value);
    }

    template <class Value> std::string operator()(const std::vector<Value> &values) const
    {
        std::string text = "[";
        for (const auto &value : values)
            text += (text.size() > 1 ? "," : "") + Element(static_cast<const Value &>(value));
        return text + "]";
    }

  private:
    template <class Value> std::string Element(const Value &value) const
    {
        return (*this)(value);
    }

    std::string Element(const std::string &value) const
    {
        std::string text = "\"";
        for (char c : value)
            text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        return text + "\"";
    }
};

class ContextStorage : public opentelemetry::context::RuntimeContextStorage
{
    using Context = opentelemetry::context::Context;
    using Token = opentelemetry::context::Token;
    using Span = opentelemetry::trace::Span;
    using Storage = opentelemetry::context::RuntimeContextStorage;

  public:
    /* resource: of the SDK, or what has such a GetAttributes(). Tells whether it publishes now. */
    template <class Resource> static bool Install(const Resource &resource) noexcept
    {
        int state = NEW;
        if (!State().compare_exchange_strong(state, OFF))
            return state == ON;
        const char *off = std::getenv("SPANPROF_CONTEXT");
        if (off && !std::strcmp(off, "off"))
            return Failed("SPANPROF_CONTEXT=off");
        int error = PublishProcess(resource);
        if (error) {
            ShowRefusal(error == -EEXIST ? "spanprof-refused-taken" : "spanprof-refused-failed");
            return Failed(std::strerror(-error));
        }
        pthread_atfork(nullptr, nullptr, Forked);
        using opentelemetry::context::RuntimeContext;
        RuntimeContext::SetRuntimeContextStorage(opentelemetry::nostd::shared_ptr<Storage>(
            new ContextStorage(RuntimeContext::GetConstRuntimeContextStorage())));
        State().store(ON);
        return true;
    }

    Context GetCurrent() noexcept override
    {
        return Inner().GetCurrent();
    }

    opentelemetry::nostd::unique_ptr<Token> Attach(const Context &context) noexcept override
    {
        auto token = Inner().Attach(context);
        Publish(context);
        return token;
    }

    bool Detach(Token &token) noexcept override
    {
        bool detached = Inner().Detach(token);
        Publish(Inner().GetCurrent());
        return detached;
    }

  private:
    explicit ContextStorage(opentelemetry::nostd::shared_ptr<const Storage> inner) noexcept
        : inner_(std::move(inner))
    {
    }

    /* What kept the contexts before. The API gives it out for its lifetime alone, hence as const.
     */
    Storage &Inner() noexcept
    {
        return *const_cast<Storage *>(inner_.get());
    }

    enum { NEW, ON, FORKED, OFF }; /* FORKED: a child that has not published itself yet */

    static std::atomic<int> &State() noexcept
    {
        static std::atomic<int> state{NEW};
        return state;
    }

    static bool Failed(const char *reason) noexcept
    {
        const char *debug = std::getenv("SPANPROF_CONTEXT_DEBUG");
        if (debug && !std::strcmp(debug, "1"))
            std::fprintf(stderr, "spanprof::ContextStorage: nothing is published: %s\n", reason);
        return false;
    }

    /* The node sees why in this process's maps: a memfd of that name is mapped for as long as the
     * process lives. By its number, as C libraries before 2018 have no function for it. */
    static void ShowRefusal(const char *name) noexcept
    {
        enum { CLOEXEC = 1, NOEXEC_SEAL = 8 }; /* the latter since Linux 6.3, which may demand it */
        const size_t size = 4096;
        long file = syscall(SYS_memfd_create, name, CLOEXEC | NOEXEC_SEAL);
        if (file < 0)
            file = syscall(SYS_memfd_create, name, CLOEXEC);
        if (file < 0)
            return;
        if (!ftruncate(static_cast<int>(file), size))
            (void)mmap(nullptr, size, PROT_READ, MAP_PRIVATE, static_cast<int>(file), 0);
        close(static_cast<int>(file));
    }

    template <class Resource> static int PublishProcess(const Resource &resource) noexcept
    {
        std::vector<std::pair<std::string, std::string>> texts;
        std::vector<spanprof_attribute> attributes;
        for (const auto &pair : resource.GetAttributes())
            texts.emplace_back(pair.first,
                               opentelemetry::nostd::visit(AttributeText{}, pair.second));
        for (const auto &text : texts)
            attributes.push_back({text.first.c_str(), text.second.c_str()});
        int error = spanprof_context_publish(attributes.data(), attributes.size());
        if (error != -EINVAL && error != -EILSEQ && error != -ENOSPC)
            return error;
        /* One of them is more than can be published: all others. */
        error = spanprof_context_publish(nullptr, 0);
        for (size_t i = 0; i < attributes.size() && !error; i++)
            (void)spanprof_context_update(&attributes[i], 1);
        return error;
    }

    /* The span that this thread works for now, or none. One that came from another process is not
     * its own. */
    static void Publish(const Context &context) noexcept
    {
        auto value = context.GetValue(opentelemetry::trace::kSpanKey);
        using SpanPointer = opentelemetry::nostd::shared_ptr<Span>;
        if (!opentelemetry::nostd::holds_alternative<SpanPointer>(value)) {
            spanprof_context_clear();
            return;
        }
        const auto span_context = opentelemetry::nostd::get<SpanPointer>(value)->GetContext();
        if (!span_context.IsValid() || span_context.IsRemote() || !IsOn()) {
            spanprof_context_clear();
            return;
        }
        spanprof_context_set(span_context.trace_id().Id().data(),
                             span_context.span_id().Id().data(),
                             span_context.trace_flags().flags());
    }

    /* A child has no process context until its first span; its Resource is its parent's. */
    static bool IsOn() noexcept
    {
        int state = State().load(std::memory_order_relaxed);
        if (state == FORKED && State().compare_exchange_strong(state, ON))
            State().store(spanprof_context_publish(nullptr, 0) ? OFF : ON);
        return State().load(std::memory_order_relaxed) == ON;
    }

    static void Forked() noexcept
    {
        int state = ON;
        spanprof_context_clear();
        State().compare_exchange_strong(state, FORKED);
    }

    opentelemetry::nostd::shared_ptr<const Storage> inner_;
};

} // namespace spanprof
