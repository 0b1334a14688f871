//! Proposing a run: one record, one event, one anchor in the ledger; then its execution.

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::order::StoredObject;
use plangate_gate::run::{Actor, Kind, Origin, Proposer, Run, RunSchema};
use plangate_gate::time::Timestamp;
use plangate_wire::{ProposeRequest, Reason};

use crate::ahead::Ahead;
use crate::attempt::Attempts;
use crate::documents;
use crate::error::{Error, Refusal};
use crate::objects::{Objects, bundle_key};
use crate::requests::Remembered;
use crate::rows::{ChainRow, RunRow, head_key};
use crate::store::{Key, Store, StoreError, Write};
use crate::workflow::Workflow;

/// Reads ahead what a proposal needs: the workspace, whether the request was answered before, where the ledger ends.
///
/// # Errors
/// The table does not answer, or what stands there is damaged.
pub async fn ahead<'a>(
    store: &'a dyn Store,
    request: &ProposeRequest,
    proposer: &Proposer,
    now: Timestamp,
) -> Result<Ahead<'a>, Error> {
    let remembered = Remembered::new(&proposer.person, &request.request_id, request, now)?;
    let mut keys = keys(&remembered, &request.workspace).to_vec();
    keys.push(documents::key(DocumentKind::Workspace, request.workspace.as_str()));
    Ok(Ahead::of(store, &keys).await?)
}

fn keys(remembered: &Remembered, workspace: &WorkspaceId) -> [Key; 2] {
    [remembered.key().clone(), head_key(&Chain::Workspace(workspace.clone()))]
}

/// Records a proposal of somebody who may make it, and starts its execution. `run` is the new run's id; `bucket` the
/// exchange bucket's name.
///
/// The same request again gives the same run, for a day.
///
/// # Errors
/// The bundle is not there, the request id was used for another request, or AWS does not answer.
#[expect(clippy::too_many_arguments, reason = "time, identity and place are parameters, each of its own type")]
pub async fn propose(
    store: &dyn Store,
    objects: &dyn Objects,
    workflow: &dyn Workflow,
    bucket: &str,
    request: &ProposeRequest,
    proposer: &Proposer,
    run: RunId,
    now: Timestamp,
) -> Result<Run, Error> {
    let remembered = Remembered::new(&proposer.person, &request.request_id, request, now)?;
    let actor = Actor::Person { person: proposer.person.clone(), arn: proposer.arn.clone() };
    let mut attempts = Attempts::new(run.as_str());
    loop {
        let store: &dyn Store = &Ahead::of(store, &keys(&remembered, &request.workspace)).await?;
        if let Some(first) = remembered.first_answer(store).await? {
            let id = first.parse().map_err(|_| Error::RecordInvalid { what: "a request", error: first })?;
            let row = RunRow::load(store, &id).await?;
            // Whoever asks again may do so because the start was lost.
            start(workflow, &row.run).await;
            return Ok(row.run);
        }
        if let Some(other) = &request.derived_from {
            let row = RunRow::find(store, other).await?;
            if row.is_none_or(|row| row.run.workspace != request.workspace) {
                let message = format!("`derived_from` is not a run of the workspace `{}`", request.workspace);
                return Err(Refusal::new(Reason::InvalidRequest, message).into());
            }
        }
        let proposal = Proposal {
            workspace: &request.workspace,
            kind: request.kind,
            bundle: request.bundle,
            origin: request.origin,
            derived_from: request.derived_from.as_ref(),
            proposer,
            actor: &actor,
        };
        let with = vec![remembered.write(run.as_str())?];
        let (proposed, outcome) = record(store, objects, bucket, &proposal, &run, with, now).await?;
        if attempts.settle(outcome).await?.is_some() {
            start(workflow, &proposed).await;
            return Ok(proposed);
        }
    }
}

/// A run that is to be.
pub(crate) struct Proposal<'a> {
    /// Where.
    pub(crate) workspace: &'a WorkspaceId,
    /// Whether it may ever be applied.
    pub(crate) kind: Kind,
    /// Its configuration, which was uploaded.
    pub(crate) bundle: Digest,
    /// What it comes from.
    pub(crate) origin: Origin,
    /// The run that it is derived from, which is one of the workspace.
    pub(crate) derived_from: Option<&'a RunId>,
    /// Who proposes.
    pub(crate) proposer: &'a Proposer,
    /// Who acts, as it is recorded.
    pub(crate) actor: &'a Actor,
}

/// Records a proposal as `run`, together `with` other writes. One try: `Conflict` means read again.
///
/// # Errors
/// The bundle is not there (a refusal), or AWS does not answer.
pub(crate) async fn record(
    store: &dyn Store,
    objects: &dyn Objects,
    bucket: &str,
    proposal: &Proposal<'_>,
    run: &RunId,
    with: Vec<Write>,
    now: Timestamp,
) -> Result<(Run, Result<(), StoreError>), Error> {
    let Proposal { workspace, kind, bundle: digest, origin, derived_from, proposer, actor } = *proposal;
    let key = bundle_key(workspace, &digest);
    let bytes = match objects.head(&key).await? {
        Some((bytes, Some(found))) if found == digest => bytes,
        _ => {
            let message = format!("the bundle `{digest}` was not uploaded, or not whole");
            return Err(Refusal::new(Reason::BundleMissing, message).into());
        }
    };
    let bundle = StoredObject { bucket: bucket.to_owned(), key, version_id: None, digest, bytes };
    let new = Run {
        schema: RunSchema::V1,
        id: run.clone(),
        workspace: workspace.clone(),
        kind,
        status: Status::Proposed,
        proposer: proposer.clone(),
        origin,
        derived_from: derived_from.cloned(),
        proposed_at: now,
        updated_at: now,
        bundle,
        fence: 0,
        queued_as: None,
        pinned: None,
        plan_order: None,
        plan_ordered_at: None,
        known_moves: None,
        plan: None,
        compared: None,
        projection: None,
        guardrails: None,
        review: None,
        decision: None,
        apply: None,
        drift: None,
        failure: None,
        cancel: None,
        ended_at: None,
    };
    let mut chain = ChainRow::fresh(Chain::Run(run.clone()));
    let proposed = What::RunProposed { kind, bundle: digest, proposer: proposer.clone(), origin };
    chain.append(now, actor, proposed)?;
    let mut ledger = ChainRow::load(store, Chain::Workspace(workspace.clone())).await?;
    ledger.append(now, actor, What::RunOpened { run: run.clone() })?;
    let row = RunRow { run: new, version: 0, token: None, token_at: None };
    let mut writes = vec![row.put()?];
    writes.extend(with);
    writes.extend(chain.writes()?);
    writes.extend(ledger.writes()?);
    Ok((row.run, store.transact(writes).await))
}

/// Starts a run's execution where it is still to be started. If the start fails the run stands all the same, and the
/// sweeper starts it.
pub(crate) async fn start(workflow: &dyn Workflow, run: &Run) {
    if run.status == Status::Proposed
        && let Err(error) = workflow.start(run.kind, &run.id).await
    {
        tracing::warn!(run = %run.id, %error, "the execution was not started; the sweeper will");
    }
}
