//! A run's record, laid out for people (`R52`).

use plangate_gate::drift::DriftWord;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::StoredObject;
use plangate_gate::run::{Actor, Choice, LockFile, Origin, Proposer, ReviewRecord, Run};
use plangate_gate::state::StateIdentity;
use plangate_gate::time::Timestamp;
use plangate_gate::verdict::Remark;
use plangate_wire::{AnnotationView, RunView};

use crate::console::{Paint, Tone};
use crate::freeze::told;
use crate::text::{bytes, count, finding, inert, span};

/// How a status looks.
pub(crate) const fn tone(status: Status) -> Tone {
    match status {
        Status::Applied | Status::NoChanges | Status::Planned => Tone::Good,
        Status::Failed | Status::Rejected | Status::Expired => Tone::Bad,
        Status::AwaitingApproval => Tone::Wait,
        Status::Canceled => Tone::Dim,
        _ => Tone::Busy,
    }
}

/// A moment for people: `2026-11-30 05:00:00 UTC`.
pub(crate) fn moment(at: Timestamp) -> String {
    at.to_string().replace('T', " ").replace('Z', " UTC")
}

/// A moment in a table: `2026-11-30 05:00`.
pub(crate) fn minute(at: Timestamp) -> String {
    moment(at).chars().take(16).collect()
}

/// Labels and values under headings.
struct Sheet {
    text: String,
    paint: Paint,
}

impl Sheet {
    fn section(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text += &self.paint.tone(Tone::Strong, heading);
        self.text.push('\n');
    }

    /// A row; an empty label goes on with the one above.
    fn row(&mut self, label: &str, value: &str) {
        let label = self.paint.tone(Tone::Dim, &format!("{label:<14}"));
        self.text += &format!("  {label} {value}\n");
    }

    fn object(&mut self, label: &str, object: &StoredObject) {
        self.row(label, &format!("{} ({})", object.digest, bytes(object.bytes)));
        if let Some(version) = &object.version_id {
            self.row("", &format!("version {}", inert(version)));
        }
    }

    fn state(&mut self, label: &str, state: &StateIdentity) {
        match state {
            StateIdentity::None => self.row(label, "no state"),
            StateIdentity::Present { lineage, serial, version_id, digest } => {
                self.row(label, &format!("serial {serial} of lineage {}", inert(lineage)));
                self.row("", &format!("version {}", inert(version_id)));
                self.row("", &digest.to_string());
            }
        }
    }
}

/// Who, with the IAM identity behind the name.
pub(crate) fn actor(actor: &Actor) -> String {
    match actor {
        Actor::Person { person, arn } => format!("{person} ({})", inert(arn)),
        Actor::Slack { person, team, user } => format!("{person} (Slack user {}/{})", inert(team), inert(user)),
        Actor::Gate { function } => format!("the gate ({})", inert(function)),
        Actor::Automatic => "the gate, without a person (automatic)".to_owned(),
    }
}

fn proposer(proposer: &Proposer) -> String {
    let behind = proposer.on_behalf_of.as_ref().map_or(String::new(), |person| format!(" for {person}"));
    format!("{}{behind} ({})", proposer.person, inert(&proposer.arn))
}

/// One remark of a reviewer: advice.
pub(crate) fn remark(remark: &Remark) -> String {
    let address = remark.address.as_ref().map_or(String::new(), |address| format!("  {}", inert(address)));
    format!("{}{address}  {}", remark.severity.as_str(), inert(&remark.note))
}

/// What a run has found of drift, in one line.
fn drift(word: &DriftWord) -> String {
    match word {
        DriftWord::Nothing => "none, as before".to_owned(),
        DriftWord::Found { previous: None } => "new: this is what has drifted".to_owned(),
        DriftWord::Found { previous: Some(_) } => "new: something else has drifted than before".to_owned(),
        DriftWord::Standing { first } => format!("stands, as {first} found it"),
        DriftWord::Gone { .. } => "gone".to_owned(),
        DriftWord::Failing | DriftWord::StillFailing { .. } => "could not be looked for".to_owned(),
        DriftWord::Unclear => "unclear: something was applied meanwhile; it is looked at again soon".to_owned(),
    }
}

/// The whole record of a run, as it is at `now`.
pub(crate) fn record(view: &RunView, now: Timestamp, paint: Paint) -> String {
    let run = &view.run;
    let mut sheet = Sheet { text: String::new(), paint };
    head(&mut sheet, view, now);
    if let Some(plan) = &run.plan {
        sheet.section("Plan");
        sheet.row("engine", &inert(&plan.engine.to_string()));
        sheet.row("identity", &inert(&plan.caller));
        if let Some(caller) = &plan.estate_caller {
            sheet.row("in the estate", &inert(caller));
        }
        sheet.object("artifact", &plan.artifact);
        sheet.object("document", &plan.document);
        if let Some(projection) = &run.projection {
            sheet.object("projection", &projection.object);
        }
        let lock_file = match &plan.lock_file {
            LockFile::None => "none needed".to_owned(),
            LockFile::Present(digest) => digest.to_string(),
        };
        sheet.row("lock file", &lock_file);
        sheet.state("state", &plan.state);
        if let Some(change) = run.outside() {
            let told = paint.tone(Tone::Bad, "changed outside of the gate");
            sheet.row("", &format!("{told} since {} saw it", change.before.run));
            sheet.row("", &format!("`plangate workspace get {}` tells how to find who did it", run.workspace));
        }
        if let Some(word) = &run.drift {
            sheet.row("drift", &drift(word));
        }
        let dead = if plan.expires_at <= now { " (past)" } else { "" };
        sheet.row("expires", &format!("{}{dead}", moment(plan.expires_at)));
        orphan(&mut sheet, plan.state_lock.orphan.as_ref());
    }
    judged(&mut sheet, run);
    if let Some(decision) = &run.decision {
        sheet.section("Decision");
        let (word, tone) = match decision.choice {
            Choice::Approve => ("approved", Tone::Good),
            Choice::Reject => ("rejected", Tone::Bad),
        };
        sheet.row("decision", &paint.tone(tone, word));
        sheet.row("by", &actor(&decision.by));
        sheet.row("at", &moment(decision.at));
        sheet.row("projection", &decision.projection.to_string());
        if let Some(reason) = &decision.reason {
            sheet.row("reason", &inert(reason));
        }
    }
    applied(&mut sheet, run);
    if let Some(cancel) = &run.cancel {
        sheet.section("Withdrawal");
        sheet.row("asked by", &actor(&cancel.by));
        sheet.row("at", &moment(cancel.at));
        if let Some(reason) = &cancel.reason {
            sheet.row("reason", &inert(reason));
        }
    }
    if run.failure.is_some() || view.next_step.is_some() {
        sheet.section("Outcome");
        if let Some(failure) = &run.failure {
            sheet.row("failure", &paint.tone(Tone::Bad, failure.reason.code()));
            sheet.row("detail", &inert(&failure.detail));
        }
        if let Some(next) = &view.next_step {
            sheet.row("next", &inert(next));
        }
    }
    sheet.text
}

/// What was noted to a run, in its order; nothing where nothing was.
pub(crate) fn annotations(annotations: &[AnnotationView], paint: Paint) -> String {
    let mut sheet = Sheet { text: String::new(), paint };
    for (place, each) in annotations.iter().enumerate() {
        if place == 0 {
            sheet.section("Annotations");
        }
        let corrects = each.corrects.map_or(String::new(), |seq| format!(", corrects event {seq}"));
        sheet.row(&format!("event {}", each.seq), &format!("{}{corrects}", moment(each.at)));
        sheet.row("by", &actor(&each.by));
        sheet.row("note", &inert(&each.note));
    }
    sheet.text
}

fn head(sheet: &mut Sheet, view: &RunView, now: Timestamp) {
    let run = &view.run;
    sheet.section(run.id.as_str());
    let status = sheet.paint.tone(tone(run.status), run.status.as_str());
    let still = if run.status.is_terminal() {
        String::new()
    } else {
        format!(" for {}", span(run.updated_at.seconds_until(now)))
    };
    sheet.row("status", &format!("{status}{still}"));
    if let Some(place) = run.queued_as {
        sheet.row("place in line", &place.to_string());
    }
    for frozen in &view.frozen {
        let line = sheet.paint.tone(Tone::Bad, &told(frozen));
        sheet.row("frozen", &line);
    }
    let name = run.pinned.as_ref().map_or(String::new(), |pinned| format!(" {}", inert(&pinned.spec.name)));
    sheet.row("workspace", &format!("{}{name}", run.workspace));
    sheet.row("kind", &run.kind.to_string());
    sheet.row("proposed by", &proposer(&run.proposer));
    let origin = match run.origin {
        Origin::Person => "",
        Origin::Ci => ", from a pipeline",
        Origin::Drift => ", by the drift schedule",
        Origin::Reassembly => ", put together anew",
    };
    sheet.row("proposed at", &format!("{}{origin}", moment(run.proposed_at)));
    if let Some(other) = &run.derived_from {
        sheet.row("derived from", other.as_str());
    }
    if let Some(ended) = run.ended_at {
        sheet.row("ended at", &format!("{}, after {}", moment(ended), span(run.proposed_at.seconds_until(ended))));
    }
    sheet.object("bundle", &run.bundle);
}

fn judged(sheet: &mut Sheet, run: &Run) {
    if let Some(outcome) = &run.guardrails {
        sheet.section("Guardrails");
        let (word, tone) = if outcome.eligible { ("eligible", Tone::Good) } else { ("not eligible", Tone::Wait) };
        let word = sheet.paint.tone(tone, word);
        sheet.row("outcome", &word);
        sheet.row("rules", &format!("{} {}", inert(&outcome.rule_set.id), inert(&outcome.rule_set.version)));
        sheet.row("", &outcome.rule_set.digest.to_string());
        sheet.row("policy", &outcome.policy.to_string());
        for (place, each) in outcome.findings.iter().enumerate() {
            sheet.row(if place == 0 { "reasons" } else { "" }, &finding(each));
        }
        let more = outcome.findings_total.saturating_sub(outcome.findings.len() as u64);
        if more > 0 {
            sheet.row("", &format!("and {} more", count(more, "reason")));
        }
    }
    if let Some(review) = &run.review {
        sheet.section("Review");
        reviewed(sheet, review);
    }
}

/// What a reviewer said: advice, in words that are somebody else's.
fn reviewed(sheet: &mut Sheet, review: &ReviewRecord) {
    let cause = review.cause.map_or(String::new(), |cause| format!(", {cause}"));
    sheet.row("verdict", &format!("{}{cause}", review.decision.as_str()));
    if let Some(cause) = review.cause {
        sheet.row("", cause.meaning().trim());
    }
    let model = review.model.as_ref().map_or(String::new(), |model| {
        let answered = model.answered.as_ref().filter(|answered| **answered != model.requested);
        let answered = answered.map_or(String::new(), |name| format!(", answered as {}", inert(name)));
        format!(", {}{answered}", inert(&model.requested))
    });
    sheet.row("reviewer", &format!("{}{model}", inert(&review.binding)));
    if let Some(reasoning) = &review.reasoning {
        sheet.row("reasoning", &inert(reasoning));
    }
    for (place, each) in review.findings.iter().enumerate() {
        sheet.row(if place == 0 { "advice" } else { "" }, &remark(each));
    }
    sheet.row("at", &moment(review.at));
    if let (Some(tokens), Some(milliseconds)) = (review.tokens, review.milliseconds) {
        let used = format!("{} read, {} written, in {milliseconds} ms", count(tokens.input, "token"), tokens.output);
        sheet.row("used", &used);
    }
    sheet.row("projection", &review.projection.to_string());
    if let Some(prompt) = &review.prompt {
        sheet.row("prompt", &format!("version {}, {}", prompt.version, prompt.digest));
    }
    if let Some(policy) = &review.policy {
        sheet.row("review policy", &policy.to_string());
    }
}

fn applied(sheet: &mut Sheet, run: &Run) {
    let Some(apply) = &run.apply else { return };
    sheet.section("Apply");
    sheet.row("ordered at", &moment(apply.ordered_at));
    sheet.row("order", &apply.order.to_string());
    if let Some(caller) = &apply.caller {
        sheet.row("identity", &inert(caller));
    }
    if let Some(caller) = &apply.estate_caller {
        sheet.row("in the estate", &inert(caller));
    }
    if let Some(code) = apply.exit_code {
        sheet.row("exit code", &code.to_string());
    }
    if let Some(state) = &apply.state_before {
        sheet.state("state before", state);
    }
    if let Some(state) = &apply.state_after {
        sheet.state("state after", state);
    }
    if let Some(object) = &apply.errored_state {
        let red = sheet.paint.tone(Tone::Bad, &inert(&format!("s3://{}/{}", object.bucket, object.key)));
        sheet.row("unsaved state", &red);
    }
    orphan(sheet, apply.state_lock.as_ref().and_then(|lock| lock.orphan.as_ref()));
}

fn orphan(sheet: &mut Sheet, lock: Option<&plangate_gate::receipt::OrphanedLock>) {
    if let Some(lock) = lock {
        let text =
            format!("{} of {} ({}) was left behind", inert(&lock.id), inert(&lock.created), inert(&lock.operation));
        let text = sheet.paint.tone(Tone::Wait, &text);
        sheet.row("state lock", &text);
    }
}
