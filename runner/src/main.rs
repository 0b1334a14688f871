//! `plangate-runner`: one phase of one run, as the only process of its task.

use std::process::ExitCode;

fn main() -> ExitCode {
    plangate_runner::main()
}
