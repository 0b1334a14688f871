//! The stores on AWS. Only this folder knows the SDK.

mod bedrock;
#[cfg(test)]
mod bedrock_tests;
mod dynamo;
mod ecs;
mod eventbridge;
mod kms;
mod logs;
mod review_function;
mod reviewers;
mod s3;
mod sfn;
mod ssm;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::tls;

pub use bedrock::Bedrock;
pub use dynamo::DynamoStore;
pub use ecs::EcsTasks;
pub use eventbridge::EventBridge;
pub use kms::KmsSigner;
pub use logs::CloudWatchLogs;
pub use review_function::InFunction;
pub use reviewers::AwsReviewers;
pub use s3::S3Objects;
pub use sfn::StepFunctions;
pub use ssm::SsmParameters;

/// The SDK's configuration from the process's environment, with TLS by ring. `process` is the name under which a test of a
/// test build finds its calls.
pub async fn configuration(process: &str) -> SdkConfig {
    let provider = tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring);
    let http = aws_smithy_http_client::Builder::new().tls_provider(provider).build_https();
    let http = plangate_faults::wrap(http, process);
    aws_config::defaults(BehaviorVersion::latest()).http_client(http).load().await
}

/// The kind of an SDK error, for records and logs: its code where AWS gave one, never a request's or answer's content.
pub(crate) fn kind<E, R>(error: &aws_smithy_runtime_api::client::result::SdkError<E, R>) -> String
where
    E: aws_smithy_types::error::metadata::ProvideErrorMetadata,
{
    use aws_smithy_runtime_api::client::result::SdkError;
    match error {
        SdkError::ServiceError(service) => service.err().code().unwrap_or("an error without a code").to_owned(),
        SdkError::TimeoutError(_) => "a time-out".to_owned(),
        SdkError::DispatchFailure(_) => "no connection".to_owned(),
        SdkError::ConstructionFailure(_) => "a request that could not be made".to_owned(),
        _ => "an answer that could not be read".to_owned(),
    }
}
