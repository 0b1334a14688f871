//! Proposing: a folder becomes a bundle, the bundle is uploaded, and a run begins (`R4`).

use http::Method;
use plangate_bundle::Bundle;
use plangate_gate::ids::WorkspaceId;
use plangate_gate::run::Kind;
use plangate_wire::{BundleAnswer, BundleRequest, ProposeRequest, RunAnswer};

use crate::api::{Api, Repeat};
use crate::args::Propose;
use crate::console::{Console, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::text::bytes;
use crate::{documents, engine, random, watch};

/// Proposes a folder.
///
/// # Errors
/// The folder cannot become a bundle, the gate refuses, or the store does not take the upload.
pub(crate) fn propose(api: &Api<'_>, console: &Console, args: Propose) -> Result<Exit, CliError> {
    let (workspace, wanted) = documents::with_engine(api, &args.workspace)?;
    let bundle = engine::build(&args.folder, wanted, console)?;
    let size = bundle.bytes().len() as u64;
    let dim = |text: &str| console.err_paint.tone(Tone::Dim, text);
    console.note(&format!(
        "bundle of {}, {}  {}",
        engine::entries(&bundle),
        bytes(size),
        dim(&bundle.digest().to_string())
    ));

    deliver(api, console, &workspace, &bundle)?;

    let request = ProposeRequest {
        // One id for all attempts: however often it is sent, it is one run.
        request_id: random::request_id()?,
        workspace,
        kind: if args.plan_only { Kind::PlanOnly } else { Kind::Applicable },
        bundle: bundle.digest(),
        origin: args.origin.into(),
        derived_from: args.derived_from,
        on_behalf_of: args.on_behalf_of,
    };
    let answer: RunAnswer = api.send(&Method::POST, &["v1", "runs"], &request, Repeat::Always)?;
    if !args.watch {
        if console.json {
            console.out_json(&answer)?;
        } else {
            console.out(&format!("{}\n", answer.run.run.id))?;
            console.note(&dim(&format!("follow it with `plangate watch {}`", answer.run.run.id)));
        }
        return Ok(Exit::Success);
    }
    if !console.json {
        console.out(&format!("{}\n", answer.run.run.id))?;
    }
    let view = watch::follow(api, console, answer.run, args.follow.to_end, args.follow.interval)?;
    watch::conclude(api, console, &view)
}

/// Brings the bundle to the exchange bucket, unless it is there.
fn deliver(api: &Api<'_>, console: &Console, workspace: &WorkspaceId, bundle: &Bundle) -> Result<(), CliError> {
    let size = bundle.bytes().len() as u64;
    let request = BundleRequest { workspace: workspace.clone(), digest: bundle.digest(), bytes: size };
    let answer: BundleAnswer = api.send(&Method::POST, &["v1", "bundles"], &request, Repeat::Always)?;
    if answer.present {
        console.note("the gate has it already");
        return Ok(());
    }
    let url = answer.url.ok_or_else(|| CliError::NotTheGate {
        place: "the gate".to_owned(),
        detail: "no address to upload to".to_owned(),
    })?;
    let whole = bytes(size);
    let mut told = 101;
    api.upload(&url, &answer.headers, bundle.bytes(), &mut |sent| {
        let percent = (sent * 100).checked_div(size).unwrap_or(100);
        if percent != told {
            told = percent;
            console.status(&format!("uploading {percent} % of {whole}"));
        }
    })?;
    console.note(&format!("uploaded {whole}"));
    Ok(())
}
