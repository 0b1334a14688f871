//! Keys of models in Parameter Store, read by a workspace's review function under its own role.

use async_trait::async_trait;
use aws_sdk_ssm::Client;
use plangate_gate::review::Cause;
use plangate_reviewer::Key;

use crate::review_function::Keys;

/// Parameter Store.
#[derive(Debug, Clone)]
pub struct Parameters {
    client: Client,
}

impl Parameters {
    /// The account's parameters, as far as the role goes.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Keys for Parameters {
    async fn key(&self, parameter: &str) -> Result<Key, Cause> {
        let request = self.client.get_parameter().name(parameter).with_decryption(true);
        let answer = request.send().await.map_err(|error| {
            tracing::warn!(parameter, error = super::kind(&error), "the key of the model cannot be read");
            Cause::KeyUnavailable
        })?;
        let value = answer.parameter().and_then(|parameter| parameter.value());
        value.and_then(Key::new).ok_or(Cause::KeyUnavailable)
    }
}
