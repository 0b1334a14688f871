//! A workspace's own reviewer: asks its model, with its key, about its projections, and tells the gate what was said.

use plangate_lambda::WorkspaceClients;
use plangate_record::review_function;
use plangate_reviewer::Live;
use plangate_reviewer::function::{ReviewAnswer, ReviewRequest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve_workspace(handle).await
}

async fn handle(clients: &'static WorkspaceClients, request: ReviewRequest, surroundings: Live) -> ReviewAnswer {
    let WorkspaceClients { objects, parameters, workspace } = clients;
    review_function::answer(objects, parameters, &surroundings, workspace, &request).await
}
