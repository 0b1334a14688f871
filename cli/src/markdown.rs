//! A run and its projection as a comment on a pull or merge request. What a plan says is somebody else's text: it stands in
//! fences and code spans alone, in which no mention, link, markup or HTML is alive, and which it cannot leave.

use plangate_gate::lifecycle::Status;
use plangate_gate::run::Run;
use plangate_wire::RunView;

use crate::record::moment;
use crate::text::{count, finding, inert};

/// The most that GitHub takes of a comment, in UTF-16 code units: no fewer than any other way to count characters gives.
pub(crate) const LIMIT: usize = 65_536;

/// The most lines of findings.
const FINDINGS: usize = 50;

/// The hidden line by which the next comment of the same workspace finds this one, to be put in its place.
#[must_use]
pub(crate) fn marker(run: &Run) -> String {
    format!("<!-- plangate {} -->", run.workspace)
}

/// The comment. `projection` is the projection as text, held against its digest, where there is one.
#[must_use]
pub(crate) fn comment(view: &RunView, projection: Option<&str>) -> String {
    let run = &view.run;
    let head = head(view);
    let Some(projection) = projection else { return bounded(&head, "") };
    let decide = decide(run);
    let whole = format!("{head}\n{}\n{decide}", fenced(projection));
    if length(&whole) <= LIMIT {
        return whole;
    }
    cut(run, &head, projection)
}

fn head(view: &RunView) -> String {
    let run = &view.run;
    let name = run.pinned.as_ref().map_or_else(|| run.workspace.to_string(), |pinned| inert(&pinned.spec.name));
    let mut text = format!("{}\n### plangate: {} {}\n\n", marker(run), code(&name), words(run.status));
    if let Some(projection) = &run.projection {
        let counts = projection.counts;
        text += &format!(
            "{} to add, {} to change, {} to destroy, {} to replace\n\n",
            counts.create, counts.update, counts.delete, counts.replace
        );
    }
    let mut row = |label: &str, value: &str| text += &format!("- {label}: {value}\n");
    row("run", &code(run.id.as_str()));
    row("status", &format!("{}, {}", code(run.status.as_str()), run.kind));
    row("proposed by", &format!("{} at {}", code(run.proposer.person.as_str()), moment(run.proposed_at)));
    if let Some(projection) = &run.projection {
        row("projection", &code(&projection.object.digest.to_string()));
    }
    if let Some(plan) = run.plan.as_ref().filter(|_| run.status == Status::AwaitingApproval) {
        row("can be decided on until", &moment(plan.expires_at));
    }
    if let Some(failure) = &run.failure {
        row("failure", &format!("{} {}", code(failure.reason.code()), code(&inert(&failure.detail))));
    }
    if let Some(next) = &view.next_step {
        row("next", &code(&inert(next)));
    }
    if let Some(outcome) = &run.guardrails {
        row("guardrails", if outcome.eligible { "eligible" } else { "ask for a person's decision" });
        let lines: Vec<String> = outcome.findings.iter().take(FINDINGS).map(finding).collect();
        let more = outcome.findings_total.saturating_sub(lines.len() as u64);
        if !lines.is_empty() {
            text += &format!("\n{}", fenced(&lines.join("\n")));
        }
        if more > 0 {
            text +=
                &format!("\nand {}; see {}\n", count(more, "more reason"), code(&format!("plangate show {}", run.id)));
        }
    }
    text
}

/// What a status means to whoever reads the comment.
const fn words(status: Status) -> &'static str {
    match status {
        Status::AwaitingApproval => "waits for approval",
        Status::Planned => "was planned, and cannot be applied",
        Status::NoChanges => "has no changes",
        Status::Applied => "was applied",
        Status::Failed => "failed",
        Status::Rejected => "was rejected",
        Status::Expired => "expired",
        Status::Canceled => "was withdrawn",
        _ => "is under way",
    }
}

fn decide(run: &Run) -> String {
    match &run.projection {
        Some(projection) if run.status == Status::AwaitingApproval => format!(
            "\nTo decide, having read all of it (somebody else than the proposer, as a rule):\n\n{}",
            fenced(&format!(
                "plangate approve {id} --projection {digest}\nplangate reject {id} --reason TEXT",
                id = run.id,
                digest = projection.object.digest
            ))
        ),
        _ => String::new(),
    }
}

/// As much of the projection as there is room for, in whole lines, and said to be a part: nobody is asked to decide on one.
fn cut(run: &Run, head: &str, projection: &str) -> String {
    let lines: Vec<&str> = projection.lines().collect();
    let told = |shown: usize| {
        format!(
            "\n**This is a part of the projection: {shown} of {}.** It is too long for a comment. Read it whole, and decide there: {}\n",
            count(lines.len() as u64, "line"),
            code(&format!("plangate show {}", run.id))
        )
    };
    // Said before and after; a fence is at most as long as the longest line.
    let longest = lines.iter().map(|line| ticks(line)).max().unwrap_or_default() + 3;
    let room = LIMIT.saturating_sub(length(head) + 2 * length(&told(lines.len())) + 2 * longest + 16);
    let mut used = 0;
    let shown: Vec<&str> = lines
        .iter()
        .copied()
        .take_while(|line| {
            used += length(line) + 1;
            used <= room
        })
        .collect();
    let told = told(shown.len());
    bounded(head, &format!("{told}\n{}{told}", fenced(&shown.join("\n"))))
}

/// Head and rest, if there is room for both; what is left out is said. A head has a bound of its own unless its findings are
/// very long.
fn bounded(head: &str, rest: &str) -> String {
    let whole = format!("{head}{rest}");
    if length(&whole) <= LIMIT {
        return whole;
    }
    let kept: Vec<&str> = head.lines().take_while(|line| !line.starts_with("```")).collect();
    format!("{}\n\n**Everything else is too long for a comment.** Read it with `plangate show`.\n", kept.join("\n"))
}

/// How long a text is, as UTF-16 counts.
fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// The longest run of backticks in a text.
fn ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// A block that shows its text as it is: its fence is longer than any run of backticks inside.
fn fenced(text: &str) -> String {
    let fence = "`".repeat(ticks(text).max(2) + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A text within a line, shown as it is. It has no line breaks: it was made inert.
fn code(text: &str) -> String {
    let fence = "`".repeat(ticks(text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') || text.trim().is_empty() { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_fence_or_its_span() {
        for text in ["plain", "```\n@everyone\n```", "`", "``````", "~~~\n# x", "a`b``c"] {
            let block = fenced(text);
            let (first, last) = (block.lines().next().unwrap(), block.lines().last().unwrap());
            let inside: Vec<&str> = block.lines().skip(1).take(block.lines().count() - 2).collect();
            assert_eq!((first.trim_end_matches("text"), inside.join("\n").as_str()), (last, text));
            assert!(last.len() >= 3 && inside.iter().all(|line| ticks(line) < last.len()), "{block}");
        }
        for text in ["plain", "`", "``", "a`b", "`@x`", " "] {
            let span = code(text);
            let fence = span.len() - span.trim_start_matches('`').len();
            let inside = span.get(fence..span.len() - fence).unwrap();
            assert!(ticks(inside) < fence && inside.contains(text), "{span}");
        }
    }
}
