// SPDX-License-Identifier: Apache-2.0
//! What spans and switches cost: `bench nothing`, `bench observer`, `bench layer`. A line each: name, ns.

use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider};
use opentelemetry::Context;
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::Resource;
use publish::{set_up, Publish};
use std::time::Instant;
use tracing::info_span;

const TIMES: u32 = 200_000;
const ROUNDS: usize = 7;

fn measure(name: &str, mut run: impl FnMut()) {
    let round = |run: &mut dyn FnMut()| {
        let begun = Instant::now();
        (0..TIMES).for_each(|_| run());
        begun.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    let best = (0..ROUNDS).map(|_| round(&mut run)).fold(f64::INFINITY, f64::min);
    println!("{name} {best:.1}");
}

fn main() {
    let resource = Resource::builder().with_service_name("bench").build();
    let provider = SdkTracerProvider::builder().with_resource(resource.clone()).build();
    let publish = match std::env::args().nth(1).as_deref() {
        Some("observer") => Publish::Observer,
        Some("layer") => Publish::Layer,
        _ => Publish::Nothing,
    };
    set_up(publish, &provider, resource);
    let tracer = provider.tracer("bench");
    let context = Context::new().with_span(tracer.start("span"));
    measure("attach_detach", || drop(context.clone().attach()));
    measure("api_span", || tracer.in_span("span", |_| ()));
    let span = info_span!("span");
    measure("tracing_enter_exit", || span.in_scope(|| ()));
    measure("tracing_span", || info_span!("span").in_scope(|| ()));
}
