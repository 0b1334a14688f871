//! One measurement, in a process of its own.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read as _;
use std::str::FromStr;
use std::time::Instant;

use plangate_gate::digest::Digest;
use plangate_gate::document::PlanDocument;
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::Policy;
use plangate_gate::projection::{Projection, Withhold};

use crate::{Outcome, plans};

/// What is measured.
#[derive(Clone, Copy)]
pub(crate) enum What {
    /// The time of the core, and that of `serde_json` passing over the document and SHA-256, by turns.
    Speed,
    /// The memory of the core at its peak.
    Memory,
    /// The time in which `serde_json` builds a tree of it.
    Dom,
}

impl What {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Speed => "speed",
            Self::Memory => "memory",
            Self::Dom => "dom",
        }
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Speed, Self::Memory, Self::Dom].into_iter().find(|what| what.name() == name);
        found.ok_or_else(|| format!("`{name}` is nothing that is measured"))
    }
}

/// Measures `what` on the file: seconds, of each the shortest run, or bytes.
pub(crate) fn run(what: What, path: &str) -> Outcome<Vec<f64>> {
    // Once on a small document: the program itself and what it sets up once are not the document's cost.
    core(plans::document(10_000, plans::ORDINARY).as_bytes())?;
    let before = resident("VmRSS")?;
    let bytes = read(path)?;
    Ok(match what {
        What::Memory => {
            core(&bytes)?;
            vec![resident("VmHWM")? - before]
        }
        What::Dom => vec![seconds(|| tree(&bytes))?],
        What::Speed => {
            let mut shortest = [f64::INFINITY; 2];
            for _ in 0..ROUNDS {
                let round = [seconds(|| core(&bytes))?, seconds(|| floor(&bytes))?];
                shortest = [shortest[0].min(round[0]), shortest[1].min(round[1])];
            }
            shortest.to_vec()
        }
    })
}

/// How often speed is measured: whatever else runs on the machine disturbs some of the rounds.
const ROUNDS: usize = 9;

fn read(path: &str) -> Outcome<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len())? + 1);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn seconds(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// A line of the kernel's account of this process, in bytes.
fn resident(field: &str) -> Outcome<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)).ok_or("the kernel gives no account of memory")?;
    let kibibytes: f64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024.0)
}

fn core(bytes: &[u8]) -> Outcome<()> {
    black_box(Digest::of(bytes));
    let document = PlanDocument::parse_untrusted(bytes)?;
    let projection = Projection::of(&document, &Withhold::nothing());
    black_box(projection.digest());
    black_box(Guardrails::evaluate(Ok(&document), Some(&projection), &Policy::default(), &GuardContext::default()));
    Ok(())
}

fn tree(bytes: &[u8]) -> Outcome<()> {
    black_box(serde_json::from_slice::<serde_json::Value>(bytes)?);
    Ok(())
}

fn floor(bytes: &[u8]) -> Outcome<()> {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes)?;
    black_box(Digest::of(bytes));
    Ok(())
}
