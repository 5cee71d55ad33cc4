// SPDX-License-Identifier: Apache-2.0
//! Load without end: collections, formatting, closures, trait objects, sorting.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

trait Node {
    fn sum(&self, depth: u32) -> u64;
}

struct Leaf(u64);
struct Pair(Box<dyn Node>, Box<dyn Node>);

impl Node for Leaf {
    fn sum(&self, depth: u32) -> u64 {
        (0..self.0 % 64).map(|i| i ^ u64::from(depth)).sum()
    }
}

impl Node for Pair {
    fn sum(&self, depth: u32) -> u64 {
        self.0.sum(depth + 1).wrapping_mul(31) + self.1.sum(depth + 1)
    }
}

fn tree(depth: u32) -> Box<dyn Node> {
    if depth == 0 {
        return Box::new(Leaf(u64::from(depth) + 63));
    }
    Box::new(Pair(tree(depth - 1), tree(depth - 1)))
}

fn round(seed: u64) -> u64 {
    let mut text = String::new();
    let mut counts: HashMap<String, u64> = HashMap::new();
    for i in 0..2000u64 {
        write!(text, "{:x},", i.wrapping_mul(seed | 1)).unwrap();
        *counts.entry(format!("k{}", i % 97)).or_default() += i;
    }
    let mut parts: Vec<&str> = text.split(',').collect();
    parts.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    let sorted: BTreeMap<_, _> = counts.into_iter().collect();
    sorted.values().sum::<u64>() + parts.len() as u64
}

fn main() {
    let worker = std::thread::spawn(|| {
        let root = tree(10);
        loop {
            std::hint::black_box(root.sum(0));
        }
    });
    for seed in 0.. {
        std::hint::black_box(round(seed));
    }
    worker.join().unwrap();
}
