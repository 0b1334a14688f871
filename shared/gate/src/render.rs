//! A projection as people know plans from their terminals.
//!
//! What a plan says is somebody else's text. Characters that could act on a terminal or change the order or the look
//! of what is read (controls, escape sequences, bidirectional and invisible marks) are written out, never passed on.

mod inert;
mod lines;

use std::fmt::Write as _;

use crate::actions::Actions;
use crate::projection::ProjectionView;
use crate::run::FindingRecord;

pub use inert::inert;
use lines::{Line, output_line, resource_lines};

/// With or without colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderStyle {
    /// Text alone: for files, chats and pipes.
    Plain,
    /// With ANSI colours around the marks: for terminals.
    Colour,
}

/// The whole projection as text, ending in a line such as
/// `Plan: 1 to add, 2 to change, 0 to destroy, 1 to replace.`
#[must_use]
pub fn text(view: &ProjectionView<'_>, style: RenderStyle) -> String {
    let mut out = String::new();
    for resource in &view.resources {
        let address = inert(&resource.address);
        let (mark, phrase) = wording(&resource.actions);
        let _ = writeln!(out, "  # {address} {phrase}");
        let _ = write!(out, "{} {address}", painted(mark, 3, style));
        if !resource.address.contains(&*format!("{}.", resource.kind)) {
            let _ = write!(out, " ({})", inert(&resource.kind));
        }
        out.push('\n');
        let (lines, hidden) = resource_lines(resource);
        write_lines(&mut out, &lines, 7, style);
        if hidden > 0 {
            let plural = if hidden == 1 { "" } else { "s" };
            let _ = writeln!(out, "        # ({hidden} unchanged or unset attribute{plural} not shown)");
        }
        out.push('\n');
    }
    let outputs: Vec<Line> = view.outputs.iter().filter_map(output_line).collect();
    if !outputs.is_empty() {
        out.push_str("Changes to outputs:\n");
        write_lines(&mut out, &outputs, 3, style);
        out.push('\n');
    }
    out.push_str(&summary(view));
    out.push('\n');
    out
}

/// One finding of the guardrails, on a line: the reason, and where it was found.
#[must_use]
pub fn finding(finding: &FindingRecord) -> String {
    let parts = [Some(&finding.reason), finding.address.as_ref(), finding.path.as_ref()];
    parts.into_iter().flatten().map(|part| inert(part)).collect::<Vec<_>>().join("  ")
}

/// One line that says how much is changed: `Plan: 1 to add, 2 to change, 0 to destroy, 1 to replace.`
#[must_use]
pub fn summary(view: &ProjectionView<'_>) -> String {
    let counts = view.counts;
    let mut line = format!(
        "Plan: {} to add, {} to change, {} to destroy, {} to replace",
        counts.create, counts.update, counts.delete, counts.replace
    );
    let others = |wanted: fn(&Actions) -> bool| view.resources.iter().filter(|r| wanted(&r.actions)).count();
    for (count, what) in [
        (others(Actions::forgets), "to forget"),
        (others(|actions| matches!(actions, Actions::Unknown(_))), "with actions that are not known here"),
    ] {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    line.push('.');
    line
}

/// The mark before a resource, and what is said about it.
fn wording(actions: &Actions) -> (&'static str, String) {
    let (mark, phrase) = match actions {
        Actions::NoOp => ("", "is left as it is"),
        Actions::Create => ("+", "will be created"),
        Actions::Read => ("<=", "will be read during the apply"),
        Actions::Update => ("~", "will be updated in place"),
        Actions::Delete => ("-", "will be destroyed"),
        Actions::DeleteThenCreate => ("-/+", "will be destroyed and created again"),
        Actions::CreateThenDelete => ("+/-", "will be created again, then the old one destroyed"),
        Actions::Forget => (".", "will leave the state and go on existing"),
        Actions::ForgetThenCreate => ("./+", "will leave the state and go on existing, and another be created"),
        Actions::CreateThenForget => {
            ("+/.", "will be created again, and the old one leave the state and go on existing")
        }
        Actions::Open => (">>", "will be opened during the apply"),
        Actions::Unknown(names) => {
            return ("?", format!("has actions that are not known here: {}", inert(&names.join(", "))));
        }
    };
    (mark, phrase.to_owned())
}

fn write_lines(out: &mut String, lines: &[Line], width: usize, style: RenderStyle) {
    let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or_default();
    for Line { mark, name, value } in lines {
        // One very long path must not push all values off the screen.
        let fill = longest.min(40).saturating_sub(name.chars().count());
        let _ = writeln!(out, "{} {name}{:fill$} = {value}", painted(mark, width, style), "");
    }
}

/// `mark`, right-aligned in `width` columns, in its colour.
fn painted(mark: &str, width: usize, style: RenderStyle) -> String {
    let fill = width.saturating_sub(mark.len());
    if style == RenderStyle::Plain {
        return format!("{:fill$}{mark}", "");
    }
    let mut out = " ".repeat(fill);
    for sign in mark.chars() {
        let colour = match sign {
            '+' => "\u{1b}[32m",
            '-' => "\u{1b}[31m",
            '~' => "\u{1b}[33m",
            '<' | '=' | '>' => "\u{1b}[36m",
            _ => "\u{1b}[0m",
        };
        let _ = write!(out, "{colour}{sign}\u{1b}[0m");
    }
    out
}

#[cfg(test)]
mod tests;
