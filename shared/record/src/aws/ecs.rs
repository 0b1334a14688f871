//! The tasks of runs in ECS, found by what the workflow told them.

use async_trait::async_trait;
use aws_sdk_ecs::Client;
use aws_sdk_ecs::types::{ContainerOverride, DesiredStatus, Task, TaskOverride};
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;

use crate::aws::kind;
use crate::tasks::{TaskState, Tasks};
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

    /// The tasks of a phase that ECS still knows, stopped ones included.
    ///
    /// The workflow cannot name the tasks that it starts, so they are known by what it told them: run and phase.
    ///
    /// # Errors
    /// AWS does not answer.
    pub async fn of(&self, run: &RunId, phase: Phase) -> Result<Vec<Task>, WorkflowError> {
        let mut found = Vec::new();
        for desired in [DesiredStatus::Running, DesiredStatus::Stopped] {
            let mut pages =
                self.client.list_tasks().cluster(&self.cluster).desired_status(desired).into_paginator().send();
            while let Some(page) = pages.next().await {
                let page = page.map_err(|error| WorkflowError { call: "ListTasks", error: kind(&error) })?;
                let arns = page.task_arns.unwrap_or_default();
                if arns.is_empty() {
                    continue;
                }
                let request = self.client.describe_tasks().cluster(&self.cluster).set_tasks(Some(arns));
                let answer = request.send().await;
                let answer = answer.map_err(|error| WorkflowError { call: "DescribeTasks", error: kind(&error) })?;
                found.extend(answer.tasks.unwrap_or_default().into_iter().filter(|task| belongs(task, run, phase)));
            }
        }
        Ok(found)
    }
}

/// Whether a task was started for this phase of this run.
fn belongs(task: &Task, run: &RunId, phase: Phase) -> bool {
    let overrides = task.overrides().map(TaskOverride::container_overrides).unwrap_or_default();
    let told = |name: &str, value: &str| {
        let mut variables = overrides.iter().flat_map(ContainerOverride::environment);
        variables.any(|variable| variable.name() == Some(name) && variable.value() == Some(value))
    };
    told("PLANGATE_RUN", run.as_str()) && told("PLANGATE_PHASE", phase.as_str())
}

#[async_trait]
impl Tasks for EcsTasks {
    async fn stop(&self, run: &RunId, phase: Phase) -> Result<TaskState, WorkflowError> {
        let mut state = TaskState::Stopped;
        for task in self.of(run, phase).await? {
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

#[cfg(test)]
mod tests {
    use aws_sdk_ecs::types::KeyValuePair;

    use super::*;

    #[test]
    fn a_task_belongs_to_the_run_and_the_phase_that_it_was_told() {
        let run = RunId::new("2026-11-30T05:00:00Z".parse().unwrap(), [1; 10]);
        let told = |name: &str, value: &str| KeyValuePair::builder().name(name).value(value).build();
        let container = ContainerOverride::builder()
            .environment(told("PLANGATE_RUN", run.as_str()))
            .environment(told("PLANGATE_PHASE", "apply"))
            .build();
        let task = Task::builder().overrides(TaskOverride::builder().container_overrides(container).build()).build();
        assert!(belongs(&task, &run, Phase::Apply));
        assert!(!belongs(&task, &run, Phase::Plan));
        let other = RunId::new("2026-11-30T05:00:00Z".parse().unwrap(), [2; 10]);
        assert!(!belongs(&task, &other, Phase::Apply));
        assert!(!belongs(&Task::builder().build(), &run, Phase::Apply));
    }
}
