//! A run's audit events: listed for people, and their chain verified on this very machine (`R52`).

use plangate_gate::audit::{self, AuditEvent, Chain, What};
use plangate_gate::ids::RunId;
use plangate_gate::run::{Actor, ChainHead, Choice, Run, Surface};
use plangate_wire::{AnnotationView, AuditAnswer, EventView};
use serde::Serialize;

use crate::api::Api;
use crate::console::{Console, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::record::moment;
use crate::text::{count, inert, table};
use crate::watch;

/// What `audit --json` prints.
#[derive(Serialize)]
struct Verified<'a> {
    events: &'a [EventView],
    verified: bool,
    head: Option<&'a ChainHead>,
}

/// Lists the events of `run` and verifies their chain.
///
/// # Errors
/// The gate refuses, or the chain does not hold.
pub(crate) fn audit(api: &Api<'_>, console: &Console, run: &RunId) -> Result<Exit, CliError> {
    // The record first: events that come meanwhile make the chain longer, never shorter.
    let view = watch::read(api, run)?;
    let events = events(api, run)?;
    let verified = verify(&view.run, &events);
    if console.json {
        if let Ok(head) = &verified {
            console.out_json(&Verified { events: &events, verified: true, head: head.as_ref() })?;
        }
    } else {
        console.out(&listing(console, &events))?;
    }
    let head = verified?;
    if !console.json {
        let length = count(head.as_ref().map_or(0, |head| head.seq), "event");
        let good = console.paint.tone(Tone::Good, "verified");
        let end = head.map_or(String::new(), |head| format!(", ends in {}", head.digest));
        console.out(&format!("chain of {length} {good} on this machine{end}\n"))?;
    }
    Ok(Exit::Success)
}

/// What was noted to a run, from its chain of events as far as that can be trusted.
///
/// # Errors
/// The gate refuses, or the chain does not hold.
pub(crate) fn annotations(api: &Api<'_>, run: &Run) -> Result<Vec<AnnotationView>, CliError> {
    let events = events(api, &run.id)?;
    verify(run, &events)?;
    let noted = |view: &EventView| {
        let AuditEvent { seq, at, actor: by, what, .. } = serde_json::from_str(view.event.get()).ok()?;
        match what {
            What::RunAnnotated { note, corrects } => Some(AnnotationView { seq, by, at, note, corrects }),
            _ => None,
        }
    };
    Ok(events.iter().filter_map(noted).collect())
}

fn events(api: &Api<'_>, run: &RunId) -> Result<Vec<EventView>, CliError> {
    let path = ["v1", "runs", run.as_str(), "audit"];
    let mut events = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let query: Vec<(&str, &str)> = cursor.iter().map(|cursor| ("cursor", cursor.as_str())).collect();
        let page: AuditAnswer = api.decode_exact(&api.get_raw(&path, &query)?)?;
        events.extend(page.events);
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(events);
        }
    }
}

/// The chain's end, if it is whole and goes as far as the run's record does.
fn verify(run: &Run, events: &[EventView]) -> Result<Option<ChainHead>, CliError> {
    let pairs = events.iter().map(|view| (view.event.get(), view.digest));
    let head = audit::verify(&Chain::Run(run.id.clone()), pairs)?;
    // A chain that was cut at its end is still a chain; the record tells how far it must reach.
    let told = |view: &EventView| match serde_json::from_str::<AuditEvent>(view.event.get()).map(|event| event.what) {
        Ok(What::RunEnded { status, .. }) => status == run.status,
        Ok(What::RunProposed { .. }) => !run.status.is_terminal(),
        _ => false,
    };
    if events.iter().any(told) { Ok(head) } else { Err(CliError::ChainCut { status: run.status }) }
}

fn listing(console: &Console, events: &[EventView]) -> String {
    let rows: Vec<Vec<String>> = events
        .iter()
        .enumerate()
        .map(|(place, view)| match serde_json::from_str::<AuditEvent>(view.event.get()) {
            Ok(event) => vec![event.seq.to_string(), moment(event.at), who(&event.actor), what(&event.what)],
            Err(_) => vec![(place + 1).to_string(), "?".to_owned(), "?".to_owned(), "cannot be read".to_owned()],
        })
        .collect();
    let paint = console.paint;
    table(&["#", "AT", "WHO", "WHAT"], &rows, |_, _, cell| cell.to_owned(), |name| paint.tone(Tone::Dim, name))
}

fn who(actor: &Actor) -> String {
    match actor {
        Actor::Person { person, .. } | Actor::Slack { person, .. } => person.to_string(),
        Actor::Gate { function } => format!("gate/{}", inert(function)),
        Actor::Automatic => "automatic".to_owned(),
    }
}

/// An event in one line.
fn what(what: &What) -> String {
    match what {
        What::RunProposed { kind, bundle, .. } => format!("proposed, {kind}, bundle {bundle}"),
        What::RunQueued { place } => format!("queued at place {place}"),
        What::RunAdmitted { fence: 0 } => "admitted, without the lock".to_owned(),
        What::RunAdmitted { fence } => format!("admitted, holds the lock under fence {fence}"),
        What::PlanOrdered { order, .. } => format!("plan ordered, order {order}"),
        What::PlanReceived { plan } => format!("plan received, artifact {}", plan.artifact.digest),
        What::PlanProjected { projection, counts, .. } => format!(
            "projected, +{} ~{} -{} -/+{}, projection {projection}",
            counts.create, counts.update, counts.delete, counts.replace
        ),
        What::GuardrailsEvaluated { outcome } if outcome.eligible => "guardrails: eligible".to_owned(),
        What::GuardrailsEvaluated { outcome } => {
            format!("guardrails: not eligible, {}", count(outcome.findings_total, "reason"))
        }
        What::Reviewed { review } => {
            let cause = review.cause.map_or(String::new(), |cause| format!(", {cause}"));
            format!("reviewed: {}{cause}", review.decision.as_str())
        }
        What::ApprovalRequested { expires_at, .. } => format!("approval requested until {}", moment(*expires_at)),
        What::Decided { decision } => {
            format!("{}, projection {}", chosen(decision.choice), decision.projection)
        }
        What::DecisionWithoutEffect { decision, reason } => {
            format!("{} without effect: {}", chosen(decision.choice), inert(reason))
        }
        What::ApplyOrdered { artifact, .. } => format!("apply ordered, artifact {artifact}"),
        What::ApplyReceived { apply } => apply
            .exit_code
            .map_or_else(|| "apply ended".to_owned(), |code| format!("apply ended with exit code {code}")),
        What::NotificationFailed { surface: Surface::Slack, problem } => {
            format!("people could not be told in Slack: {}", inert(problem))
        }
        What::NotificationFailed { surface: Surface::Api | Surface::Automatic, problem } => {
            format!("people could not be told: {}", inert(problem))
        }
        What::CancelRequested { .. } => "withdrawal asked for".to_owned(),
        What::RunAnnotated { note, corrects } => {
            let corrects = corrects.map_or(String::new(), |place| format!(", corrects event {place}"));
            format!("annotated{corrects}: {}", inert(note))
        }
        What::RunEnded { status, failure, .. } => {
            let why = failure.as_ref().map_or(String::new(), |failure| format!(": {}", failure.reason.code()));
            format!("ended {status}{why}")
        }
        What::RunOpened { run } => format!("{run} opened"),
        What::RunClosed { run, status, .. } => format!("{run} closed, {status}"),
        What::LockQuarantined { run, reason } => format!("lock quarantined by {run}: {}", reason.code()),
        What::LockAcknowledged { run, .. } => format!("quarantine lifted, seen by {run}"),
        What::ChangedOutsideGate { run, before, after } => {
            let (before, after) = (inert(&before.state.to_string()), inert(&after.state.to_string()));
            format!("state changed outside of the gate, noticed by {run}: was {before}; is {after}")
        }
        What::DriftFound { run, projection, .. } => format!("drift found by {run}, projection {projection}"),
        What::DriftNotSeen { run, reason } => format!("drift could not be looked for by {run}: {}", reason.code()),
        What::DriftGone { run, .. } => format!("drift gone, seen by {run}"),
        What::Frozen { reason } => format!("frozen: {}", inert(reason)),
        What::FreezeLifted { reason } => format!("freeze lifted: {}", inert(reason)),
        What::AutomaticApprovalSwitchedOn { .. } => "automatic approval switched on".to_owned(),
        What::StrangerRefused { asked, reason, .. } => {
            format!("a stranger refused: {} ({})", inert(asked), inert(reason))
        }
        What::StrangersLeftOut { at_least, .. } => format!("at least {at_least} more refusals of strangers"),
        What::DocumentChanged { document, id, .. } => format!("{} {} changed", document.as_str(), inert(id)),
    }
}

const fn chosen(choice: Choice) -> &'static str {
    match choice {
        Choice::Approve => "approved",
        Choice::Reject => "rejected",
    }
}
