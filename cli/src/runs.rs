//! Listing runs, showing one, following one.

use plangate_gate::ids::RunId;
use plangate_wire::{AnnotationView, ProjectionAnswer, RunView, RunsAnswer};
use serde::Serialize;

use crate::api::Api;
use crate::args::{Runs, Show, Watch};
use crate::console::{Console, Paint, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::record::{self, minute};
use crate::text::table;
use crate::{audit, documents, markdown, projection, watch};

/// Lists runs, newest first.
///
/// # Errors
/// The gate refuses.
pub(crate) fn list(api: &Api<'_>, console: &Console, args: &Runs) -> Result<Exit, CliError> {
    let workspace = args.workspace.as_deref().map(|name| documents::resolve(api, name)).transpose()?;
    let wanted = args.limit as usize;
    let mut runs: Vec<RunView> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let limit = (wanted - runs.len()).min(100).to_string();
        let mut query = vec![("limit", limit.as_str())];
        if let Some(workspace) = &workspace {
            query.push(("workspace", workspace.as_str()));
        }
        if let Some(cursor) = &cursor {
            query.push(("cursor", cursor));
        }
        let page: RunsAnswer = api.get(&["v1", "runs"], &query)?;
        runs.extend(page.runs);
        cursor = page.cursor;
        if cursor.is_none() || runs.len() >= wanted {
            break;
        }
    }
    runs.truncate(wanted);
    if console.json {
        console.out_json(&RunsAnswer { runs, cursor })?;
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        console.note("no runs");
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|view| {
            let run = &view.run;
            let workspace = run
                .pinned
                .as_ref()
                .map_or_else(|| run.workspace.to_string(), |pinned| crate::text::inert(&pinned.spec.name));
            vec![
                run.id.to_string(),
                run.status.to_string(),
                run.kind.to_string(),
                workspace,
                minute(run.proposed_at),
                run.proposer.person.to_string(),
            ]
        })
        .collect();
    let paint = console.paint;
    let painted = |row: usize, column: usize, cell: &str| match runs.get(row) {
        Some(view) if column == 1 => paint.tone(record::tone(view.run.status), cell),
        _ => cell.to_owned(),
    };
    let headings = ["RUN", "STATUS", "KIND", "WORKSPACE", "PROPOSED (UTC)", "BY"];
    console.out(&table(&headings, &rows, painted, |name| paint.tone(Tone::Dim, name)))?;
    Ok(Exit::Success)
}

/// What `show --json` prints.
#[derive(Serialize)]
struct Shown {
    run: RunView,
    projection: Option<ProjectionAnswer>,
    annotations: Vec<AnnotationView>,
}

/// Shows a run's record, what was noted to it, and its projection.
///
/// # Errors
/// The gate refuses, or the projection is not what its digest says.
pub(crate) fn show(api: &Api<'_>, console: &Console, args: &Show) -> Result<Exit, CliError> {
    let run = watch::read(api, &args.run)?;
    let seen = if args.no_projection { None } else { projection::fetch_if_there(api, &run)? };
    if args.markdown && !console.json {
        let text = seen.map(|seen| seen.text(Paint(false))).transpose()?;
        console.out(&markdown::comment(&run, text.as_deref()))?;
        return Ok(Exit::Success);
    }
    // Notes are not in the record, which never changes once a run has ended: they are events.
    let annotations = match audit::annotations(api, &run.run) {
        Ok(annotations) => annotations,
        Err(error) => {
            // The record can be looked at all the same; what cannot be trusted is not shown as what somebody said.
            let warning = console.err_paint.tone(Tone::Bad, "annotations are not shown:");
            console.note(&format!("{warning} {error}"));
            Vec::new()
        }
    };
    if console.json {
        let projection = seen.map(|seen| seen.to_answer()).transpose()?;
        console.out_json(&Shown { run, projection, annotations })?;
        return Ok(Exit::Success);
    }
    console.out(&record::record(&run, watch::now()?, console.paint))?;
    if !annotations.is_empty() {
        console.out(&format!("\n{}", record::annotations(&annotations, console.paint)))?;
    }
    if let Some(seen) = seen {
        let heading = console.paint.tone(Tone::Strong, "Projection");
        console.out(&format!("\n{heading}\n{}", seen.text(console.paint)?))?;
        if run.run.status == plangate_gate::lifecycle::Status::AwaitingApproval {
            console.out(&format!("\n{}", projection::how_to_decide(&run.run.id, seen.digest())))?;
        }
    }
    Ok(Exit::Success)
}

/// Follows a run.
///
/// # Errors
/// The gate refuses.
pub(crate) fn watch(api: &Api<'_>, console: &Console, args: &Watch) -> Result<Exit, CliError> {
    let run: &RunId = &args.run;
    let view = watch::read(api, run)?;
    let view = watch::follow(api, console, view, args.follow.to_end, args.follow.interval)?;
    watch::conclude(api, console, &view)
}
