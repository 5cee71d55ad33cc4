/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The SDK as its users set it up, and the line that publishes. */
#include "opentelemetry/sdk/resource/resource.h"
#include "opentelemetry/sdk/trace/processor.h"
#include "opentelemetry/sdk/trace/span_data.h"
#include "opentelemetry/sdk/trace/tracer_provider.h"
#include "opentelemetry/trace/context.h"
#include "opentelemetry/trace/provider.h"
#include "opentelemetry/trace/scope.h"
#include "opentelemetry/trace/tracer.h"

#include <memory>
#include <spanprof/context_storage.h>

namespace trace = opentelemetry::trace;
namespace nostd = opentelemetry::nostd;
using Resource = opentelemetry::sdk::resource::Resource;
using Provider = opentelemetry::sdk::trace::TracerProvider;
using Processor = opentelemetry::sdk::trace::SpanProcessor;

inline nostd::shared_ptr<trace::Tracer> set_up(std::unique_ptr<Processor> processor, bool publish)
{
    auto resource = Resource::Create({});
    if (publish)
        spanprof::ContextStorage::Install(resource);
    nostd::shared_ptr<trace::TracerProvider> provider(new Provider(std::move(processor), resource));
    trace::Provider::SetTracerProvider(provider);
    return provider->GetTracer("publish");
}

/* For spans that end and go nowhere. */
class NoProcessor : public Processor
{
  public:
    std::unique_ptr<opentelemetry::sdk::trace::Recordable> MakeRecordable() noexcept override
    {
        return std::unique_ptr<opentelemetry::sdk::trace::Recordable>(
            new opentelemetry::sdk::trace::SpanData);
    }
    void OnStart(opentelemetry::sdk::trace::Recordable &,
                 const trace::SpanContext &) noexcept override
    {
    }
    void OnEnd(std::unique_ptr<opentelemetry::sdk::trace::Recordable> &&) noexcept override
    {
    }
    bool ForceFlush(std::chrono::microseconds) noexcept override
    {
        return true;
    }
    bool Shutdown(std::chrono::microseconds) noexcept override
    {
        return true;
    }
};
