//! Freezing and lifting: of one workspace, or of the gate as a whole.

use plangate_gate::documents::Action;
use plangate_gate::ids::WorkspaceId;
use plangate_gate::lifecycle::Status;
use plangate_record::access::{Caller, not_permitted};
use plangate_record::rows::LockRow;
use plangate_record::{Error, freeze};
use plangate_wire::{FreezeRequest, GateAnswer, RunView};

use crate::decode::{Answer, Event};
use crate::gate::Gate;
use crate::standing;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// To freeze.
    Freeze,
    /// To lift a freeze.
    Lift,
}

/// `GET /v1/gate`: for those who may read everywhere.
pub(crate) async fn gate(gate: &Gate<'_>, caller: &Caller) -> Result<Answer, Error> {
    caller.require(Action::Read, None)?;
    answer(gate).await
}

async fn answer(gate: &Gate<'_>) -> Result<Answer, Error> {
    let frozen = freeze::gate_view(gate.store).await?;
    Ok(Answer::of(200, &GateAnswer { frozen })?)
}

/// `POST /v1/freeze` and `/v1/unfreeze`, and the same of a workspace.
pub(crate) async fn change(
    gate: &Gate<'_>,
    event: &Event,
    caller: &Caller,
    id: Option<&str>,
    change: Change,
) -> Result<Answer, Error> {
    let request: FreezeRequest = event.body()?;
    let workspace: Option<WorkspaceId> = id.map(str::parse).transpose().map_err(|_| not_permitted())?;
    let scope = workspace.as_ref();
    match change {
        Change::Freeze => freeze::freeze(gate.store, caller, scope, &request, gate.now).await?,
        Change::Lift => freeze::lift(gate.store, gate.workflow, caller, scope, &request, gate.now).await?,
    }
    match scope {
        Some(workspace) => Ok(Answer::of(200, &standing::lock(gate, workspace).await?)?),
        None => answer(gate).await,
    }
}

/// Tells of a run which freezes it waits behind: whoever has been started ends.
pub(crate) async fn shown(gate: &Gate<'_>, view: &mut RunView) -> Result<(), Error> {
    if !view.run.status.is_terminal() && view.run.status != Status::Applying {
        let lock = LockRow::load(gate.store, &view.run.workspace).await?;
        view.frozen = freeze::views(gate.store, &lock).await?;
    }
    Ok(())
}
