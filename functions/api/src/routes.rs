//! The routes, and what a request's errors become.

use plangate_gate::documents::DocumentKind;
use plangate_gate::measure::Measurement;
use plangate_record::access::{Caller, identify, not_permitted};
use plangate_record::ahead::{self, Ahead};
use plangate_record::rows::run_key;
use plangate_record::store::{Key, Store, StoreError};
use plangate_record::strangers::Stranger;
use plangate_record::watched::tell;
use plangate_record::{Error, Refusal};
use plangate_wire::Reason;

use crate::configuration;
use crate::decode::{Answer, Event};
use crate::freezes::Change;
use crate::gate::Gate;
use crate::{freezes, reading, runs};

/// Answers a request.
pub(crate) async fn answer(gate: &Gate<'_>, event: &Event) -> Answer {
    let error = match known(gate, event).await {
        Ok(answer) => return answer,
        Err(error) => error,
    };
    let refusal = refusal(error, event.request_id());
    tracing::info!(reason = %refusal.reason, "refused");
    tell(&Measurement::refusal(refusal.reason.code()));
    if refusal.reason == Reason::NotPermitted {
        let asked = format!("{}:{}", event.method(), event.path().join("/"));
        let (identity, reason) = (event.identity(), refusal.reason.code());
        let stranger = Stranger { function: "api", identity, asked: &asked, reason };
        gate.strangers.refused(gate.store, &stranger, gate.now).await;
    }
    Answer::refusal(refusal)
}

/// Answers somebody whom configuration knows.
async fn known(gate: &Gate<'_>, event: &Event) -> Result<Answer, Error> {
    // No identity, or none that configuration knows: one and the same refusal.
    let identity = event.caller().ok_or_else(not_permitted)?;
    let who = identity.keys();
    let store: &dyn Store = &match Ahead::of(gate.store, &[&who[..], &foreseen(event)].concat()).await {
        // That something asked about is damaged is told to nobody before it is known who asks.
        Err(StoreError::Corrupt(_)) => Ahead::of(gate.store, &who).await?,
        read => read?,
    };
    let caller = identify(store, &identity, gate.administrator).await?;
    route(&Gate { store, ..*gate }, event, &caller).await
}

/// What a request is going to read, by its path: read together with who asks. Nothing of it is told before that is known.
fn foreseen(event: &Event) -> Vec<Key> {
    match (event.method(), event.path().as_slice()) {
        ("GET", ["v1", "runs", run, ..]) => run.parse().map(|run| vec![run_key(&run)]).unwrap_or_default(),
        ("POST", ["v1", "runs", run, ..]) => run.parse().map(|run| ahead::of_run(&run)).unwrap_or_default(),
        ("GET", ["v1", "workspaces", id]) => id.parse().map(|id| ahead::of_workspace(&id)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

async fn route(gate: &Gate<'_>, event: &Event, caller: &Caller) -> Result<Answer, Error> {
    let path = event.path();
    match (event.method(), path.as_slice()) {
        ("POST", ["v1", "bundles"]) => runs::bundle(gate, event, caller).await,
        ("POST", ["v1", "runs"]) => runs::propose(gate, event, caller).await,
        ("GET", ["v1", "runs"]) => reading::runs(gate, event, caller).await,
        ("GET", ["v1", "runs", run]) => reading::run(gate, caller, run).await,
        ("GET", ["v1", "runs", run, "projection"]) => reading::projection(gate, caller, run).await,
        ("GET", ["v1", "runs", run, "log", phase]) => reading::log(gate, event, caller, run, phase).await,
        ("GET", ["v1", "runs", run, "audit"]) => reading::audit(gate, event, caller, run).await,
        ("POST", ["v1", "runs", run, "decision"]) => runs::decide(gate, event, caller, run).await,
        ("POST", ["v1", "runs", run, "cancel"]) => runs::cancel(gate, event, caller, run).await,
        ("POST", ["v1", "runs", run, "annotations"]) => runs::annotate(gate, event, caller, run).await,
        ("POST", ["v1", "workspaces", id, "acknowledge"]) => configuration::acknowledge(gate, event, caller, id).await,
        ("POST", ["v1", "workspaces", id, "freeze"]) => {
            freezes::change(gate, event, caller, Some(id), Change::Freeze).await
        }
        ("POST", ["v1", "workspaces", id, "unfreeze"]) => {
            freezes::change(gate, event, caller, Some(id), Change::Lift).await
        }
        ("POST", ["v1", "freeze"]) => freezes::change(gate, event, caller, None, Change::Freeze).await,
        ("POST", ["v1", "unfreeze"]) => freezes::change(gate, event, caller, None, Change::Lift).await,
        ("GET", ["v1", "gate"]) => freezes::gate(gate, caller).await,
        (method, ["v1", kind, id @ ..]) => match (method, documents(kind), id) {
            ("GET", Some(kind), []) => configuration::list(gate, event, caller, kind).await,
            ("GET", Some(kind), [id]) => configuration::get(gate, caller, kind, id).await,
            ("PUT", Some(kind), [id]) => configuration::put(gate, event, caller, kind, id).await,
            _ => no_such_route(),
        },
        _ => no_such_route(),
    }
}

fn no_such_route() -> Result<Answer, Error> {
    Err(Refusal::new(Reason::NoSuchRoute, "there is no such route").into())
}

fn documents(name: &str) -> Option<DocumentKind> {
    match name {
        "workspaces" => Some(DocumentKind::Workspace),
        "policies" => Some(DocumentKind::Policy),
        "grants" => Some(DocumentKind::Grant),
        "principals" => Some(DocumentKind::Principal),
        _ => None,
    }
}

/// What an error is to the caller. What went wrong inside is for the log, by the request's id.
fn refusal(error: Error, request: &str) -> Refusal {
    match error {
        Error::Refused(refusal) => refusal,
        Error::NoSuchRun => not_permitted(),
        error if error.name() == "Unavailable" => {
            tracing::warn!(%error, "a request was not served");
            Refusal::new(Reason::Unavailable, "the gate could not do this now")
        }
        error => {
            tracing::error!(%error, "a request failed");
            let details = serde_json::json!({ "request": request });
            Refusal::new(Reason::Internal, "something in the gate failed").with(details)
        }
    }
}
