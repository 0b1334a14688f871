//! The layer around the client: each call is a site, and what is armed there strikes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;

use crate::plan::{Folder, What};
use crate::site::{Call, id};

/// What a process that dies here leaves as its exit code.
const DEATH: i32 = 86;

/// How often a call that waits looks whether it may go on.
const LOOK: Duration = Duration::from_millis(20);

/// The invocation that is under way: its run, and how often each site was passed.
static INVOCATION: Mutex<(Option<String>, BTreeMap<String, u64>)> = Mutex::new((None, BTreeMap::new()));

/// An invocation begins.
pub(crate) fn begin(event: &str) {
    let mut invocation = INVOCATION.lock().unwrap_or_else(PoisonError::into_inner);
    *invocation = (id(event, "run-", 26).map(str::to_owned), BTreeMap::new());
}

/// A connection with the layer around it.
#[derive(Debug)]
pub(crate) struct Layer {
    inner: SharedHttpConnector,
    process: String,
    folder: Folder,
}

impl Layer {
    pub(crate) fn new(inner: SharedHttpConnector, process: &str, folder: Folder) -> Self {
        Self { inner, process: process.to_owned(), folder }
    }

    /// Notes the call, and finds what strikes it. Tells which run it is made for.
    fn pass(&self, request: &HttpRequest) -> (Call, Option<String>, Option<(String, What)>) {
        let call = Call::of(request);
        let site = format!("{} {}", self.process, call.name);
        let (invoked_for, nth) = {
            let mut invocation = INVOCATION.lock().unwrap_or_else(PoisonError::into_inner);
            let nth = invocation.1.entry(site.clone()).or_default();
            *nth += 1;
            let nth = *nth;
            (invocation.0.clone(), nth)
        };
        let run = call.run.clone().or(invoked_for);
        if let (Some(run), Some(workspace)) = (&call.run, &call.workspace) {
            self.folder.belongs(run, workspace);
        }
        let workspace = call.workspace.clone().or_else(|| self.folder.workspace_of(run.as_deref()?));
        self.folder.passed(&self.process, workspace.as_deref(), run.as_deref(), &site);
        let strikes = self.folder.strikes(workspace.as_deref(), &site, nth);
        (call, run, strikes)
    }
}

impl HttpConnector for Layer {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (call, run, strikes) = self.pass(&request);
        let (inner, folder) = (self.inner.clone(), self.folder.clone());
        let Some((name, what)) = strikes else {
            if !folder.measures() {
                return inner.call(request);
            }
            let (process, sent) = (self.process.clone(), request.body().content_length().unwrap_or_default());
            return HttpConnectorFuture::new(async move {
                let answer = inner.call(request).await?;
                let length = answer.headers().get("content-length").and_then(|length| length.parse().ok());
                folder.moved(&process, run.as_deref(), &call.name, sent, length.unwrap_or_default());
                Ok(answer)
            });
        };
        HttpConnectorFuture::new(async move {
            match what {
                What::DieBefore => std::process::exit(DEATH),
                What::DieAfter => {
                    let _ = inner.call(request).await;
                    std::process::exit(DEATH)
                }
                What::Fail => Err(ConnectorError::io("a fault on purpose".into())),
                What::LoseAnswer => {
                    inner.call(request).await?;
                    Err(ConnectorError::timeout("a fault on purpose".into()))
                }
                What::Throttle => throttled(&call.service),
                What::Twice => {
                    // A body that streams cannot be sent again, by the SDK neither.
                    if let Some(first) = request.try_clone() {
                        inner.call(first).await?;
                    }
                    inner.call(request).await
                }
                What::HoldBefore => {
                    opened(&folder, &name).await;
                    inner.call(request).await
                }
                What::HoldAfter => {
                    let answer = inner.call(request).await;
                    opened(&folder, &name).await;
                    answer
                }
            }
        })
    }
}

async fn opened(folder: &Folder, name: &str) {
    while !folder.is_open(name) {
        tokio::time::sleep(LOOK).await;
    }
}

/// What a service answers that is asked too much.
fn throttled(service: &str) -> Result<HttpResponse, ConnectorError> {
    let (status, body) = match service {
        "s3" => {
            (503, "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>a fault on purpose</Message></Error>")
        }
        "sts" => (
            400,
            "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>a fault on purpose</Message></Error></ErrorResponse>",
        ),
        _ => (400, "{\"__type\":\"ThrottlingException\",\"message\":\"a fault on purpose\"}"),
    };
    let status = StatusCode::try_from(status).map_err(|error| ConnectorError::other(error.into(), None))?;
    Ok(HttpResponse::new(status, SdkBody::from(body)))
}
