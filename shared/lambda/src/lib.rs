//! The thin shell that all functions share: start-up, settings, clients, the clock, and the names of errors.

mod cached;
mod clients;
mod emf;
pub mod gateway;
mod log;
mod settings;

use std::future::Future;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use plangate_gate::ids::RunId;
use plangate_gate::measure::Measurement;
use plangate_gate::time::Timestamp;
use plangate_gate::untrusted;
use plangate_record::Error;
use plangate_record::watched::tell;
use plangate_reviewer::Live;
use plangate_reviewer::function::{self, ReviewAnswer, ReviewRequest};
use serde::{Deserialize, Serialize};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

pub use cached::Cached;
pub use clients::{Clients, WorkspaceClients, random};
pub use log::log;
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

impl FunctionError {
    /// The name by which the state machine knows the error.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::InvalidInput(_) => "InvalidInput",
            Self::Clock => "Unavailable",
            Self::Step(step) => step.name(),
        }
    }

    /// Whether it is no failure, but how a step tells the workflow to wait, to turn or to stop.
    #[must_use]
    pub const fn puts_off(&self) -> bool {
        matches!(self, Self::Step(step) if step.puts_off())
    }
}

impl From<FunctionError> for Diagnostic {
    fn from(error: FunctionError) -> Self {
        Self { error_type: error.name().to_owned(), error_message: error.to_string() }
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
        let strict = input(&event)?;
        about(event.get("run").and_then(serde_json::Value::as_str));
        handle(clients, strict, now).await
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
        Span::current().record("workspace", clients.workspace.as_str());
        about(event.get("run").and_then(serde_json::Value::as_str));
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
    let (_, function) = &log::gate_and_function();
    let service = move |event: LambdaEvent<I>| {
        let LambdaEvent { payload, context } = event;
        // Every line of the call carries it; what is empty comes as soon as it is known.
        let span = tracing::info_span!(
            "invocation",
            function,
            invocation = context.request_id,
            trace = context.xray_trace_id.as_deref().and_then(root),
            request = Empty,
            run = Empty,
            workspace = Empty,
        );
        async move {
            plangate_faults::invocation(&"");
            let begun = Instant::now();
            let answer = async { handle(clients, payload, now()?).await }.await;
            let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            match &answer {
                Ok(_) => tracing::info!(milliseconds, "answered"),
                Err(error) => {
                    let (name, puts_off) = (error.name(), error.puts_off());
                    if puts_off {
                        tracing::info!(milliseconds, name, %error, "put off");
                    } else {
                        tracing::warn!(milliseconds, name, %error, "the function did not answer");
                    }
                    tell(&Measurement::of_call(function.clone(), name, puts_off));
                }
            }
            answer.map_err(Diagnostic::from)
        }
        .instrument(span)
    };
    lambda_runtime::run(service_fn(service)).await
}

/// Notes for the log which run the call is about.
fn about(run: Option<&str>) {
    if let Some(run) = run {
        Span::current().record("run", run);
    }
}

/// Notes for the log the id that whoever asked was given for the request, where that is not Lambda's own.
pub fn requested(id: &str) {
    Span::current().record("request", id);
}

/// The trace's id in X-Ray's header.
fn root(header: &str) -> Option<&str> {
    header.split(';').find_map(|part| part.trim().strip_prefix("Root="))
}
