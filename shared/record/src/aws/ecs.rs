//! The tasks of runs in ECS, found by the name under which the workflow started them.

use async_trait::async_trait;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::types::DesiredStatus;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;

use crate::aws::kind;
use crate::tasks::{TaskState, Tasks, started_by};
use crate::workflow::WorkflowError;

/// The cluster in which runners run.
#[derive(Debug, Clone)]
pub struct EcsTasks {
    client: Client,
    cluster: String,
}

impl EcsTasks {
    /// The cluster with this name.
    #[must_use]
    pub fn new(client: Client, cluster: String) -> Self {
        Self { client, cluster }
    }

    /// The ARNs of the tasks of a phase that ECS still knows, stopped ones included.
    ///
    /// # Errors
    /// AWS does not answer.
    pub async fn of(&self, run: &RunId, phase: Phase) -> Result<Vec<String>, WorkflowError> {
        let mut found = Vec::new();
        for desired in [DesiredStatus::Running, DesiredStatus::Stopped] {
            let request = self.client.list_tasks().cluster(&self.cluster).started_by(started_by(run, phase));
            let answer = request.desired_status(desired).send().await;
            let answer = answer.map_err(|error| WorkflowError { call: "ListTasks", error: kind(&error) })?;
            found.extend(answer.task_arns.unwrap_or_default());
        }
        Ok(found)
    }
}

#[async_trait]
impl Tasks for EcsTasks {
    async fn stop(&self, run: &RunId, phase: Phase) -> Result<TaskState, WorkflowError> {
        let arns = self.of(run, phase).await?;
        if arns.is_empty() {
            return Ok(TaskState::Stopped);
        }
        let request = self.client.describe_tasks().cluster(&self.cluster).set_tasks(Some(arns));
        let answer = request.send().await;
        let answer = answer.map_err(|error| WorkflowError { call: "DescribeTasks", error: kind(&error) })?;
        let mut state = TaskState::Stopped;
        for task in answer.tasks() {
            if task.last_status() == Some("STOPPED") {
                continue;
            }
            state = TaskState::Stopping;
            let arn = task.task_arn().unwrap_or_default();
            let request = self.client.stop_task().cluster(&self.cluster).task(arn).reason("the run has ended");
            request.send().await.map_err(|error| WorkflowError { call: "StopTask", error: kind(&error) })?;
        }
        Ok(state)
    }
}
