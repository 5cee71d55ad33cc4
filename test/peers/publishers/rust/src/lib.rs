// SPDX-License-Identifier: Apache-2.0
//! What the programs share: the SDK as its users set it up, with the publisher, and the truth of what burned CPU time.

use opentelemetry::trace::{SpanContext, TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::Resource;
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[derive(Clone, Copy, PartialEq)]
pub enum Publish {
    Observer,
    Layer,
    Nothing,
}

static PUBLISH: OnceLock<Publish> = OnceLock::new();

/// Sets up `tracing` with OpenTelemetry. What publishes is one line in either way.
pub fn set_up(publish: Publish, provider: &SdkTracerProvider, resource: Resource) {
    let _ = PUBLISH.set(publish);
    let tracer = provider.tracer("publish");
    let opentelemetry =
        tracing_opentelemetry::layer().with_tracer(tracer).with_context_activation(publish != Publish::Layer);
    match publish {
        Publish::Layer => {
            tracing_subscriber::registry().with(opentelemetry).with(spanprof_otel::layer(&resource)).init()
        }
        _ => tracing_subscriber::registry().with(opentelemetry).init(),
    }
    if publish == Publish::Observer {
        spanprof_otel::install(&resource);
    }
}

/// The span that this thread works for, as the SDK has it.
pub fn current() -> SpanContext {
    let context = match PUBLISH.get() {
        Some(Publish::Layer) => tracing::Span::current().context(),
        _ => opentelemetry::Context::current(),
    };
    let span_context = context.span().span_context().clone();
    if span_context.is_remote() {
        SpanContext::NONE
    } else {
        span_context
    }
}

static TRUTH: OnceLock<File> = OnceLock::new();

pub fn open_truth() -> std::io::Result<()> {
    let folder = std::env::var("TRUTH").map_err(std::io::Error::other)?;
    let _ = TRUTH.set(File::options().create(true).append(true).open(format!("{folder}/{}", std::process::id()))?);
    Ok(())
}

fn thread_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes one struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn wall_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}

/// Uses CPU time for the current span; it does not leave its thread.
pub fn burn(duration: Duration) {
    let (span, from, end) = (current(), wall_ns(), thread_time() + duration);
    while thread_time() < end {
        work();
    }
    let to = wall_ns();
    // SAFETY: it only asks.
    let tid = unsafe { libc::gettid() };
    let line = if span.is_valid() {
        format!(
            "{{\"type\":\"on\",\"tid\":{tid},\"from\":{from},\"to\":{to},\"trace_id\":\"{}\",\"span_id\":\"{}\"}}\n",
            span.trace_id(),
            span.span_id()
        )
    } else {
        format!("{{\"type\":\"off\",\"tid\":{tid},\"from\":{from},\"to\":{to}}}\n")
    };
    if let Some(mut truth) = TRUTH.get() {
        let _ = truth.write_all(line.as_bytes());
    }
}

#[inline(never)]
fn work() {
    let mut x: u64 = 88172645463325252;
    for _ in 0..2000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        std::hint::black_box(x);
    }
}
