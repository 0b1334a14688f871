//! Makes one call through the layer and says how it ended: what `tests/layer.rs` and `tests/release.rs` start as a process.
//! Arguments: the file that stands for the service, the request's body.

use std::process::ExitCode;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;

/// The service: it appends each request's body to a file and answers 200.
#[derive(Debug)]
struct Ledger(std::path::PathBuf);

impl HttpConnector for Ledger {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        use std::io::Write as _;
        let written = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.0)
            .and_then(|mut file| file.write_all(&[request.body().bytes().unwrap_or_default(), b"\n"].concat()));
        HttpConnectorFuture::ready(match (written, StatusCode::try_from(200)) {
            (Ok(()), Ok(status)) => Ok(HttpResponse::new(status, SdkBody::from("done"))),
            _ => Err(ConnectorError::io("the ledger cannot be written".into())),
        })
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(ledger), Some(body)) = (arguments.next(), arguments.next()) else { return ExitCode::from(2) };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return ExitCode::from(2);
    };
    let connector = plangate_faults::wrap_connector(SharedHttpConnector::new(Ledger(ledger.into())), "example");
    plangate_faults::invocation(&"{}");
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.headers_mut().insert("x-amz-target", "DynamoDB_20120810.PutItem");
    request.headers_mut().insert("authorization", "AWS4-HMAC-SHA256 Credential=K/20261130/r/dynamodb/aws4_request, S");
    let answer =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), connector.call(request)).await });
    match answer {
        Ok(Ok(response)) if response.status().as_u16() == 200 => ExitCode::SUCCESS,
        Ok(Ok(_)) => ExitCode::from(3),
        Ok(Err(error)) if error.is_timeout() => ExitCode::from(4),
        Ok(Err(_)) => ExitCode::from(5),
        Err(_) => ExitCode::from(6),
    }
}
