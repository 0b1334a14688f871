//! `conformance`: runs a folder of vectors on the decision core that this program carries.

use std::path::Path;

use plangate_gate::conformance::CaseFiles;
use plangate_rules::Sandbox;
use serde::Serialize;

use crate::args::Conformance;
use crate::console::{Console, Tone};
use crate::documents::read_file;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text::{count, inert};

/// The most bytes of a file of a case.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

/// What one case gave, as `--json` prints it.
#[derive(Serialize)]
struct Line {
    case: String,
    holds: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

/// Runs every case of a folder: a line for each, and a summary.
///
/// # Errors
/// The folder or a file in it cannot be read, or no case stands in it. A case that does not hold is an exit code.
pub(crate) fn conformance(console: &Console, args: &Conformance) -> Result<Exit, CliError> {
    let engine = Sandbox::of_this_program();
    let mut lines = Vec::new();
    for name in cases(&args.folder)? {
        let line = run(&engine, &args.folder, name)?;
        if !console.json {
            let (tone, word) = if line.holds { (Tone::Good, "holds") } else { (Tone::Bad, "BROKEN") };
            let said = inert(line.title.as_deref().or(line.broken.as_deref()).unwrap_or_default());
            console.out(&format!("{} {}  {said}\n", console.paint.tone(tone, word), inert(&line.case)))?;
        }
        lines.push(line);
    }
    if lines.is_empty() {
        let detail = "no folder with a `case.json` stands in it".to_owned();
        return Err(CliError::File { path: inert(&args.folder.to_string_lossy()), detail });
    }
    let broken = lines.iter().filter(|line| !line.holds).count();
    if console.json {
        console.out_json(&serde_json::json!({"cases": lines, "broken": broken}))?;
    } else {
        console.out(&format!("{}, {broken} broken\n", count(lines.len() as u64, "case")))?;
    }
    Ok(if broken == 0 { Exit::Success } else { Exit::Error })
}

/// The names of the folders in which a case stands, sorted.
fn cases(folder: &Path) -> Result<Vec<String>, CliError> {
    let unreadable = |source| CliError::read(inert(&folder.to_string_lossy()), source);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().join("case.json").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn run(engine: &Sandbox, folder: &Path, name: String) -> Result<Line, CliError> {
    let path = folder.join(&name);
    let file = |name: &str| {
        let path = path.join(name);
        if path.is_file() { read_file(&path, FILE_LIMIT).map(Some) } else { Ok(None) }
    };
    let (case, document, policy) = (file("case.json")?, file("document.json")?, file("policy.json")?);
    let (verdict, projection) = (file("verdict.json")?, file("projection.json")?);
    let files = CaseFiles {
        case: case.as_deref().unwrap_or_default(),
        document: document.as_deref(),
        policy: policy.as_deref(),
        verdict: verdict.as_deref(),
        projection: projection.as_deref(),
    };
    Ok(match files.run(engine) {
        Ok(held) => Line { case: name, holds: true, title: Some(held.title), broken: None },
        Err(broken) => Line { case: name, holds: false, title: None, broken: Some(broken.to_string()) },
    })
}
