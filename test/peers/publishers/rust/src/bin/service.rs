// SPDX-License-Identifier: Apache-2.0
//! A stock axum service on Tokio's threads, with tower-http's spans and the OTLP exporter. Requests take turns on the
//! threads, spawn tasks and hand work to the blocking pool.

use axum::routing::get;
use axum::Router;
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::Resource;
use publish::{burn, open_truth, set_up, Publish};
use std::error::Error;
use std::time::Duration;
use tokio::signal::unix::{signal, SignalKind};
use tower_http::trace::TraceLayer;
use tracing::{info_span, Instrument, Span};

const SLICE: Duration = Duration::from_millis(2);

async fn slices(n: usize) {
    for _ in 0..n {
        burn(SLICE);
        tokio::time::sleep(Duration::from_micros(100)).await;
        tokio::task::yield_now().await;
    }
}

async fn layout() {
    slices(1).await;
    slices(2).instrument(info_span!("lines")).await;
    slices(1).await;
}

async fn render() -> &'static str {
    slices(1).await;
    let fetch = tokio::spawn(slices(2).instrument(info_span!("fetch")));
    let own = tokio::spawn(slices(1).instrument(Span::current()));
    let blocking = info_span!("blocking");
    let pooled = tokio::task::spawn_blocking(move || blocking.in_scope(|| burn(2 * SLICE)));
    layout().instrument(info_span!("layout")).await;
    for task in [fetch, own, pooled] {
        let _ = task.await;
    }
    slices(1).await;
    "done\n"
}

async fn wait() -> &'static str {
    tokio::time::sleep(10 * SLICE).await;
    "done\n"
}

async fn without_span() {
    loop {
        tokio::time::sleep(Duration::from_millis(30)).await;
        burn(SLICE);
    }
}

#[tokio::main(worker_threads = 3)]
async fn main() -> Result<(), Box<dyn Error>> {
    let publish = match std::env::var("PUBLISH")?.as_str() {
        "layer" => Publish::Layer,
        _ => Publish::Observer,
    };
    open_truth()?;
    let resource = Resource::builder().build();
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().build()?;
    let provider = SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(exporter).build();
    set_up(publish, &provider, resource);
    tokio::spawn(without_span());
    let requests = TraceLayer::new_for_http().make_span_with(|_: &axum::extract::Request| info_span!("request"));
    let router = Router::new().route("/render", get(render)).route("/wait", get(wait)).layer(requests);
    let port = std::env::args().nth(1).ok_or("no port")?;
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = axum::serve(listener, router) => served?,
        _ = terminate.recv() => (),
    }
    tokio::task::spawn_blocking(move || provider.shutdown()).await??;
    Ok(())
}
