//! Exit codes: a run's outcome is one of them.

use std::process::ExitCode;

use plangate_gate::lifecycle::Status;

/// How the command ended, for scripts. Documented in [`HELP`]; the numbers are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done; of a run: applied, no changes, or planned.
    Success = 0,
    /// Something went wrong that is no refusal.
    Error = 1,
    // 2 is a command line that cannot be understood; clap ends with it by itself, and so do we.
    /// As clap.
    Usage = 2,
    /// The gate, a guardrail or a check refused.
    Refused = 3,
    /// The run failed.
    Failed = 4,
    /// The run was rejected.
    Rejected = 5,
    /// The run's plan expired.
    Expired = 6,
    /// The run was canceled.
    Canceled = 7,
    /// The run still waits, for approval as a rule.
    Waiting = 8,
}

/// The table of exit codes, as `--help` shows it.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done; of a run that was followed: applied, no changes, or planned
  1  error: no connection, an unreadable file, a broken audit chain, a broken vector
  2  the command line cannot be understood
  3  refused: by the gate, by a guardrail, or by a check on your side
  4  the run failed
  5  the run was rejected
  6  the run's plan expired
  7  the run was canceled
  8  the run waits for approval

Environment:
  PLANGATE_API     the gate's address, as its deployment prints it (ApiUrl)
  PLANGATE_ARCHIVE the bucket of the audit's archive (ArchiveBucket), for `audit verify` and `audit export`
  PLANGATE_ENGINE  the engine that fetches remote modules; else `tofu`, else `terraform` from PATH
  AWS_*            credentials and region, as every AWS tool takes them: variables, profiles, single
                   sign-on, credential processes, container and instance roles
  NO_COLOR         no colours, whatever the terminal";

impl Exit {
    /// The exit code of having followed a run as far as `status`.
    pub(crate) const fn of(status: Status) -> Self {
        match status {
            Status::Applied | Status::NoChanges | Status::Planned => Self::Success,
            Status::Failed => Self::Failed,
            Status::Rejected => Self::Rejected,
            Status::Expired => Self::Expired,
            Status::Canceled => Self::Canceled,
            Status::Proposed
            | Status::Queued
            | Status::Planning
            | Status::Evaluating
            | Status::Reviewing
            | Status::AwaitingApproval
            | Status::Approved
            | Status::Applying => Self::Waiting,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_terminal_status_has_its_own_outcome_and_all_others_wait() {
        for status in Status::ALL {
            assert_eq!(Exit::of(*status) == Exit::Waiting, !status.is_terminal(), "{status}");
        }
        assert!(HELP.lines().any(|line| line.starts_with("  8  ")));
    }
}
