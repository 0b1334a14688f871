//! The reviewer of each binding: Bedrock is asked here, under the gate's own role; whatever needs a key, or an address that
//! a workspace names, is asked by the workspace's own function.

use plangate_gate::documents::ReviewerBinding;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_reviewer::{AlwaysEscalate, Live, Modelled, Reviewer};

use crate::aws::bedrock::Bedrock;
use crate::aws::review_function::InFunction;
use crate::review::Reviewers;

/// The reviewers that there are.
#[derive(Debug, Clone)]
pub struct AwsReviewers {
    bedrock: aws_sdk_bedrockruntime::Client,
    functions: aws_sdk_lambda::Client,
    random: fn() -> Option<[u8; 16]>,
}

impl AwsReviewers {
    /// Over these clients, with a source of randomness.
    #[must_use]
    pub const fn new(
        bedrock: aws_sdk_bedrockruntime::Client,
        functions: aws_sdk_lambda::Client,
        random: fn() -> Option<[u8; 16]>,
    ) -> Self {
        Self { bedrock, functions, random }
    }
}

impl Reviewers for AwsReviewers {
    fn of<'a>(&'a self, workspace: &WorkspaceId, run: &RunId, binding: &ReviewerBinding) -> Box<dyn Reviewer + 'a> {
        match binding {
            ReviewerBinding::AlwaysEscalate => Box::new(AlwaysEscalate),
            ReviewerBinding::Bedrock { model, budgets } => Box::new(Modelled {
                model: Bedrock::new(self.bedrock.clone(), model),
                budgets: *budgets,
                surroundings: Live::new(self.random),
            }),
            ReviewerBinding::Anthropic { .. } | ReviewerBinding::OpenaiCompatible { .. } => {
                Box::new(InFunction::new(&self.functions, workspace, run, binding))
            }
        }
    }
}
