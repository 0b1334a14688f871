//! Trying again when others went first: read anew, decide anew, write anew; bounded, and a little apart.

use std::time::Duration;

use plangate_gate::digest::Digest;

use crate::error::Error;
use crate::store::StoreError;
#[cfg(test)]
use crate::tests::schedule::sleep;
#[cfg(not(test))]
use tokio::time::sleep;

/// How often a step reads again before it gives up; its caller (the workflow, the client) then tries later.
const ATTEMPTS: u32 = 24;

/// The attempts of one step. `who` keeps those apart that try at the same time.
pub(crate) struct Attempts {
    made: u32,
    spread: u64,
}

impl Attempts {
    pub(crate) fn new(who: &str) -> Self {
        let spread = u64::from(Digest::of(who.as_bytes()).raw().first().copied().unwrap_or_default());
        Self { made: 0, spread }
    }

    /// Looks at how a transaction ended: `Ok(Some)` it happened; `Ok(None)` try again.
    ///
    /// # Errors
    /// The table does not answer, or others went first every time.
    pub(crate) async fn settle<T>(&mut self, outcome: Result<T, StoreError>) -> Result<Option<T>, Error> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            // After an unknown outcome, reading again tells what happened.
            Err(StoreError::Conflict | StoreError::Unavailable(_)) if self.made < ATTEMPTS => {
                self.made += 1;
                let milliseconds = u64::from(self.made) * 5 + (self.spread * u64::from(self.made)) % 40;
                sleep(Duration::from_millis(milliseconds)).await;
                Ok(None)
            }
            Err(StoreError::Conflict) => Err(Error::Contended),
            Err(error) => Err(error.into()),
        }
    }
}
