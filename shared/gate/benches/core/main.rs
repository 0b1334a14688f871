//! `make bench`: what the decision core costs on large plan documents, held against bounds.
//!
//! For each size: digest, reading, projection and guardrails together must go at no less than half the speed at which
//! `serde_json` passes over the same document and SHA-256 reads it; the memory at its peak may be no more than the
//! document and a quarter; and time must grow in proportion to the size. Beside it stand `jq` and the standard DOM
//! parse of the same file, measured in the same run. Each measurement is a process of its own, so that none sees the
//! memory of another; the two speeds that are compared are measured by turns.
//!
//! Then audits of a thousand and of ten thousand events are verified whole; an event of the larger may take no more than
//! so many times as long as one of the smaller.
//!
//! The bounds are for documents that are shaped like real ones, of which a quarter is `resource_changes` and of that
//! little changes. One in which everything changes is measured too, and held against no bound: all its values are held
//! and projected, which takes more memory than the document has bytes.

#![allow(clippy::print_stdout, clippy::indexing_slicing, reason = "the figures are what it is for")]

mod audit;
mod measure;
mod plans;

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, error, fs};

use measure::What;

type Outcome<T> = Result<T, Box<dyn error::Error>>;

/// The documents' sizes, in millions of bytes.
const SIZES: [usize; 3] = [5, 50, 200];
/// The least part of the speed of passing over and hashing that the core must reach.
const LEAST_SPEED: f64 = 0.5;
/// The most memory, as a multiple of the document.
const MOST_MEMORY: f64 = 1.25;
/// How much more time a byte may take in the largest document than in the smallest, beside what it takes to pass over
/// it, measured by turns: a quadratic step would show as a factor of forty. As much an event of the larger audit.
const MOST_GROWTH: f64 = 2.0;

fn main() -> Outcome<ExitCode> {
    let mut arguments = env::args().skip(1);
    match arguments.next().as_deref() {
        Some("measure") => {
            let (Some(what), Some(path)) = (arguments.next(), arguments.next()) else {
                return Err("measure WHAT FILE".into());
            };
            let figures = measure::run(what.parse()?, &path)?;
            println!("{}", figures.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
            Ok(ExitCode::SUCCESS)
        }
        Some("--bench") => compare(),
        // `cargo test` starts benchmarks as well; the figures of an unoptimised build mean nothing.
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Measures in a new process.
fn measured(what: What, path: &str) -> Outcome<Vec<f64>> {
    let output =
        Command::new(env::current_exe()?).args(["measure", what.name(), path]).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("measuring {} failed", what.name()).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// The seconds that `jq` takes to read the file, where it is installed.
fn jq(path: &str) -> Option<f64> {
    let start = Instant::now();
    let status = Command::new("jq").args([".resource_changes | length", path]).stdout(Stdio::null()).status().ok()?;
    status.success().then(|| start.elapsed().as_secs_f64())
}

fn compare() -> Outcome<ExitCode> {
    let folder = env::temp_dir().join(format!("plangate-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let result = compare_in(&folder);
    fs::remove_dir_all(&folder)?;
    result
}

/// What one document showed.
struct Figures {
    speed: f64,
    memory: f64,
}

/// Measures a document of so many millions of bytes and prints a line.
fn figures(folder: &std::path::Path, size: usize, changing: u64) -> Outcome<Figures> {
    let path = folder.join(format!("{size}.json"));
    let path = path.to_str().ok_or("the temporary folder's name is not UTF-8")?;
    let text = plans::document(size * 1_000_000, changing);
    let bytes = text.len() as f64;
    fs::write(path, text)?;
    let [core, floor] = measured(What::Speed, path)?[..] else { return Err("two figures".into()) };
    let [peak] = measured(What::Memory, path)?[..] else { return Err("one figure".into()) };
    let [dom] = measured(What::Dom, path)?[..] else { return Err("one figure".into()) };
    let (speed, memory) = (floor / core, peak / bytes);
    let times = |seconds: f64| format!("{:.0}x", seconds / core);
    println!(
        "{:>4} MB {:>6.0} ms {:>6.0} ms {speed:>7.2} {memory:>8.2} {:>8} {:>8}",
        size,
        core * 1e3,
        floor * 1e3,
        times(dom),
        jq(path).map_or("absent".to_owned(), times),
    );
    fs::remove_file(path)?;
    Ok(Figures { speed, memory })
}

fn compare_in(folder: &std::path::Path) -> Outcome<ExitCode> {
    let mut broken = Vec::new();
    let mut speeds = Vec::new();
    println!("{:>7} {:>9} {:>9} {:>7} {:>8} {:>8} {:>8}", "size", "core", "skip+sha", "speed", "memory", "DOM", "jq");
    for size in SIZES {
        let figures = figures(folder, size, plans::ORDINARY)?;
        speeds.push(figures.speed);
        if figures.speed < LEAST_SPEED {
            let speed = figures.speed;
            broken.push(format!(
                "{size} MB: {speed:.2} of the speed of passing over it and hashing, at least {LEAST_SPEED}"
            ));
        }
        if figures.memory > MOST_MEMORY {
            let memory = figures.memory;
            broken.push(format!("{size} MB: {memory:.2} times the document in memory, at most {MOST_MEMORY}"));
        }
    }
    println!("and without bounds, a plan in which everything changes:");
    figures(folder, SIZES[1], plans::EVERYTHING)?;
    let growth = speeds.first().zip(speeds.last()).map_or(1.0, |(smallest, largest)| smallest / largest);
    println!("a byte of the largest takes {growth:.2} times as long as one of the smallest");
    if growth > MOST_GROWTH {
        broken.push(format!("time grows by {growth:.2} per byte, at most {MOST_GROWTH}"));
    }
    let growth = audit::compare()?;
    if growth > MOST_GROWTH {
        broken.push(format!("verifying grows by {growth:.2} per event, at most {MOST_GROWTH}"));
    }
    for bound in &broken {
        println!("BROKEN {bound}");
    }
    println!("speed: of the floor's; memory: of the document; DOM, jq: times as long as the core");
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
