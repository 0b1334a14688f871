//! The thin shell that all functions share: start-up, settings, clients, the clock, and the names of errors.

mod cached;
mod clients;
pub mod gateway;
mod settings;

use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use plangate_gate::ids::RunId;
use plangate_gate::time::Timestamp;
use plangate_gate::untrusted;
use plangate_record::Error;
use plangate_reviewer::Live;
use plangate_reviewer::function::{self, ReviewAnswer, ReviewRequest};
use serde::{Deserialize, Serialize};

pub use cached::Cached;
pub use clients::{Clients, WorkspaceClients, random};
pub use settings::{MissingSetting, named};

/// The most bytes that the workflow's input to a function may have.
const INPUT_LIMIT: usize = 16 * 1024;

/// What the workflow tells a step: which run. All else stands in the record.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepInput {
    /// The run.
    pub run: RunId,
}

/// What the workflow tells a step that makes it wait.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingInput {
    /// The run.
    pub run: RunId,
    /// The token that wakes it. A hint, never authority.
    pub token: String,
}

/// What the workflow tells the step that concludes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcludeInput {
    /// The run.
    pub run: RunId,
    /// The name of what was caught, if something was.
    #[serde(default)]
    pub error: Option<String>,
}

/// Why a function did not answer.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// The input is not what the workflow sends.
    #[error("the input is not what this function takes: {0}")]
    InvalidInput(String),
    /// The clock says something before 1970.
    #[error("the clock cannot be read")]
    Clock,
    /// The step did not happen.
    #[error(transparent)]
    Step(#[from] Error),
}

impl From<FunctionError> for Diagnostic {
    fn from(error: FunctionError) -> Self {
        let error_type = match &error {
            FunctionError::InvalidInput(_) => "InvalidInput",
            FunctionError::Clock => "Unavailable",
            FunctionError::Step(step) => step.name(),
        };
        Self { error_type: error_type.to_owned(), error_message: error.to_string() }
    }
}

/// The current moment.
///
/// # Errors
/// The clock says something before 1970 or after 9999.
pub fn now() -> Result<Timestamp, FunctionError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| FunctionError::Clock)?;
    let seconds = i64::try_from(since.as_secs()).map_err(|_| FunctionError::Clock)?;
    Timestamp::from_unix_seconds(seconds).map_err(|_| FunctionError::Clock)
}

/// Reads a function's input strictly.
///
/// # Errors
/// It is too large, or does not follow its schema.
pub fn input<T: for<'de> Deserialize<'de>>(value: &serde_json::Value) -> Result<T, FunctionError> {
    input_within(value, INPUT_LIMIT)
}

fn input_within<T: for<'de> Deserialize<'de>>(value: &serde_json::Value, limit: usize) -> Result<T, FunctionError> {
    let bytes = serde_json::to_vec(value).map_err(|error| FunctionError::InvalidInput(error.to_string()))?;
    untrusted::parse("input", &bytes, limit).map_err(|error| FunctionError::InvalidInput(error.to_string()))
}

/// Runs a step for as long as the process lives: `handle` gets the clients, the strictly read input and the moment. `needs`
/// are the settings that the function needs besides those that all do.
///
/// # Errors
/// A setting is missing, or the runtime's API is lost.
pub async fn run<I, O, H, F>(needs: &[&'static str], handle: H) -> Result<(), lambda_runtime::Error>
where
    I: for<'de> Deserialize<'de>,
    O: Serialize,
    H: Fn(&'static Clients, I, Timestamp) -> F,
    F: Future<Output = Result<O, FunctionError>>,
{
    let handle = &handle;
    serve(needs, move |clients, event: serde_json::Value, now| async move {
        plangate_faults::invocation(&event);
        handle(clients, input(&event)?, now).await
    })
    .await
}

/// Runs a function whose events are AWS's own and not the workflow's.
///
/// # Errors
/// A setting is missing, or the runtime's API is lost.
pub async fn serve<I, O, H, F>(needs: &[&'static str], handle: H) -> Result<(), lambda_runtime::Error>
where
    I: for<'de> Deserialize<'de>,
    O: Serialize,
    H: Fn(&'static Clients, I, Timestamp) -> F,
    F: Future<Output = Result<O, FunctionError>>,
{
    log();
    serve_over(Clients::from_environment(needs).await?, handle).await
}

/// Runs a workspace's own review function, which is called by the gate and by nobody else.
///
/// # Errors
/// A setting is missing, or the runtime's API is lost.
pub async fn serve_workspace<H, F>(handle: H) -> Result<(), lambda_runtime::Error>
where
    H: Fn(&'static WorkspaceClients, ReviewRequest, Live) -> F,
    F: Future<Output = ReviewAnswer>,
{
    log();
    let handle = &handle;
    serve_over(WorkspaceClients::from_environment().await?, move |clients, event: serde_json::Value, _| async move {
        let request = input_within(&event, function::REQUEST_LIMIT)?;
        Ok(handle(clients, request, Live::new(random)).await)
    })
    .await
}

async fn serve_over<C, I, O, H, F>(clients: C, handle: H) -> Result<(), lambda_runtime::Error>
where
    C: Send + Sync + 'static,
    I: for<'de> Deserialize<'de>,
    O: Serialize,
    H: Fn(&'static C, I, Timestamp) -> F,
    F: Future<Output = Result<O, FunctionError>>,
{
    // One for the whole life of the process, like the connections in it.
    let clients: &'static C = Box::leak(Box::new(clients));
    let handle = &handle;
    let service = move |event: LambdaEvent<I>| async move {
        plangate_faults::invocation(&"");
        let answer = async { handle(clients, event.payload, now()?).await }.await;
        if let Err(error) = &answer {
            tracing::warn!(request = event.context.request_id, %error, "the function did not answer");
        }
        answer.map_err(Diagnostic::from)
    };
    lambda_runtime::run(service_fn(service)).await
}

/// One line of JSON an event, on standard output, where Lambda collects it.
pub fn log() {
    let subscriber = tracing_subscriber::fmt().json().with_current_span(false).with_ansi(false).without_time();
    // Set once a process: a second call changes nothing.
    if subscriber.with_max_level(tracing::Level::INFO).try_init().is_ok() {
        tracing::info!(release = plangate_release::told(), "the function starts");
    }
}
