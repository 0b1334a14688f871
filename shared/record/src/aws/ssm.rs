//! Secret parameters in SSM Parameter Store.

use async_trait::async_trait;
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::SdkError;
use plangate_gate::review::Cause;
use plangate_reviewer::Key;

use crate::aws::kind;
use crate::parameters::Parameters;
use crate::review_function::Keys;
use crate::workflow::WorkflowError;

/// Parameter Store.
#[derive(Debug, Clone)]
pub struct SsmParameters {
    client: Client,
}

impl SsmParameters {
    /// The account's parameters, as far as the role may read them.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Parameters for SsmParameters {
    async fn secret(&self, name: &str) -> Result<Option<String>, WorkflowError> {
        match self.client.get_parameter().name(name).with_decryption(true).send().await {
            Ok(answer) => Ok(answer.parameter.and_then(|parameter| parameter.value)),
            Err(SdkError::ServiceError(error)) if error.err().is_parameter_not_found() => Ok(None),
            Err(error) => Err(WorkflowError { call: "GetParameter", error: kind(&error) }),
        }
    }
}

/// Keys of models, read by a workspace's review function under its own role.
#[async_trait]
impl Keys for SsmParameters {
    async fn key(&self, parameter: &str) -> Result<Key, Cause> {
        let value = self.secret(parameter).await.map_err(|error| {
            tracing::warn!(parameter, %error, "the key of the model cannot be read");
            Cause::KeyUnavailable
        })?;
        value.and_then(|value| Key::new(&value)).ok_or(Cause::KeyUnavailable)
    }
}
