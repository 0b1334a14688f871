//! A run's projection: fetched, held against its digest, and only then shown.

use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::projection::ProjectionView;
use plangate_gate::render::{self, RenderStyle};
use plangate_wire::{ProjectionAnswer, Reason, RunView};

use crate::api::Api;
use crate::console::Paint;
use crate::error::CliError;

/// The most bytes of a projection that are fetched to be shown.
const LIMIT: u64 = 256 * 1024 * 1024;

/// A projection whose bytes have been held against its digest: only [`fetch`] makes it.
#[derive(Debug)]
pub(crate) struct SeenProjection {
    digest: Digest,
    bytes: Vec<u8>,
}

/// Fetches the projection of `run`.
///
/// # Errors
/// The gate refuses, or the bytes are not those of the digest, or the digest is not the one that the run's record has.
pub(crate) fn fetch(api: &Api<'_>, run: &RunView) -> Result<SeenProjection, CliError> {
    let body = api.get_raw(&["v1", "runs", run.run.id.as_str(), "projection"], &[])?;
    let answer: ProjectionAnswer = api.decode_exact(&body)?;
    let bytes = match (answer.projection, answer.url) {
        (Some(exact), _) => exact.get().as_bytes().to_vec(),
        (None, Some(_)) if answer.bytes > LIMIT => {
            return Err(CliError::Projection(format!("it has {} bytes, more than {LIMIT}", answer.bytes)));
        }
        (None, Some(url)) => api.download(&url, answer.bytes, answer.digest)?,
        (None, None) => return Err(CliError::Projection("the answer has neither bytes nor an address".to_owned())),
    };
    let expected = run.run.projection.as_ref().map_or(answer.digest, |record| record.object.digest);
    SeenProjection::check(bytes, answer.digest, expected)
}

/// As [`fetch`], if there is one already.
///
/// # Errors
/// As [`fetch`].
pub(crate) fn fetch_if_there(api: &Api<'_>, run: &RunView) -> Result<Option<SeenProjection>, CliError> {
    if run.run.projection.is_none() {
        return Ok(None);
    }
    match fetch(api, run) {
        Ok(projection) => Ok(Some(projection)),
        Err(error) if error.is(Reason::NotThereYet) => Ok(None),
        Err(error) => Err(error),
    }
}

impl SeenProjection {
    fn check(bytes: Vec<u8>, answered: Digest, recorded: Digest) -> Result<Self, CliError> {
        let found = Digest::of(&bytes);
        match [answered, recorded].into_iter().find(|digest| *digest != found) {
            Some(expected) => Err(CliError::DigestMismatch { what: "projection", expected, found }),
            None => Ok(Self { digest: found, bytes }),
        }
    }

    /// The digest of the exact bytes; a decision names it.
    pub(crate) const fn digest(&self) -> Digest {
        self.digest
    }

    /// The projection as people know plans.
    ///
    /// # Errors
    /// The bytes are no projection.
    pub(crate) fn text(&self, paint: Paint) -> Result<String, CliError> {
        text(&self.bytes, paint)
    }

    /// The answer that it came in, its exact bytes inside.
    ///
    /// # Errors
    /// The bytes are no JSON.
    pub(crate) fn to_answer(&self) -> Result<ProjectionAnswer, CliError> {
        let unreadable = |_| CliError::Projection("it is not JSON".to_owned());
        let exact = serde_json::from_slice(&self.bytes).map_err(unreadable)?;
        Ok(ProjectionAnswer { digest: self.digest, bytes: self.bytes.len() as u64, projection: Some(exact), url: None })
    }
}

/// A projection's bytes as people know plans.
///
/// # Errors
/// The bytes are no projection.
pub(crate) fn text(bytes: &[u8], paint: Paint) -> Result<String, CliError> {
    let view = ProjectionView::parse(bytes).map_err(|error| CliError::Projection(error.to_string()))?;
    Ok(render::text(&view, if paint.0 { RenderStyle::Colour } else { RenderStyle::Plain }))
}

/// How to decide on a run, with the digest that was shown.
pub(crate) fn how_to_decide(run: &RunId, digest: Digest) -> String {
    format!(
        "To decide (somebody else than the proposer, as a rule):\n  \
         plangate approve {run} --projection {digest}\n  \
         plangate reject {run} --reason TEXT\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_those_of_either_digest_are_not_shown() {
        let (good, other) = (Digest::of(b"{}"), Digest::of(b"{ }"));
        assert!(SeenProjection::check(b"{}".to_vec(), good, good).is_ok());
        for (answered, recorded) in [(other, good), (good, other), (other, other)] {
            let error = SeenProjection::check(b"{}".to_vec(), answered, recorded).unwrap_err();
            assert!(
                matches!(error, CliError::DigestMismatch { expected, found, .. } if expected == other && found == good)
            );
        }
    }
}
