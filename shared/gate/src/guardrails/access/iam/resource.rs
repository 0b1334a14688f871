//! Resources of a statement: ARNs with wildcards, compared part by part.

use crate::guardrails::access::iam::glob::Glob;
use crate::guardrails::access::steps::Steps;

/// How many parts an ARN has; the last may hold colons.
const FIELDS: usize = 6;

/// What a `Resource`, or a value of an ARN operator, names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    whole: Glob,
    /// The parts, if it is an ARN.
    fields: Option<Vec<Glob>>,
}

impl Resource {
    /// Reads `text`. Parts that an ARN lacks at its end are completed with `*`, as AWS does.
    pub(super) fn new(text: &str, variables: bool) -> Self {
        let read = Glob::pattern(text, variables);
        let fields = read.fields(FIELDS);
        if fields.first() != Some(&Glob::literal("arn", variables)) {
            return Self { whole: read, fields: None };
        }
        let completed = format!("{text}{}", ":*".repeat(FIELDS.saturating_sub(fields.len())));
        let whole = Glob::pattern(&completed, variables);
        let fields = whole.fields(FIELDS);
        Self { whole, fields: Some(fields) }
    }

    /// Reads a value of an ARN operator, which has all parts: what a shorter one matches is not known.
    pub(super) fn arn(text: &str, variables: bool) -> Option<Self> {
        let whole = Glob::pattern(text, variables);
        let fields = whole.fields(FIELDS);
        let is_arn = fields.len() == FIELDS && fields.first() == Some(&Glob::literal("arn", variables));
        is_arn.then_some(Self { whole, fields: Some(fields) })
    }

    /// Whether a variable stands in it.
    pub(super) fn has_variable(&self) -> bool {
        self.whole.has_variable()
    }

    /// Whether it is `*`.
    pub(super) fn is_everything(&self) -> bool {
        self.whole.is_everything()
    }

    /// Whether all that `other` names is named by this one. Part by part: then it holds whether or not a `*` may reach
    /// over a colon.
    pub(super) fn covers(&self, other: &Self, steps: &Steps) -> bool {
        if self.is_everything() {
            return true;
        }
        match (&self.fields, &other.fields) {
            (Some(wide), Some(narrow)) => {
                wide.len() == narrow.len() && wide.iter().zip(narrow).all(|(wide, narrow)| wide.covers(narrow, steps))
            }
            (None, None) => self.whole.covers(&other.whole, steps),
            _ => false,
        }
    }

    /// Whether both may name the same thing.
    pub(super) fn meets(&self, other: &Self, steps: &Steps) -> bool {
        self.whole.meets(&other.whole, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(wide: &str, narrow: &str) -> bool {
        Resource::new(wide, true).covers(&Resource::new(narrow, true), &Steps::new())
    }

    #[test]
    fn arns_are_compared_part_by_part_and_with_their_case() {
        assert!(covers("*", "arn:aws:s3:::bucket/*"));
        assert!(covers("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/a/b"));
        assert!(covers("arn:aws:sqs:*:111122223333:*", "arn:aws:sqs:eu-west-1:111122223333:queue"));
        assert!(covers("arn:aws:sqs", "arn:aws:sqs:eu-west-1:111122223333:queue"), "completed as AWS does");
        assert!(covers("arn:aws:s3:::home/${aws:username}/*", "arn:aws:s3:::home/${aws:username}/x"));
        assert!(!covers("arn:aws:sqs:eu-west-1:111122223333:queue", "arn:aws:sqs"), "completed as AWS does");
        assert!(!covers("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket*"));
        assert!(!covers("arn:aws:s3:::Bucket", "arn:aws:s3:::bucket"));
        assert!(!covers("arn:aws:*:queue", "arn:aws:sqs:eu-west-1:111122223333:queue"), "a star within one part");
        assert!(!covers("arn:aws:s3:::bucket", "*"));
    }
}
