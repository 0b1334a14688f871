//! The protocols hold: every state within the bounds is visited, and every property is true of it.

#![expect(clippy::panic, clippy::print_stdout, reason = "what a test does, in a function that several share")]

use std::time::Instant;

use plangate_model::bounds;
use plangate_model::{Bounds, Protocols, check};

fn holds(name: &str, bounds: Bounds, limit: usize) {
    let begun = Instant::now();
    let report = check(&Protocols::new(bounds), limit);
    println!(
        "{name}: {} states, {} steps, {} deep, in {:.1} s",
        report.states,
        report.steps,
        report.depth,
        begun.elapsed().as_secs_f32()
    );
    if let Some(broken) = report.broken {
        panic!("{name}: {broken}");
    }
}

macro_rules! explored {
    ($($name:ident: $bounds:ident;)*) => { $(#[test] fn $name() { holds(stringify!($name), bounds::$bounds, 4_000_000); })* };
}

explored! {
    one_run: ONE;
    one_run_and_its_tasks: TASKS;
    one_run_and_its_functions: FUNCTIONS;
    one_run_and_everybody_who_decides: SURFACES;
    two_runs: TWO;
    two_runs_in_line: TWO_IN_LINE;
    three_runs_in_line: THREE_IN_LINE;
    a_run_beside_a_plan_only_one: BESIDE;
    one_run_that_is_redriven: REDRIVEN;
    one_run_that_is_frozen: FROZEN;
    a_line_that_is_frozen: FROZEN_LINE;
    a_plan_only_run_that_is_frozen: FROZEN_BESIDE;
}

/// Wider, and minutes long: `cargo test -p plangate-model -- --ignored`.
#[test]
#[ignore = "takes minutes and gigabytes"]
fn one_run_and_more() {
    holds("one_run_and_more", bounds::ONE_AND_MORE, 20_000_000);
}

/// See above.
#[test]
#[ignore = "takes minutes and gigabytes"]
fn two_runs_and_more() {
    holds("two_runs_and_more", bounds::TWO_AND_MORE, 20_000_000);
}
