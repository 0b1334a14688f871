//! What a workspace's own review function does: reads that workspace's projection and the key of its model, asks, and
//! tells the gate what was said. It has nothing of the control plane: no table, no decision (`R21`, `R39`).

use async_trait::async_trait;
use plangate_gate::digest::Digest;
use plangate_gate::documents::{Budgets, ReviewerBinding};
use plangate_gate::ids::WorkspaceId;
use plangate_gate::review::Cause;
use plangate_reviewer::function::{ReviewAnswer, ReviewRequest};
use plangate_reviewer::{Anthropic, Key, Model, OpenAi, Report, Submission, Surroundings, ask};

use crate::objects::{Objects, projection_key};
use crate::review::PROJECTION_LIMIT;

/// Where keys of models are.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Reads the key in this parameter.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    async fn key(&self, parameter: &str) -> Result<Key, Cause>;
}

/// Answers the gate on behalf of `workspace`, whose function this is. Every failure is a cause to ask a person.
pub async fn answer(
    objects: &dyn Objects,
    keys: &dyn Keys,
    surroundings: &dyn Surroundings,
    workspace: &WorkspaceId,
    request: &ReviewRequest,
) -> ReviewAnswer {
    let report = match look(objects, keys, surroundings, workspace, request).await {
        Ok(report) => report,
        Err(cause) => Report::escalated(cause),
    };
    ReviewAnswer::of(report, request.projection)
}

async fn look(
    objects: &dyn Objects,
    keys: &dyn Keys,
    surroundings: &dyn Surroundings,
    workspace: &WorkspaceId,
    request: &ReviewRequest,
) -> Result<Report, Cause> {
    let (model, budgets) = model(keys, &request.reviewer).await?;
    let key = projection_key(workspace, &request.run);
    let object = objects.get(&key, None, PROJECTION_LIMIT).await.map_err(|_| Cause::FunctionFailed)?;
    let projection = object.ok_or(Cause::ProjectionDiffers)?.bytes;
    if Digest::of(&projection) != request.projection {
        return Err(Cause::ProjectionDiffers);
    }
    let submission = Submission { projection: &projection, policy: &request.policy };
    Ok(ask(&*model, &submission, &budgets, surroundings).await)
}

/// The model that a binding names, with its key.
async fn model(keys: &dyn Keys, binding: &ReviewerBinding) -> Result<(Box<dyn Model>, Budgets), Cause> {
    match binding {
        ReviewerBinding::Anthropic { model, key_parameter, base_url, budgets } => {
            let key = keys.key(key_parameter).await?;
            Ok((Box::new(Anthropic::new(model, base_url.as_deref(), key)), *budgets))
        }
        ReviewerBinding::OpenaiCompatible { model, base_url, key_parameter, budgets } => {
            let key = match key_parameter {
                Some(parameter) => Some(keys.key(parameter).await?),
                None => None,
            };
            Ok((Box::new(OpenAi::new(model, base_url, key)), *budgets))
        }
        // These need no key, and the gate does not ask here for them.
        ReviewerBinding::AlwaysEscalate | ReviewerBinding::Bedrock { .. } => Err(Cause::FunctionFailed),
    }
}
