//! Deciding: on exactly the projection that was seen (`R46`), and withdrawing.

use http::Method;
use plangate_gate::digest::Digest;
use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::Choice;
use plangate_wire::{CancelRequest, DecisionAnswer, DecisionRequest, RunAnswer};

use crate::api::{Api, Repeat};
use crate::args::{Approve, Cancel, Reject};
use crate::console::{Console, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::{projection, record, watch};

/// Approves a run.
///
/// # Errors
/// The gate refuses, the projection is not what its digest says, or nobody can be asked.
pub(crate) fn approve(api: &Api<'_>, console: &Console, args: Approve) -> Result<Exit, CliError> {
    let digest = match args.projection {
        Some(digest) => digest,
        None => match look(api, console, &args.run, args.yes)? {
            Some(digest) => digest,
            None => {
                console.note("not approved");
                return Ok(Exit::Waiting);
            }
        },
    };
    let answer = decide(api, console, &args.run, Choice::Approve, digest, args.reason)?;
    if !args.watch {
        if console.json {
            console.out_json(&answer)?;
        }
        return Ok(Exit::Success);
    }
    let view = watch::follow(api, console, answer.run, true, args.interval)?;
    watch::conclude(api, console, &view)
}

/// Shows the projection and asks. Gives the digest of what was shown, if the answer is yes.
fn look(api: &Api<'_>, console: &Console, run: &RunId, yes: bool) -> Result<Option<Digest>, CliError> {
    if !yes && !console.can_ask() {
        return Err(CliError::Usage(
            "nobody can be asked here: name the digest that you saw with --projection, or use --yes".to_owned(),
        ));
    }
    let view = watch::read(api, run)?;
    let seen = projection::fetch(api, &view)?;
    let text = seen.text(console.err_paint)?;
    // Standard output stays for the answer.
    console.note(&text);
    console.note(
        &console
            .err_paint
            .tone(Tone::Dim, &format!("proposed by {}, projection {}", view.run.proposer.person, seen.digest())),
    );
    if yes || console.ask(&format!("Approve {run} as shown?"))? { Ok(Some(seen.digest())) } else { Ok(None) }
}

/// Rejects a run.
///
/// # Errors
/// The gate refuses.
pub(crate) fn reject(api: &Api<'_>, console: &Console, args: Reject) -> Result<Exit, CliError> {
    let digest = match args.projection {
        Some(digest) => digest,
        None => {
            let view = watch::read(api, &args.run)?;
            match &view.run.projection {
                Some(record) => record.object.digest,
                None => projection::fetch(api, &view)?.digest(),
            }
        }
    };
    let answer = decide(api, console, &args.run, Choice::Reject, digest, Some(args.reason))?;
    if console.json {
        console.out_json(&answer)?;
    }
    Ok(Exit::Success)
}

fn decide(
    api: &Api<'_>,
    console: &Console,
    run: &RunId,
    decision: Choice,
    projection: Digest,
    reason: Option<String>,
) -> Result<DecisionAnswer, CliError> {
    let request = DecisionRequest { decision, projection, reason };
    let path = ["v1", "runs", run.as_str(), "decision"];
    // There is one decision to a run: a second one, after a lost answer, would be refused as another's.
    let answer: DecisionAnswer = api.send(&Method::POST, &path, &request, Repeat::IfUnchanged)?;
    let (word, tone) = match answer.decision.choice {
        Choice::Approve => ("approved", Tone::Good),
        Choice::Reject => ("rejected", Tone::Bad),
    };
    let word = console.err_paint.tone(tone, word);
    console.note(&format!("{word} {run} by {}", record::actor(&answer.decision.by)));
    Ok(answer)
}

/// Withdraws a run.
///
/// # Errors
/// The gate refuses.
pub(crate) fn cancel(api: &Api<'_>, console: &Console, args: Cancel) -> Result<Exit, CliError> {
    let path = ["v1", "runs", args.run.as_str(), "cancel"];
    let request = CancelRequest { reason: args.reason };
    let answer: RunAnswer = api.send(&Method::POST, &path, &request, Repeat::IfUnchanged)?;
    console.note(&match answer.run.run.status {
        Status::Canceled => format!("{} is canceled", args.run),
        status => format!("{} is to be withdrawn; it is still {status} and ends once that has stopped", args.run),
    });
    if console.json {
        console.out_json(&answer)?;
    }
    Ok(Exit::Success)
}
