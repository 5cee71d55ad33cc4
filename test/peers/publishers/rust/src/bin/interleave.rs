// SPDX-License-Identifier: Apache-2.0
//! Whether what the publisher has written is the SDK's current span, at each step of threads, tasks and contexts that
//! take turns. A line a case: name, checks, wrong ones.

use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::Resource;
use publish::{current, set_up, Publish};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tracing::{info_span, Instrument};

static CHECKS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

fn check() {
    let (trace_id, span_id, flags) = spanprof_otel::published();
    let want = current();
    let right = if want.is_valid() {
        (trace_id, span_id, flags)
            == (want.trace_id().to_bytes(), want.span_id().to_bytes(), want.trace_flags().to_u8())
    } else {
        span_id == [0; 8]
    };
    CHECKS.fetch_add(1, Relaxed);
    WRONG.fetch_add(u64::from(!right), Relaxed);
}

fn case(name: &str, run: impl FnOnce()) {
    CHECKS.store(0, Relaxed);
    WRONG.store(0, Relaxed);
    run();
    println!("{name} {} {}", CHECKS.load(Relaxed), WRONG.load(Relaxed));
}

fn threads() {
    let work = || {
        for _ in 0..1000 {
            check();
            let outer = info_span!("outer");
            outer.in_scope(|| {
                check();
                info_span!("inner").in_scope(check);
                check();
            });
            let (first, second) = (info_span!("first").entered(), info_span!("second").entered());
            check();
            drop(first); // not in order
            check();
            drop(second);
            check();
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
}

async fn pause(i: usize) {
    match i % 3 {
        0 => tokio::task::yield_now().await,
        1 => tokio::time::sleep(Duration::from_micros(50)).await,
        _ => (),
    }
}

type Unit = Pin<Box<dyn Future<Output = ()> + Send>>;

fn unit(depth: usize) -> Unit {
    Box::pin(async move {
        for i in 0..12 {
            check();
            pause(i).await;
            check();
            if depth == 0 {
                continue;
            }
            if i % 4 == 0 {
                unit(depth - 1).instrument(info_span!("child")).await;
            } else if i % 4 == 2 {
                let _ = tokio::spawn(unit(0).instrument(info_span!("spawned"))).await;
                let span = info_span!("blocking");
                let _ = tokio::task::spawn_blocking(move || span.in_scope(check)).await;
            }
            check();
        }
    })
}

fn tasks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let units: Vec<_> =
            (0..150)
                .map(|i| {
                    if i % 3 == 0 {
                        tokio::spawn(unit(1))
                    } else {
                        tokio::spawn(unit(2).instrument(info_span!("unit")))
                    }
                })
                .collect();
        for unit in units {
            unit.await.unwrap();
        }
    });
}

/// Contexts of the API, without `tracing`.
fn contexts(provider: &SdkTracerProvider) {
    use opentelemetry::trace::FutureExt;
    let tracer = provider.tracer("contexts");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let units: Vec<_> = (0..60)
            .map(|i| {
                let context = match i % 3 {
                    0 => Context::new(),
                    1 => Context::new().with_span(tracer.start("span")),
                    _ => Context::new().with_remote_span_context(remote()).with_value(KeyValue::new("k", "v")),
                };
                let tracer = tracer.clone();
                tokio::spawn(
                    async move {
                        for i in 0..100 {
                            check();
                            pause(i).await;
                            check();
                            tracer.in_span("inner", |_| check());
                            let _suppressed = Context::enter_telemetry_suppressed_scope();
                            check();
                        }
                    }
                    .with_context(context),
                )
            })
            .collect();
        for unit in units {
            unit.await.unwrap();
        }
    });
}

fn remote() -> SpanContext {
    SpanContext::new(TraceId::from(1), SpanId::from(2), TraceFlags::SAMPLED, true, TraceState::NONE)
}

/// A child that goes on publishes; how many contexts it has been published is seen in its maps.
fn fork(provider: &SdkTracerProvider) {
    let tracer = provider.tracer("fork");
    tracer.in_span("parent", |_| {
        // SAFETY: the child works on what is its own, and ends by _exit().
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let none = spanprof_otel::published().1 == [0; 8] && mappings() == 0;
            let mut right = false;
            tracer.in_span("child", |_| right = spanprof_otel::published().1 == current().span_id().to_bytes());
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!(none && right && mappings() == 1))) };
        }
        let mut status = 1;
        // SAFETY: it writes one int.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        CHECKS.fetch_add(1, Relaxed);
        WRONG.fetch_add(u64::from(status != 0), Relaxed);
        check();
    });
}

fn maps() -> String {
    std::fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

fn mappings() -> usize {
    maps().lines().filter(|line| line.contains("OTEL_CTX")).count()
}

/// What the node is told, in brackets.
fn refusal() -> String {
    let maps = maps();
    let words: Vec<_> =
        maps.split("/memfd:spanprof-refused-").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    format!("[{}]", words.join(","))
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let resource = Resource::builder().with_service_name("interleave").build();
    let provider = SdkTracerProvider::builder().with_resource(resource.clone()).build();
    set_up(if mode == "layer" { Publish::Layer } else { Publish::Observer }, &provider, resource);
    if mode == "inert" {
        let spans = info_span!("span").in_scope(|| current().is_valid());
        println!("{} {}", if spans && mappings() == 0 { "inert" } else { "not as it was" }, refusal());
        return;
    }
    case("threads", threads);
    case("tasks", tasks);
    if mode != "layer" {
        case("contexts", || contexts(&provider));
        case("fork", || fork(&provider));
    }
}
