//! The live logs of runners in CloudWatch Logs.

use async_trait::async_trait;
use aws_sdk_cloudwatchlogs::Client;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;
use plangate_gate::printed;

use crate::aws::{EcsTasks, kind};
use crate::logs::{LiveLogs, LogPage};
use crate::workflow::WorkflowError;

/// The runners' log group. A phase's stream is named by its task.
#[derive(Debug, Clone)]
pub struct CloudWatchLogs {
    client: Client,
    tasks: EcsTasks,
    group: String,
}

impl CloudWatchLogs {
    /// The group with this name, whose tasks run in `tasks`' cluster.
    #[must_use]
    pub fn new(client: Client, tasks: EcsTasks, group: String) -> Self {
        Self { client, tasks, group }
    }
}

#[async_trait]
impl LiveLogs for CloudWatchLogs {
    async fn page(&self, run: &RunId, phase: Phase, from: Option<&str>) -> Result<LogPage, WorkflowError> {
        let Some(task) = self.tasks.of(run, phase).await?.into_iter().next() else { return Ok(LogPage::default()) };
        let task = task.task_arn().and_then(|arn| arn.rsplit('/').next()).unwrap_or_default();
        let request = self
            .client
            .get_log_events()
            .log_group_name(&self.group)
            .log_stream_name(format!("runner/runner/{task}"))
            .start_from_head(true)
            .set_next_token(from.map(str::to_owned));
        match request.send().await {
            Ok(answer) => {
                let printed = answer.events().iter().filter_map(|event| event.message().map(str::to_owned));
                Ok(LogPage { lines: printed::text(printed), next: answer.next_forward_token })
            }
            // The task has not said anything yet.
            Err(error) if error.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => {
                Ok(LogPage::default())
            }
            Err(error) => Err(WorkflowError { call: "GetLogEvents", error: kind(&error) }),
        }
    }
}
