//! The evaluator alone: what the guardrails' function and the command line become when they evaluate rules.

use std::process::ExitCode;

fn main() -> ExitCode {
    plangate_rules::serve().unwrap_or(ExitCode::FAILURE)
}
