//! Where everything stands that runner and gate hand each other: the keys of the exchange bucket, and those of a
//! workspace's own bucket that both know.

use crate::digest::Digest;
use crate::ids::{RunId, WorkspaceId};
use crate::order::Phase;

/// Where a bundle stands.
#[must_use]
pub fn bundle_key(workspace: &WorkspaceId, digest: &Digest) -> String {
    format!("bundles/{workspace}/{}.tar.zst", digest.hex())
}

/// Where a phase's order stands.
#[must_use]
pub fn order_key(workspace: &WorkspaceId, run: &RunId, phase: Phase) -> String {
    format!("orders/{workspace}/{run}/{phase}.json")
}

/// Where the detached signatures of the apply order stand.
#[must_use]
pub fn signatures_key(workspace: &WorkspaceId, run: &RunId) -> String {
    format!("orders/{workspace}/{run}/apply.sig.json")
}

/// Where a phase's receipt stands.
#[must_use]
pub fn receipt_key(workspace: &WorkspaceId, run: &RunId, phase: Phase) -> String {
    format!("receipts/{workspace}/{run}/{phase}.json")
}

/// Where the plan document stands.
#[must_use]
pub fn document_key(workspace: &WorkspaceId, run: &RunId) -> String {
    format!("documents/{workspace}/{run}.json")
}

/// Where the plan artifact stands, in the workspace's own bucket.
#[must_use]
pub fn artifact_key(run: &RunId) -> String {
    format!("artifacts/{run}/plan.tfplan")
}

/// Where the projection stands.
#[must_use]
pub fn projection_key(workspace: &WorkspaceId, run: &RunId) -> String {
    format!("projections/{workspace}/{run}.json")
}

/// Where the claim stands.
#[must_use]
pub fn claim_key(workspace: &WorkspaceId, run: &RunId) -> String {
    format!("claims/{workspace}/{run}")
}

/// Where the first word after the apply stands.
#[must_use]
pub fn result_key(workspace: &WorkspaceId, run: &RunId) -> String {
    format!("results/{workspace}/{run}.json")
}

/// Where a phase's log stands.
#[must_use]
pub fn log_key(workspace: &WorkspaceId, run: &RunId, phase: Phase) -> String {
    format!("logs/{workspace}/{run}/{phase}.log")
}

/// Where the state is kept that an engine could not save, in the workspace's own bucket.
#[must_use]
pub fn errored_state_key(run: &RunId) -> String {
    format!("sealed/{run}/errored.tfstate")
}
