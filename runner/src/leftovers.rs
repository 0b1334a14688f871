//! Ending what an engine leaves behind. Code that runs in a plan may start processes that leave the engine's group;
//! as the subreaper of its descendants the runner inherits them, finds them by that, and ends them.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

use crate::error::{Result, RunnerError};

/// Rounds of ending children, each of which may hand over children of their own.
const ROUNDS: usize = 100;

/// Makes this process inherit what its descendants leave behind.
///
/// # Errors
/// The platform refuses.
pub(crate) fn inherit() -> Result<()> {
    set_child_subreaper(Some(getpid()))
        .map_err(|error| RunnerError::unusable(format!("cannot become subreaper: {error}")))
}

/// Kills and reaps every child of this process, until there is none.
pub(crate) fn end_all() {
    for _ in 0..ROUNDS {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
    }
}

fn children() -> Vec<Pid> {
    let own = getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything, parentheses too; behind the last one come state and parent.
            let parent: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            (parent == own.as_raw_nonzero().get()).then(|| Pid::from_raw(pid)).flatten()
        })
        .collect()
}
