//! What needs no gate and no AWS: bundles, projections, guardrails, ids.

use std::path::Path;

use plangate_gate::document::PlanDocument;
use plangate_gate::guardrails::{GuardContext, Guardrails};
use plangate_gate::policy::{OwnRules, POLICY_LIMIT, Policy};
use plangate_gate::projection::{Projection, Withhold};
use plangate_rules::Sandbox;
use serde::Serialize;

use crate::address::Base;
use crate::args::{BundleFolder, Guard, Project};
use crate::console::{Console, Tone};
use crate::documents::read_file;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text::{bytes, count, finding, inert};
use crate::{engine, projection, random};

/// The most bytes of a plan document.
const DOCUMENT_LIMIT: u64 = 256 * 1024 * 1024;

/// What `bundle --json` prints.
#[derive(Serialize)]
struct Bundled {
    digest: String,
    entries: usize,
    bytes: usize,
    unpacked_bytes: u64,
    lock_file: Option<String>,
}

/// Makes up an id for a workspace.
///
/// # Errors
/// The machine gives no randomness.
pub(crate) fn new_id(console: &Console) -> Result<Exit, CliError> {
    let id = random::workspace_id()?;
    if console.json {
        console.out_json(&serde_json::json!({ "id": id }))?;
    } else {
        console.out(&format!("{id}\n"))?;
    }
    Ok(Exit::Success)
}

/// Prints the manifest of the Slack app of the gate at `base`. It is JSON in either case: it is pasted into Slack.
///
/// # Errors
/// Standard output is gone.
pub(crate) fn slack_manifest(console: &Console, base: &Base) -> Result<Exit, CliError> {
    let manifest = plangate_slack::manifest::manifest(&base.url());
    if console.json {
        console.out_json(&manifest)?;
    } else {
        console.out(&format!("{manifest:#}\n"))?;
    }
    Ok(Exit::Success)
}

/// Builds a folder's bundle.
///
/// # Errors
/// What the folder may not hold, or the archive cannot be written.
pub(crate) fn bundle(console: &Console, args: &BundleFolder) -> Result<Exit, CliError> {
    let bundle = engine::build(&args.folder, None, console)?;
    if let Some(path) = &args.output {
        std::fs::write(path, bundle.bytes())
            .map_err(|source| CliError::Write { path: inert(&path.to_string_lossy()), source })?;
    }
    let digest = bundle.digest();
    if console.json {
        console.out_json(&Bundled {
            digest: digest.to_string(),
            entries: bundle.files(),
            bytes: bundle.bytes().len(),
            unpacked_bytes: bundle.unpacked_bytes(),
            lock_file: bundle.lock_file_digest().map(|digest| digest.to_string()),
        })?;
        return Ok(Exit::Success);
    }
    let files = engine::entries(&bundle);
    let (packed, whole) = (bytes(bundle.bytes().len() as u64), bytes(bundle.unpacked_bytes()));
    console.out(&format!("{digest}\n{files}, {packed} packed, {whole} unpacked\n"))?;
    Ok(Exit::Success)
}

/// Projects a plan document.
///
/// # Errors
/// The file is no plan document.
pub(crate) fn project(console: &Console, args: &Project) -> Result<Exit, CliError> {
    let document = read_file(&args.file, DOCUMENT_LIMIT)?;
    let unreadable = |detail: String| CliError::File { path: inert(&args.file.to_string_lossy()), detail };
    let parsed = PlanDocument::parse_untrusted(&document)
        .map_err(|error| unreadable(format!("{error} ({})", error.reason())))?;
    let withhold = match &args.policy {
        Some(path) => policy(path)?.withhold().map_err(|error| unreadable(error.to_string()))?,
        None => Withhold::nothing(),
    };
    let projected = Projection::of(&parsed, &withhold);
    if console.json {
        console.out_exact(projected.bytes())?;
        return Ok(Exit::Success);
    }
    console.out(&projection::text(projected.bytes(), console.paint)?)?;
    console.note(&console.err_paint.tone(Tone::Dim, &format!("projection {}", projected.digest())));
    Ok(Exit::Success)
}

/// Judges a plan document by a policy. What the gate knows besides (whether the workspace manages it, what belongs to
/// it) is not known here.
///
/// # Errors
/// The policy is none.
pub(crate) fn guard(console: &Console, args: &Guard) -> Result<Exit, CliError> {
    let policy = policy(&args.policy)?;
    let bytes = read_file(&args.file, DOCUMENT_LIMIT)?;
    let document = PlanDocument::parse_untrusted(&bytes);
    let withhold = policy.withhold().map_err(|error| invalid(&args.policy, &error))?;
    let projected = document.as_ref().ok().map(|document| Projection::of(document, &withhold));
    let (document, projected, context) = (document.as_ref(), projected.as_ref(), GuardContext::default());
    let outcome = Guardrails::evaluate_with(&Sandbox::of_this_program(), document, projected, &policy, &context);
    let record = outcome.record(policy.digest(), policy.own_rules.as_ref().map(OwnRules::digest));
    if console.json {
        console.out_json(&record)?;
    } else if record.eligible {
        console.out(&format!("{}\n", console.paint.tone(Tone::Good, "eligible")))?;
    } else {
        let word = console.paint.tone(Tone::Wait, "not eligible");
        let lines: String = record.findings.iter().map(|each| format!("  {}\n", finding(each))).collect();
        let more = record.findings_total.saturating_sub(record.findings.len() as u64);
        let more = if more > 0 { format!("  and {}\n", count(more, "more reason")) } else { String::new() };
        console.out(&format!("{word}\n{lines}{more}"))?;
    }
    console.note(&console.err_paint.tone(Tone::Dim, &format!("policy {}", record.policy)));
    Ok(if record.eligible { Exit::Success } else { Exit::Refused })
}

/// Reads a policy: its own text, or a document's file as `policy put` takes it.
fn policy(path: &Path) -> Result<Policy, CliError> {
    let bytes = read_file(path, POLICY_LIMIT as u64 * 2)?;
    let spec = serde_json::from_slice::<serde_json::Value>(&bytes)
        .ok()
        .and_then(|value| value.get("spec").map(|spec| spec.to_string().into_bytes()));
    Policy::parse_untrusted(spec.as_deref().unwrap_or(&bytes)).map_err(|error| invalid(path, &error))
}

fn invalid(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::File { path: inert(&path.to_string_lossy()), detail: error.to_string() }
}
