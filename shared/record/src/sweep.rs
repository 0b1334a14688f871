//! The sweep: what is dead is concluded, what waits for a lost wake-up is woken, what was never started is started.

use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::measure::{Measurement, Metric};
use plangate_gate::run::Run;
use plangate_gate::time::Timestamp;
use serde::Serialize;
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::conclude::conclude;
use crate::error::Error;
use crate::freeze;
use crate::objects::Objects;
use crate::rows::{RunRow, run_key};
use crate::standing::Standing;
use crate::store::{Key, Store};
use crate::tasks::Tasks;
use crate::watched::tell;
use crate::workflow::{Execution, Workflow};

/// How long a run may be without an execution before it counts as dead, in seconds: Step Functions tells of a new one
/// with a delay.
const UNSEEN_SECONDS: u32 = 120;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Open runs that were looked at.
    pub seen: u64,
    /// Executions that were started.
    pub started: u64,
    /// Executions that were woken.
    pub woken: u64,
    /// Locks that were given to the head of a line, since who lifted a freeze had not done it.
    pub granted: u64,
    /// Executions of withdrawn runs that were stopped.
    pub stopped: u64,
    /// Runs that were dead and have ended now.
    pub concluded: u64,
    /// Runs that could not be seen to; the next sweep looks again.
    pub failed: u64,
    /// Those among them of which something in the table cannot be read: a sweep alone will not help them.
    pub unreadable: u64,
}

/// Sweeps all open runs once, and tells how they stand. One run's trouble does not keep it from the others.
///
/// # Errors
/// The index of open runs cannot be read.
pub async fn sweep(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    tasks: &dyn Tasks,
    now: Timestamp,
) -> Result<(Swept, Vec<Run>), Error> {
    let mut swept = Swept::default();
    let mut standing = Standing::default();
    let mut ended = Vec::new();
    let mut page = None;
    loop {
        let (keys, next) = store.open(page).await?;
        for key in keys {
            let seen = see_to(store, objects, workflow, tasks, &key, now, &mut standing);
            ended.extend(swept.count(&key, seen).await);
        }
        page = next;
        if page.is_none() {
            standing.measured().iter().for_each(tell);
            swept.troubles().iter().for_each(tell);
            return Ok((swept, ended));
        }
    }
}

/// Sees to one run alone, of whose execution something was heard: as `sweep` does, and no more. Many executions may end
/// at once, and each is a reason to look at one run, not at all.
pub async fn sweep_one(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    tasks: &dyn Tasks,
    run: &RunId,
    now: Timestamp,
) -> (Swept, Vec<Run>) {
    let mut swept = Swept::default();
    let (key, mut standing) = (run_key(run), Standing::default());
    let seen = see_to(store, objects, workflow, tasks, &key, now, &mut standing);
    let ended = swept.count(&key, seen).await;
    if swept.failed > 0 {
        swept.troubles().iter().for_each(tell);
    }
    (swept, ended.into_iter().collect())
}

impl Swept {
    /// Sees to a run, and counts what was done about it; gives the run if it has ended. All that is logged on the way says
    /// which run it is about.
    async fn count(&mut self, key: &Key, seeing: impl Future<Output = Result<Seen, Error>>) -> Option<Run> {
        let run = key.pk.strip_prefix("RUN#").unwrap_or(&key.pk);
        let span = tracing::info_span!("run", run, workspace = Empty);
        let seen = seeing.instrument(span.clone()).await;
        let _about = span.entered();
        self.seen += 1;
        match seen {
            Ok(Seen::Started) => self.started += 1,
            Ok(Seen::Woken) => self.woken += 1,
            Ok(Seen::Granted) => self.granted += 1,
            Ok(Seen::Stopped) => self.stopped += 1,
            Ok(Seen::Concluded(run)) => {
                self.concluded += 1;
                return Some(*run);
            }
            Ok(Seen::Well) => {}
            Err(error) => {
                self.failed += 1;
                self.unreadable += u64::from(error.is_unreadable());
                tracing::warn!(item = key.pk, %error, "an open run could not be seen to");
            }
        }
        None
    }

    /// What there is to tell of runs that could not be seen to.
    fn troubles(&self) -> [Measurement; 2] {
        [(Metric::RunsNotSeenTo, self.failed), (Metric::ItemsUnreadable, self.unreadable)]
            .map(|(metric, count)| Measurement::of(metric, f64::from(u32::try_from(count).unwrap_or(u32::MAX))))
    }
}

enum Seen {
    Well,
    Started,
    Woken,
    Granted,
    Stopped,
    Concluded(Box<Run>),
}

async fn see_to(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    tasks: &dyn Tasks,
    key: &Key,
    now: Timestamp,
    standing: &mut Standing,
) -> Result<Seen, Error> {
    // The index may lag: what counts is the run as it stands.
    let Some(item) = store.get(key).await? else { return Ok(Seen::Well) };
    let row = RunRow::from_item(&item)?;
    let run = &row.run;
    if run.status.is_terminal() {
        return Ok(Seen::Well);
    }
    standing.take(run, now);
    match (workflow.execution(run.kind, &run.id).await?, run.status) {
        (Execution::Absent, Status::Proposed) => {
            workflow.start(run.kind, &run.id).await?;
            Ok(Seen::Started)
        }
        // Withdrawn while it was planned, and the stop was lost: once it has stopped, the next sweep concludes it.
        (Execution::Running, _) if run.cancel.is_some() => {
            workflow.stop(run.kind, &run.id).await?;
            Ok(Seen::Stopped)
        }
        (Execution::Running, Status::Queued) => {
            let granted = freeze::resume(store, workflow, &run.workspace, "sweep", now).await?;
            Ok(if granted { Seen::Granted } else { Seen::Well })
        }
        (Execution::Running, status) => {
            // Granted or decided, and perhaps still asleep; or kept waiting by a freeze that has been lifted; or asked for
            // a decision that can no longer be given. To wake somebody who is awake does nothing, and who would only meet
            // a freeze is left asleep.
            let asleep = match status {
                Status::AwaitingApproval | Status::Approved if run.plan_expired(now) => true,
                Status::Proposed | Status::Planning | Status::Approved if row.token.is_some() => {
                    freeze::over(store, &run.workspace).await?.is_none()
                }
                _ => false,
            };
            match &row.token {
                Some(token) if asleep => {
                    workflow.wake(token).await?;
                    Ok(Seen::Woken)
                }
                _ => Ok(Seen::Well),
            }
        }
        (Execution::Absent, _) if run.updated_at.seconds_until(now) < UNSEEN_SECONDS => Ok(Seen::Well),
        (Execution::Absent | Execution::Ended, _) => {
            let run = conclude(store, objects, workflow, tasks, &run.id, None, "sweep", now).await?;
            Ok(Seen::Concluded(Box::new(run)))
        }
    }
}
