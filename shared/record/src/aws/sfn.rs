//! The workflow in Step Functions: an execution named by its run, on the machine of its kind.

use async_trait::async_trait;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::operation::start_execution::StartExecutionError;
use aws_sdk_sfn::types::ExecutionStatus;
use plangate_gate::ids::RunId;
use plangate_gate::run::Kind;

use crate::aws::kind as error_kind;
use crate::workflow::{Execution, Workflow, WorkflowError};

/// The two machines: one definition, two roles (`R7`).
#[derive(Debug, Clone)]
pub struct StepFunctions {
    client: Client,
    plan_only: String,
    applicable: String,
}

impl StepFunctions {
    /// The machines with these ARNs.
    #[must_use]
    pub fn new(client: Client, plan_only: String, applicable: String) -> Self {
        Self { client, plan_only, applicable }
    }

    fn machine(&self, kind: Kind) -> &str {
        match kind {
            Kind::PlanOnly => &self.plan_only,
            Kind::Applicable => &self.applicable,
        }
    }

    fn execution_arn(&self, kind: Kind, run: &RunId) -> String {
        format!("{}:{run}", self.machine(kind).replacen(":stateMachine:", ":execution:", 1))
    }
}

#[async_trait]
impl Workflow for StepFunctions {
    async fn start(&self, kind: Kind, run: &RunId) -> Result<(), WorkflowError> {
        let input = format!("{{\"run\":\"{run}\"}}");
        let request =
            self.client.start_execution().state_machine_arn(self.machine(kind)).name(run.as_str()).input(input);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => match error.as_service_error() {
                Some(StartExecutionError::ExecutionAlreadyExists(_)) => Ok(()),
                _ => Err(WorkflowError { call: "StartExecution", error: error_kind(&error) }),
            },
        }
    }

    async fn execution(&self, kind: Kind, run: &RunId) -> Result<Execution, WorkflowError> {
        let request = self.client.describe_execution().execution_arn(self.execution_arn(kind, run));
        match request.send().await {
            Ok(answer) => Ok(match answer.status() {
                ExecutionStatus::Running | ExecutionStatus::PendingRedrive => Execution::Running,
                _ => Execution::Ended,
            }),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_execution_does_not_exist()) => {
                Ok(Execution::Absent)
            }
            Err(error) => Err(WorkflowError { call: "DescribeExecution", error: error_kind(&error) }),
        }
    }

    async fn stop(&self, kind: Kind, run: &RunId) -> Result<(), WorkflowError> {
        let request = self.client.stop_execution().execution_arn(self.execution_arn(kind, run)).cause("canceled");
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().is_some_and(|e| e.is_execution_does_not_exist()) => Ok(()),
            Err(error) => Err(WorkflowError { call: "StopExecution", error: error_kind(&error) }),
        }
    }

    async fn wake(&self, token: &str) -> Result<(), WorkflowError> {
        match self.client.send_task_success().task_token(token).output("{}").send().await {
            Ok(_) => Ok(()),
            Err(error) => {
                let nobody = error
                    .as_service_error()
                    .is_some_and(|e| e.is_task_does_not_exist() || e.is_task_timed_out() || e.is_invalid_token());
                if nobody { Ok(()) } else { Err(WorkflowError { call: "SendTaskSuccess", error: error_kind(&error) }) }
            }
        }
    }
}
