//! What changes runs: bundles, proposals, decisions, withdrawals; and what is noted beside them.

use plangate_gate::documents::Action;
use plangate_gate::ids::RunId;
use plangate_gate::run::{Origin, Proposer, Surface};
use plangate_record::access::{Caller, not_permitted};
use plangate_record::objects::bundle_key;
use plangate_record::store::Store;
use plangate_record::{Error, Refusal, annotate, cancel, decide, documents, propose};
use plangate_wire::{
    AnnotateRequest, AnnotationAnswer, BundleAnswer, BundleRequest, CancelRequest, DecisionAnswer, DecisionRequest,
    ProposeRequest, Reason, RunAnswer,
};

use crate::decode::{Answer, Event};
use crate::gate::Gate;

/// The most bytes that a bundle may have.
const BUNDLE_LIMIT: u64 = 100 * 1024 * 1024;

/// `POST /v1/bundles`: where to put a bundle (`R4`).
pub(crate) async fn bundle(gate: &Gate<'_>, event: &Event, caller: &Caller) -> Result<Answer, Error> {
    let request: BundleRequest = event.body()?;
    caller.require(Action::Propose, Some(&request.workspace))?;
    documents::known_workspace(gate.store, &request.workspace).await?;
    if request.bytes == 0 {
        return Err(Refusal::new(Reason::InvalidRequest, "a bundle has at least one byte").into());
    }
    if request.bytes > BUNDLE_LIMIT {
        let message = format!("the bundle has {} bytes; {BUNDLE_LIMIT} are allowed", request.bytes);
        return Err(Refusal::new(Reason::BundleTooLarge, message).into());
    }
    let key = bundle_key(&request.workspace, &request.digest);
    let there = gate.objects.head(&key).await?;
    if matches!(there, Some((bytes, Some(digest))) if bytes == request.bytes && digest == request.digest) {
        return Ok(Answer::of(200, &BundleAnswer { present: true, url: None, headers: Vec::new() })?);
    }
    let presigned = gate.presigner.put(&key, &request.digest, request.bytes).await?;
    let answer = BundleAnswer { present: false, url: Some(presigned.url), headers: presigned.headers };
    Ok(Answer::of(200, &answer)?)
}

/// `POST /v1/runs`.
pub(crate) async fn propose(gate: &Gate<'_>, event: &Event, caller: &Caller) -> Result<Answer, Error> {
    let request: ProposeRequest = event.body()?;
    caller.require(Action::Propose, Some(&request.workspace))?;
    let proposer = Proposer {
        person: caller.person().clone(),
        arn: caller.identity().to_owned(),
        on_behalf_of: request.on_behalf_of.clone(),
    };
    let store: &dyn Store = &propose::ahead(gate.store, &request, &proposer, gate.now).await?;
    let spec = documents::known_workspace(store, &request.workspace).await?;
    if caller.is_bot() && request.on_behalf_of.is_none() && spec.distinct_approver {
        let message = "this workspace asks for another approver, so a bot names the person whom it speaks for";
        return Err(Refusal::new(Reason::InvalidRequest, message).into());
    }
    if request.on_behalf_of.is_some() && !caller.is_bot() {
        let message = "only a bot proposes on somebody's behalf";
        return Err(Refusal::new(Reason::InvalidRequest, message).into());
    }
    if request.origin == Origin::Drift {
        let message = "only the gate's own schedule looks for drift; a person makes a plan-only run";
        return Err(Refusal::new(Reason::InvalidRequest, message).into());
    }
    let mut randomness = [0; 10];
    getrandom::fill(&mut randomness)
        .map_err(|_| Refusal::new(Reason::Unavailable, "the machine has no randomness to give"))?;
    let run = RunId::new(gate.now, randomness);
    let Gate { objects, workflow, bucket, now, .. } = *gate;
    let run = propose::propose(store, objects, workflow, bucket, &request, &proposer, run, now).await?;
    Ok(Answer::of(201, &RunAnswer { run: run.into() })?)
}

/// `POST /v1/runs/{id}/decision`.
pub(crate) async fn decide(gate: &Gate<'_>, event: &Event, caller: &Caller, run: &str) -> Result<Answer, Error> {
    let request: DecisionRequest = event.body()?;
    let run = id(run)?;
    let (run, decision) =
        decide::decide(gate.store, gate.workflow, caller, &run, &request, Surface::Api, gate.now).await?;
    Ok(Answer::of(200, &DecisionAnswer { run: run.into(), decision })?)
}

/// `POST /v1/runs/{id}/cancel`.
pub(crate) async fn cancel(gate: &Gate<'_>, event: &Event, caller: &Caller, run: &str) -> Result<Answer, Error> {
    let request: CancelRequest = event.body()?;
    let run = cancel::cancel(gate.store, gate.workflow, caller, &id(run)?, &request, gate.now).await?;
    Ok(Answer::of(200, &RunAnswer { run: run.into() })?)
}

/// `POST /v1/runs/{id}/annotations`.
pub(crate) async fn annotate(gate: &Gate<'_>, event: &Event, caller: &Caller, run: &str) -> Result<Answer, Error> {
    let request: AnnotateRequest = event.body()?;
    let run = id(run)?;
    let annotation = annotate::annotate(gate.store, caller, &run, &request, gate.now).await?;
    Ok(Answer::of(201, &AnnotationAnswer { run, annotation })?)
}

/// A run's id from a path. One that cannot be is one that is not there.
pub(crate) fn id(text: &str) -> Result<RunId, Refusal> {
    text.parse().map_err(|_| not_permitted())
}
