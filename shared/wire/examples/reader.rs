//! Says of documents whether the gate's own readers take them, so that tests can hold the published schemas against them.
//! Takes lines `{"schema", "document", "workspace"}`: a schema's file, a document's text, and of a workspace's configuration
//! the id that it is for. Answers each with a line: `null`, or in words why it is refused.

use std::io::{self, BufRead as _, Write as _};

use plangate_gate::announce::Announcement;
use plangate_gate::audit::AuditEvent;
use plangate_gate::audit::archive::Tampering;
use plangate_gate::audit::history::{ArchivedEvent, TableEvent};
use plangate_gate::audit::witness::Witness;
use plangate_gate::documents::{GrantSpec, PrincipalSpec, WorkspaceSpec};
use plangate_gate::drift::Drift;
use plangate_gate::freeze::GateFreeze;
use plangate_gate::ids::WorkspaceId;
use plangate_gate::known::Known;
use plangate_gate::lock::Lock;
use plangate_gate::order::{Signatures, WorkOrder};
use plangate_gate::policy::Policy;
use plangate_gate::projection::ProjectionView;
use plangate_gate::receipt::{ApplyResult, Claim, Receipt};
use plangate_gate::run::Run;
use plangate_gate::untrusted;
use plangate_gate::verdict::{Verdict, VerdictError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The most bytes of a document here; the readers have their own limits.
const LIMIT: usize = 64 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    schema: String,
    document: String,
    workspace: Option<WorkspaceId>,
}

fn strict<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    untrusted::parse("document", text.as_bytes(), LIMIT).map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn read(question: &Question) -> Result<(), String> {
    let text = question.document.as_str();
    let bytes = text.as_bytes();
    match question.schema.as_str() {
        "audit-event.v1.json" => strict::<AuditEvent>(text).map(drop),
        "audit-export.v1.json#/$defs/archive" => strict::<ArchivedEvent>(text).map(drop),
        "audit-export.v1.json#/$defs/table" => strict::<TableEvent>(text).map(drop),
        "claim.v1.json" => Claim::parse_untrusted(bytes).map(drop).map_err(told),
        "drift.v1.json" => strict::<Drift>(text).map(drop),
        "freeze.v1.json" => strict::<GateFreeze>(text).map(drop),
        "grant.v1.json" => strict::<GrantSpec>(text)?.validate().map_err(told),
        "known.v1.json" => strict::<Known>(text).map(drop),
        "lock.v1.json" => strict::<Lock>(text).map(drop),
        "policy.v1.json" => Policy::parse_untrusted(bytes).map(drop).map_err(told),
        "principal.v1.json" => strict::<PrincipalSpec>(text)?.validate().map_err(told),
        "projection.v1.json" => ProjectionView::parse(bytes).map(drop).map_err(told),
        "receipt.v1.json" => Receipt::parse_untrusted(bytes).map(drop).map_err(told),
        "result.v1.json" => ApplyResult::parse_untrusted(bytes).map(drop).map_err(told),
        "run-status.v1.json" => strict::<Announcement>(text).map(drop),
        "run.v1.json" => strict::<Run>(text).map(drop),
        "signatures.v1.json" => Signatures::parse_untrusted(bytes).map(drop).map_err(told),
        "tampering.v1.json" => strict::<Tampering>(text).map(drop),
        // Which addresses there are is for the projection that it is about.
        "verdict.v1.json" => match Verdict::parse_untrusted(bytes, []) {
            Ok(_) | Err(VerdictError::UnknownAddress) => Ok(()),
            Err(error) => Err(told(error)),
        },
        "witness.v1.json" => strict::<Witness>(text).map(drop),
        "work-order.v1.json" => WorkOrder::parse_untrusted(bytes).map(drop).map_err(told),
        "workspace.v1.json" => {
            let id = question.workspace.as_ref().ok_or("name the workspace")?;
            strict::<WorkspaceSpec>(text)?.validate(id).map_err(told)
        }
        other => Err(format!("no reader of {other}")),
    }
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        serde_json::to_writer(&mut out, &read(&question).err())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
