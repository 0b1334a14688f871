//! The message about a run: made from its record and the projection's bytes alone (`R54`), and shown whole or not at all.

use plangate_gate::digest::Digest;
use plangate_gate::lifecycle::Status;
use plangate_gate::projection::ProjectionView;
use plangate_gate::render::{RenderStyle, finding, inert, summary, text as rendered};
use plangate_gate::run::{GuardrailRecord, Run};
use plangate_gate::verdict::Remark;
use serde::Serialize;
use serde_json::{Value, json};

use crate::interaction::{APPROVE, About, REJECT};
use crate::text::{field, length, pieces, plain, preformatted, section};

/// The most bytes of a projection that a message is made from. A larger one is never shown.
pub const PROJECTION_LIMIT: u64 = 1024 * 1024;

/// The most blocks of a message.
pub(crate) const BLOCKS: usize = 50;

/// The most characters of all blocks together. Slack documents none and refuses (`msg_blocks_too_long`) from about 13,200 on.
pub(crate) const CHARACTERS: usize = 12_000;

/// What a message is about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The run's record.
    pub run: &'a Run,
    /// What people call its workspace.
    pub workspace: &'a str,
    /// The projection's exact bytes, if they could be read.
    pub projection: Option<&'a [u8]>,
}

/// A message: the text that notifications show, and its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// For notifications and readers of screens. Made of ids and numbers alone: Slack reads markup in it.
    pub text: String,
    /// What is shown.
    pub blocks: Vec<Value>,
}

impl Message {
    /// The message about a run as it stands.
    #[must_use]
    pub fn of(subject: &Subject<'_>) -> Self {
        let run = subject.run;
        let view = view(subject);
        let shown = view.as_ref().and_then(|view| whole(run, view));
        let counts = counts(run, view.as_ref());
        let waits = run.status == Status::AwaitingApproval;
        let mut blocks =
            vec![json!({ "type": "header", "text": plain(headline(run.status)) }), facts(subject, &counts)];
        let fits = shown.and_then(|shown| {
            let mut blocks = blocks.clone();
            blocks.extend(shown);
            blocks.push(footer(run));
            blocks.extend(if waits { buttons(subject, &counts) } else { None });
            let characters = serde_json::to_string(&blocks).map_or(usize::MAX, |text| length(&text));
            (blocks.len() <= BLOCKS && characters <= CHARACTERS).then_some(blocks)
        });
        let blocks = fits.unwrap_or_else(|| {
            // Never a part for the whole (`R27`): no list, and nothing to press.
            blocks.push(section(&elsewhere(run, waits)));
            blocks.push(footer(run));
            blocks
        });
        let text = format!("{}: {} in {}. {counts}", headline(run.status), run.id, run.workspace);
        Self { text, blocks }
    }

    /// Names exactly what is shown.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(serde_json::to_string(self).unwrap_or_default().as_bytes())
    }
}

const fn headline(status: Status) -> &'static str {
    match status {
        Status::AwaitingApproval => "A change waits for approval",
        Status::Approved => "Approved",
        Status::Applying => "Being applied",
        Status::Applied => "Applied",
        Status::Rejected => "Rejected",
        Status::Expired => "Expired: nobody decided in time",
        Status::Failed => "Failed",
        Status::Canceled => "Withdrawn",
        Status::NoChanges => "No changes",
        Status::Planned => "Planned",
        Status::Proposed | Status::Queued | Status::Planning | Status::Evaluating | Status::Reviewing => {
            "Being planned"
        }
    }
}

/// How much is changed, in one line.
pub(crate) fn counts(run: &Run, view: Option<&ProjectionView<'_>>) -> String {
    if let Some(view) = view {
        return summary(view);
    }
    let counts = run.projection.as_ref().map(|projection| projection.counts).unwrap_or_default();
    let (create, update, delete, replace) = (counts.create, counts.update, counts.delete, counts.replace);
    format!("Plan: {create} to add, {update} to change, {delete} to destroy, {replace} to replace.")
}

/// The projection, if its bytes are here and are those of the record.
pub(crate) fn view<'a>(subject: &Subject<'a>) -> Option<ProjectionView<'a>> {
    let bytes = subject.projection?;
    if subject.run.projection.as_ref()?.object.digest != Digest::of(bytes) {
        return None;
    }
    ProjectionView::parse(bytes).ok()
}

fn facts(subject: &Subject<'_>, counts: &str) -> Value {
    let run = subject.run;
    let behind = run.proposer.on_behalf_of.as_ref().map_or(String::new(), |person| format!(" for {person}"));
    let mut fields = vec![
        field("Workspace", &format!("{} ({})", subject.workspace, run.workspace)),
        field("Run", run.id.as_str()),
        field("Proposed by", &format!("{}{behind}", run.proposer.person)),
        field("Kind", &run.kind.to_string()),
        field("Changes", counts),
    ];
    fields.extend(run.guardrails.as_ref().map(|outcome| field("Guardrails", &verdict_of_rules(outcome))));
    fields.extend(run.review.as_ref().map(|review| {
        let cause = review.cause.map_or(String::new(), |cause| format!(" ({})", cause.code()));
        field("Reviewer", &format!("{}: {}{cause}", review.binding, review.decision.as_str()))
    }));
    fields.extend(run.decision.as_ref().map(|decision| {
        field(
            if run.status == Status::Rejected { "Rejected by" } else { "Approved by" },
            &format!("{}, {}", decision.by.name(), decision.at),
        )
    }));
    let lives = run.plan.as_ref().filter(|_| run.status == Status::AwaitingApproval);
    fields.extend(lives.map(|plan| field("Plan expires", &plan.expires_at.to_string())));
    fields.extend(
        run.failure
            .as_ref()
            .map(|failure| field("Why", &format!("{}. Next: {}", failure.reason.code(), failure.reason.next_step()))),
    );
    json!({ "type": "section", "fields": fields })
}

fn verdict_of_rules(outcome: &GuardrailRecord) -> String {
    match (outcome.eligible, outcome.findings_total) {
        (true, _) => "eligible for automatic approval".to_owned(),
        (false, 1) => "1 reason against automatic approval".to_owned(),
        (false, total) => format!("{total} reasons against automatic approval"),
    }
}

/// The blocks with all of the change and all reasons; none where that would be a part only.
pub(crate) fn whole(run: &Run, view: &ProjectionView<'_>) -> Option<Vec<Value>> {
    let text = rendered(view, RenderStyle::Plain);
    // The last line says how much; that stands among the facts already.
    let change = pieces(text.trim_end().rsplit_once('\n').map_or("", |(list, _)| list))?;
    let mut blocks: Vec<Value> = change.iter().map(|piece| preformatted(piece)).collect();
    if let Some(outcome) = run.guardrails.as_ref().filter(|outcome| !outcome.findings.is_empty()) {
        if outcome.findings_total > outcome.findings.len() as u64 {
            return None;
        }
        let lines: Vec<String> = outcome.findings.iter().map(finding).collect();
        blocks.push(section("Against automatic approval:"));
        blocks.extend(pieces(&lines.join("\n"))?.iter().map(|piece| preformatted(piece)));
    }
    if let Some(review) = run.review.as_ref().filter(|review| !review.findings.is_empty()) {
        let lines: Vec<String> = review.findings.iter().map(remark).collect();
        blocks.push(section("The reviewer's findings, as advice (its words: `plangate show`):"));
        blocks.extend(pieces(&lines.join("\n"))?.iter().map(|piece| preformatted(piece)));
    }
    Some(blocks)
}

/// A remark of the reviewer's without its prose, which is a model's.
fn remark(remark: &Remark) -> String {
    let address = remark.address.as_deref().map_or("the plan as a whole".to_owned(), inert);
    format!("{}  {address}", remark.severity.as_str())
}

fn elsewhere(run: &Run, waits: bool) -> String {
    let decide = if waits {
        format!(
            " Decide there: `plangate approve {0}` shows all of it and asks; `plangate reject {0} --reason WHY` rejects it.",
            run.id
        )
    } else {
        String::new()
    };
    format!(
        "This change does not fit into a message, so nothing of it is listed here. See all of it: `plangate show {}`.{decide}",
        run.id
    )
}

pub(crate) fn footer(run: &Run) -> Value {
    let digest = run.projection.as_ref().map(|projection| projection.object.digest.to_string());
    let text = format!("Projection {}", digest.unwrap_or_else(|| "none".to_owned()));
    json!({ "type": "context", "elements": [plain(&text)] })
}

fn buttons(subject: &Subject<'_>, counts: &str) -> Option<Value> {
    let run = subject.run;
    let about = About { run: run.id.clone(), projection: run.projection.as_ref()?.object.digest }.to_string();
    // Ids and numbers alone: what is confirmed is at most 300 characters long whatever the workspace is called.
    let text = format!("{counts} Exactly this plan is applied to {}, at once.", run.workspace);
    Some(json!({
        "type": "actions",
        "block_id": "decide",
        "elements": [
            {
                "type": "button", "style": "primary", "action_id": APPROVE, "value": about, "text": plain("Approve"),
                "confirm": {
                    "title": plain("Approve this change?"), "text": plain(&text),
                    "confirm": plain("Approve and apply"), "deny": plain("Back")
                }
            },
            { "type": "button", "style": "danger", "action_id": REJECT, "value": about, "text": plain("Reject…") }
        ]
    }))
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
