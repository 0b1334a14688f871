//! Adding a note to what is recorded of a run (`R6`).

use http::Method;
use plangate_wire::{AnnotateRequest, AnnotationAnswer};

use crate::api::{Api, Repeat};
use crate::args::Annotate;
use crate::console::Console;
use crate::error::CliError;
use crate::exit::Exit;
use crate::random;

/// Adds a note to a run.
///
/// # Errors
/// The gate refuses or does not answer.
pub(crate) fn annotate(api: &Api<'_>, console: &Console, args: Annotate) -> Result<Exit, CliError> {
    let Annotate { run, note, corrects } = args;
    let request = AnnotateRequest { request_id: random::request_id()?, note, corrects };
    let path = ["v1", "runs", run.as_str(), "annotations"];
    let answer: AnnotationAnswer = api.send(&Method::POST, &path, &request, Repeat::Always)?;
    console.note(&format!("noted as event {} of {run}", answer.annotation.seq));
    if console.json {
        console.out_json(&answer)?;
    }
    Ok(Exit::Success)
}
