//! Calling a workspace's review function, whose name follows from the workspace's id.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::error::SdkError;
use aws_sdk_lambda::primitives::Blob;
use plangate_gate::digest::Digest;
use plangate_gate::documents::ReviewerBinding;
use plangate_gate::guardrails::Eligible;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::review::Cause;
use plangate_reviewer::function::{RequestSchema, ReviewAnswer, ReviewRequest, function_name};
use plangate_reviewer::{Report, Reviewer, Submission};

/// What the function may take beyond the budget of its model: its start, the projection and the key.
const BESIDE_THE_MODEL: Duration = Duration::from_secs(15);

/// A reviewer that stands in a function of the workspace's own.
#[derive(Debug)]
pub struct InFunction<'a> {
    client: &'a Client,
    workspace: WorkspaceId,
    run: RunId,
    binding: ReviewerBinding,
}

impl<'a> InFunction<'a> {
    /// The reviewer of this run in its workspace's function, by this binding.
    #[must_use]
    pub fn new(client: &'a Client, workspace: &WorkspaceId, run: &RunId, binding: &ReviewerBinding) -> Self {
        Self { client, workspace: workspace.clone(), run: run.clone(), binding: binding.clone() }
    }

    async fn call(&self, request: Vec<u8>) -> Result<Vec<u8>, Cause> {
        let seconds = self.binding.model().map_or(0, |(_, budgets)| budgets.seconds);
        let within = Duration::from_secs(seconds.into()) + BESIDE_THE_MODEL;
        // The function counts the attempts.
        let config = aws_sdk_lambda::config::Config::builder()
            .timeout_config(TimeoutConfig::builder().operation_timeout(within).build())
            .retry_config(RetryConfig::disabled());
        let call = self.client.invoke().function_name(function_name(&self.workspace)).payload(Blob::new(request));
        let answer = call.customize().config_override(config).send().await.map_err(|error| {
            tracing::warn!(run = %self.run, error = super::kind(&error), "the review function cannot be called");
            if matches!(error, SdkError::TimeoutError(_)) { Cause::TimedOut } else { Cause::FunctionUnavailable }
        })?;
        if answer.function_error().is_some() {
            return Err(Cause::FunctionFailed);
        }
        Ok(answer.payload.map(Blob::into_inner).unwrap_or_default())
    }
}

#[async_trait]
impl Reviewer for InFunction<'_> {
    fn binding(&self) -> &'static str {
        self.binding.name()
    }

    async fn review(&self, _eligible: &Eligible, submission: Submission<'_>) -> Report {
        let request = ReviewRequest {
            schema: RequestSchema::V1,
            run: self.run.clone(),
            projection: Digest::of(submission.projection),
            policy: submission.policy.to_owned(),
            reviewer: self.binding.clone(),
        };
        let Ok(request) = serde_json::to_vec(&request) else { return Report::escalated(Cause::FunctionUnavailable) };
        match self.call(request).await {
            Ok(answer) => ReviewAnswer::read_untrusted(&answer, &submission),
            Err(cause) => Report::escalated(cause),
        }
    }
}
