//! The signing secrets, and the check of a request under them.

use std::time::Duration;

use plangate_gate::time::Timestamp;
use plangate_lambda::Cached;
use plangate_record::parameters::Parameters;
use plangate_record::workflow::WorkflowError;
use plangate_slack::{Secret, Secrets, SignatureError, Signed, Verified};

/// How long the secrets are kept.
const KEPT: Duration = Duration::from_secs(300);

/// How old they are at least before a wrong signature makes them be read anew: they may have been replaced, and whoever
/// signs at random must not make this function ask for them every time.
const DOUBTED: Duration = Duration::from_secs(10);

/// The signing secrets as they were read last.
#[derive(Debug)]
pub(crate) struct Keys(Cached<Secrets>);

impl Keys {
    pub(crate) const fn new() -> Self {
        Self(Cached::new())
    }

    /// Checks a request under the present secret and, where it has a name, the one before.
    pub(crate) async fn check<'a>(
        &self,
        parameters: &dyn Parameters,
        names: (&str, &str),
        signed: Signed<'a>,
        now: Timestamp,
    ) -> Result<Result<Verified<'a>, SignatureError>, WorkflowError> {
        let mut fresh = false;
        let secrets = match self.0.get(KEPT) {
            Some(secrets) => secrets,
            None => {
                fresh = true;
                self.read(parameters, names).await?
            }
        };
        match signed.check(&secrets, now) {
            Err(SignatureError::Mismatch) if !fresh && self.0.get(DOUBTED).is_none() => {
                Ok(signed.check(&self.read(parameters, names).await?, now))
            }
            checked => Ok(checked),
        }
    }

    async fn read(&self, parameters: &dyn Parameters, names: (&str, &str)) -> Result<Secrets, WorkflowError> {
        let missing = || WorkflowError { call: "GetParameter", error: "there is no signing secret".to_owned() };
        let current = parameters.secret(names.0).await?.as_deref().and_then(Secret::new).ok_or_else(missing)?;
        let previous = match names.1 {
            "" => None,
            // Taken away once it has served.
            name => parameters.secret(name).await?.as_deref().and_then(Secret::new),
        };
        let secrets = Secrets { current, previous };
        self.0.put(secrets.clone());
        Ok(secrets)
    }
}
