//! How a workspace stands, for people: its lock with what a closed one asks for, what is known of its state, its drift.

use plangate_gate::documents::WorkspaceSpec;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::known::Known;
use plangate_gate::lock::LockState;
use plangate_gate::order::StoredObject;
use plangate_gate::run::Run;
use plangate_record::objects::claim_key;
use plangate_record::rows::{LockRow, PlaceRow, RunRow};
use plangate_record::{Error, drift as looks, freeze};
use plangate_wire::{DriftView, Evidence, KnownView, LockView, OutsideView, Step};

use crate::gate::Gate;
use crate::trail;

/// How many of those who wait are counted.
const COUNTED: usize = 1_000;

/// A workspace's lock: who holds it and who waits; of one that nobody gets any more, why that is, what is known, and the
/// commands that open it, in their order.
pub(crate) async fn lock(gate: &Gate<'_>, workspace: &WorkspaceId) -> Result<LockView, Error> {
    let row = LockRow::load(gate.store, workspace).await?;
    let frozen = freeze::views(gate.store, &row).await?;
    let waiting = PlaceRow::line(gate.store, workspace, COUNTED).await?.len() as u64;
    let mut view = LockView { state: "free".to_owned(), fence: row.lock.fence, waiting, frozen, ..LockView::default() };
    match row.lock.lock {
        LockState::Free => {}
        LockState::Held { run } => {
            "held".clone_into(&mut view.state);
            let record = RunRow::find(gate.store, &run).await?.map(|row| row.run);
            view.run = Some(run.clone());
            // Nobody ends any more who would pass it on: somebody has changed the one or the other in the table.
            if let Some(ended_at) = record.as_ref().and_then(|run| run.ended_at) {
                view.since = Some(ended_at);
                view.reason = Some("held-by-an-ended-run".to_owned());
                view.detail =
                    Some(format!("`{run}` has ended, and the lock was not passed on: somebody has changed it"));
                open_again(&mut view, gate, workspace, &run, record.as_ref());
            }
        }
        LockState::Quarantined { run, since } => {
            "quarantined".clone_into(&mut view.state);
            let record = RunRow::find(gate.store, &run).await?.map(|row| row.run);
            let failure = record.as_ref().and_then(|run| run.failure.as_ref());
            view.run = Some(run.clone());
            view.since = Some(since);
            view.reason = failure.map(|failure| failure.reason.code().to_owned());
            view.detail = failure.map(|failure| failure.detail.clone());
            open_again(&mut view, gate, workspace, &run, record.as_ref());
        }
    }
    Ok(view)
}

/// Tells what is known of a lock that nobody gets any more, and how it is opened.
fn open_again(view: &mut LockView, gate: &Gate<'_>, workspace: &WorkspaceId, run: &RunId, record: Option<&Run>) {
    view.evidence = record.map(|run| evidence(gate, run)).unwrap_or_default();
    let step = |what: &str, command: String| Step { what: what.to_owned(), command };
    view.steps = vec![
        step("what the run was to change, and how it ended", format!("plangate show {run}")),
        step("what the engine said while it applied", format!("plangate log {run} apply")),
        step(
            "once the estate has been looked at, and put right where it has to be: read the state as it is now",
            format!("plangate propose FOLDER --workspace {workspace} --plan-only --watch"),
        ),
        step(
            "open the lock, naming that run and what was found; who waits goes on",
            format!("plangate workspace acknowledge {workspace} --run RUN --note TEXT"),
        ),
    ];
    view.next_step = Some(format!(
        "nobody knows what `{run}` has applied: look at the estate, make a plan-only run, then \
         `plangate workspace acknowledge {workspace} --run RUN --note TEXT`"
    ));
    if view.state == "held" {
        view.next_step = Some(format!(
            "`{run}` has ended and still holds the lock: look at the estate, make a plan-only run, then \
             `plangate workspace acknowledge {workspace} --run RUN --note TEXT`"
        ));
    }
}

/// What is known of an apply: who had the right to it, what stood before, what after, and what it left behind.
fn evidence(gate: &Gate<'_>, run: &Run) -> Vec<Evidence> {
    let mut found = Vec::new();
    let mut add = |what: &str, value: String| found.push(Evidence { what: what.to_owned(), value });
    let Some(apply) = &run.apply else { return found };
    add("ordered", apply.ordered_at.to_string());
    add("claim, which says who was to apply", format!("s3://{}/{}", gate.bucket, claim_key(&run.workspace, &run.id)));
    if let Some(plan) = &run.plan {
        add("state that was planned against", plan.state.to_string());
    }
    if let Some(state) = &apply.state_after {
        add("state that was last saved", state.to_string());
    }
    if let Some(code) = apply.exit_code {
        add("engine's exit code", code.to_string());
    }
    if let Some(object) = &apply.errored_state {
        add("state that the engine could not save", address(object));
    }
    if let Some(orphan) = apply.state_lock.as_ref().and_then(|lock| lock.orphan.as_ref()) {
        let (id, operation, created) = (&orphan.id, &orphan.operation, &orphan.created);
        add("engine's own lock, which still stands", format!("{id}, {operation}, {created}"));
    }
    found
}

fn address(object: &StoredObject) -> String {
    let version = object.version_id.as_ref().map_or(String::new(), |version| format!(", version {version}"));
    format!("s3://{}/{}{version}", object.bucket, object.key)
}

/// What is known of a workspace's state; nothing before its first plan.
pub(crate) fn known(known: Known, workspace: &WorkspaceId, spec: &WorkspaceSpec) -> Option<KnownView> {
    if known.seen.is_none() && known.unsettled.is_none() {
        return None;
    }
    let outside = known.outside.map(|change| OutsideView {
        who: trail::who(workspace, spec, change.before.from, change.after.to),
        before: change.before,
        after: change.after,
    });
    Some(KnownView { seen: known.seen, unsettled: known.unsettled, outside })
}

/// How a workspace stands with drift; nothing where nobody ever asked for that.
pub(crate) async fn drift(
    gate: &Gate<'_>,
    workspace: &WorkspaceId,
    spec: &WorkspaceSpec,
    known: &Known,
) -> Result<Option<DriftView>, Error> {
    let last = looks::last_look(gate.store, workspace).await?;
    let standing = looks::standing(gate.store, workspace).await?;
    if spec.drift_hours.is_none() && last.is_none() {
        return Ok(None);
    }
    let run = match &last {
        Some(last) => RunRow::find(gate.store, &last.run).await?.map(|row| row.run),
        None => None,
    };
    let due = match (&last, &run, spec.drift_hours) {
        (Some(last), Some(run), Some(hours)) if run.status.is_terminal() => Some(last.next(hours, looks::said(run))),
        _ => None,
    };
    let note = (spec.drift_hours.is_some() && known.applied.is_none())
        .then(|| "no run has been applied yet: there is nothing to hold the estate against".to_owned());
    Ok(Some(DriftView {
        hours: spec.drift_hours,
        run: run.as_ref().map(|run| run.id.clone()),
        status: run.as_ref().map(|run| run.status),
        failure: run.as_ref().and_then(|run| run.failure.as_ref()).map(|failure| failure.reason.code().to_owned()),
        due,
        looked_at: standing.as_ref().and_then(|drift| drift.looked_at),
        finding: standing.and_then(|drift| drift.finding),
        note,
    }))
}
