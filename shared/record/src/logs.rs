//! The logs of phases: live from CloudWatch, whole from the bucket (`R53`).

use async_trait::async_trait;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;
use plangate_gate::run::Run;

use crate::error::Error;
use crate::objects::{Objects, log_key};
use crate::workflow::WorkflowError;

/// The most bytes that an archived log may have: what a runner keeps, and room for the line that says that it was cut.
pub const LOG_LIMIT: u64 = 32 * 1024 * 1024 + 4096;

/// A page of a live log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The lines, in their order.
    pub lines: Vec<String>,
    /// Where to go on.
    pub next: Option<String>,
}

/// CloudWatch Logs, as far as the gate uses it.
#[async_trait]
pub trait LiveLogs: Send + Sync {
    /// A page of what the task of a phase has said, from `from` on. An empty page whose `next` is `from` again: nothing
    /// new so far.
    async fn page(&self, run: &RunId, phase: Phase, from: Option<&str>) -> Result<LogPage, WorkflowError>;
}

/// Archives the log of a phase from CloudWatch where the runner has not done it itself: it was killed. What it has stored
/// stands in the run's record.
///
/// # Errors
/// AWS does not answer.
pub async fn archive(objects: &dyn Objects, logs: &dyn LiveLogs, run: &Run, phase: Phase) -> Result<(), Error> {
    let stored = match phase {
        Phase::Plan => run.plan.as_ref().and_then(|plan| plan.log.as_ref()),
        Phase::Apply => run.apply.as_ref().and_then(|apply| apply.log.as_ref()),
    };
    let key = log_key(&run.workspace, &run.id, phase);
    if stored.is_some() || objects.head(&key).await?.is_some() {
        return Ok(());
    }
    let mut text = String::new();
    let mut from: Option<String> = None;
    'pages: loop {
        let page = logs.page(&run.id, phase, from.as_deref()).await?;
        for line in page.lines {
            if text.len() + line.len() + 1 > LOG_LIMIT as usize {
                text.push_str("... the log was cut here: it is larger than an archived log may be\n");
                break 'pages;
            }
            text.push_str(&line);
            text.push('\n');
        }
        if page.next.is_none() || page.next == from {
            break;
        }
        from = page.next;
    }
    if !text.is_empty() {
        objects.put_new(&key, text.into_bytes()).await?;
    }
    Ok(())
}
