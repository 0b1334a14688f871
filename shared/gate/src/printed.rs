//! Lines of a runner's log as they are printed: JSON that names the run, and how plain text is made of them again.

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, WorkspaceId};
use crate::order::Phase;

/// A line that a runner prints, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedLine {
    /// The run whose task printed it, where it knew.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<RunId>,
    /// Its workspace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workspace: Option<WorkspaceId>,
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// The text.
    pub message: String,
    /// Whether the line goes on in the next.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub goes_on: bool,
}

/// The text of printed lines. What is none, such as what a container's agent says, is text as it is.
#[must_use]
pub fn text(printed: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in printed {
        let (message, more) = match serde_json::from_str::<PrintedLine>(&line) {
            Ok(line) => (line.message, line.goes_on),
            Err(_) => (line, false),
        };
        match lines.last_mut() {
            Some(last) if goes_on => last.push_str(&message),
            _ => lines.push(message),
        }
        goes_on = more;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_printed_line_is_text_as_it_is() {
        let lines =
            [r#"{"message":"one ","goes_on":true}"#, r#"{"message":"line"}"#, "plain", r#"{"message":"x","other":1}"#];
        let expected = ["one line", "plain", r#"{"message":"x","other":1}"#];
        assert_eq!(text(lines.map(str::to_owned)), expected);
    }
}
