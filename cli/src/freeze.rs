//! Freezing and lifting: of one workspace, or of the gate as a whole.

use http::Method;
use plangate_wire::{FreezeRequest, FreezeScope, FreezeView, GateAnswer, LockView};

use crate::api::{Api, Repeat};
use crate::args::FreezeArgs;
use crate::console::{Console, Tone};
use crate::documents;
use crate::error::CliError;
use crate::exit::Exit;
use crate::random;
use crate::record::moment;
use crate::text::inert;

/// Freezes (`lift`: lifts the freeze of) what `args` names.
///
/// # Errors
/// The gate refuses or does not answer.
pub(crate) fn freeze(api: &Api<'_>, console: &Console, args: FreezeArgs, lift: bool) -> Result<Exit, CliError> {
    let verb = if lift { "unfreeze" } else { "freeze" };
    let request = FreezeRequest { request_id: random::request_id()?, reason: args.reason };
    let (what, frozen) = match args.workspace.as_deref() {
        Some(name) => {
            let id = documents::resolve(api, name)?;
            let path = ["v1", "workspaces", id.as_str(), verb];
            let answer: LockView = api.send(&Method::POST, &path, &request, Repeat::Always)?;
            if console.json {
                console.out_json(&answer)?;
            }
            (id.to_string(), answer.frozen)
        }
        None => {
            let answer: GateAnswer = api.send(&Method::POST, &["v1", verb], &request, Repeat::Always)?;
            if console.json {
                console.out_json(&answer)?;
            }
            ("the gate".to_owned(), answer.frozen.into_iter().collect())
        }
    };
    if lift {
        console.note(&format!("the freeze of {what} is lifted; who waits goes on"));
        if !frozen.is_empty() {
            console.note("the gate as a whole is still frozen");
        }
    } else {
        console.note(&format!("{what} is frozen: nothing is admitted, approved or started; what runs ends"));
    }
    Ok(Exit::Success)
}

/// Shows whether the gate as a whole is frozen.
///
/// # Errors
/// The gate refuses or does not answer.
pub(crate) fn gate(api: &Api<'_>, console: &Console) -> Result<Exit, CliError> {
    let answer: GateAnswer = api.get(&["v1", "gate"], &[])?;
    if console.json {
        console.out_json(&answer)?;
    } else {
        let frozen = answer.frozen.as_ref();
        let line =
            frozen.map_or_else(|| "not frozen".to_owned(), |frozen| console.paint.tone(Tone::Bad, &told(frozen)));
        console.out(&format!("{line}\n"))?;
    }
    Ok(Exit::Success)
}

/// A freeze in one line.
pub(crate) fn told(frozen: &FreezeView) -> String {
    let scope = match frozen.scope {
        FreezeScope::Gate => "the whole gate, ",
        FreezeScope::Workspace => "",
    };
    format!("{scope}by {} since {}: {}", inert(&frozen.by), moment(frozen.at), inert(&frozen.reason))
}
