// SPDX-License-Identifier: Apache-2.0
//! Works in spans, two threads, with their ids as labels of the custom-labels library, and tells the
//! truth about it (as test/support/publishers/publisher.c does); begins when it reads a line.
use custom_labels::with_label;
use std::time::{SystemTime, UNIX_EPOCH};

const CPU_NS: u64 = 10_000_000;

fn thread_cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn unix_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn burn() -> u64 {
    let (end, mut sum) = (thread_cpu_ns() + CPU_NS, 1u64);
    while thread_cpu_ns() < end {
        for i in 0..20_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
    }
    sum
}

/// Burns and tells between which times; `ids` as further fields of the record.
fn burn_and_tell(kind: &str, ids: &str) {
    let from = unix_ns();
    burn();
    let tid = unsafe { libc::gettid() };
    println!(
        "{{\"type\":\"{}\",\"tid\":{},\"from\":{},\"to\":{}{}}}",
        kind, tid, from, unix_ns(), ids
    );
}

fn work(thread: u64, spans: u64) {
    for n in 1..=spans {
        let trace_id = format!("{:016x}{:016x}", thread + 1, n);
        let span_id = format!("{:08x}{:08x}", thread + 1, n);
        let route = format!("/{}", n);
        let ids = format!(
            ",\"trace_id\":\"{}\",\"span_id\":\"{}\",\"attributes\":{{\"route\":\"{}\"}}",
            trace_id, span_id, route
        );
        with_label("trace_id", &trace_id, || {
            with_label("span_id", &span_id, || {
                with_label("route", &route, || burn_and_tell("on", &ids))
            })
        });
    }
    burn_and_tell("off", "");
}

fn main() {
    let spans: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    println!("{{\"type\":\"ready\",\"pid\":{}}}", std::process::id());
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let threads: Vec<_> = (0..2)
        .map(|thread| std::thread::spawn(move || work(thread, spans)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
