//! Drift: what applying a workspace's last applied configuration again would change (`R55`). A finding is told once, until it
//! is another: it is named by the digest of its projection, which is the same for the same finding.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::FailureReason;
use crate::ids::{RunId, WorkspaceId};
use crate::run::{Counts, ProjectionRecord};
use crate::time::Timestamp;
use crate::untrusted;

/// The one schema of what stands of a workspace's drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriftSchema {
    /// The first.
    #[serde(rename = "plangate.drift.v1")]
    V1,
}

/// A finding that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The projection's digest, which names the finding.
    pub projection: Digest,
    /// How much would be changed.
    pub counts: Counts,
    /// The run that found it first; its projection shows it.
    pub run: RunId,
    /// When.
    pub since: Timestamp,
}

/// What a drift run has added to what was known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DriftWord {
    /// Nothing has drifted, as before.
    #[serde(deserialize_with = "untrusted::no_fields")]
    Nothing,
    /// Something has drifted, and it was not known before, or it was something else.
    Found {
        /// The projection's digest of what was known instead.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        previous: Option<Digest>,
    },
    /// What has drifted was told before, and stands.
    Standing {
        /// The run that found it first.
        first: RunId,
    },
    /// What had drifted is as it was applied again.
    Gone {
        /// The projection's digest of what was known.
        previous: Digest,
    },
    /// It could not look, and nobody was told of that, or for another reason.
    #[serde(deserialize_with = "untrusted::no_fields")]
    Failing,
    /// It could not look either; that was told before.
    StillFailing {
        /// The first run that could not.
        first: RunId,
    },
    /// It says nothing: the state moved while it looked, or another run has been applied since it was proposed.
    #[serde(deserialize_with = "untrusted::no_fields")]
    Unclear,
}

impl DriftWord {
    /// Whether people are to be told.
    #[must_use]
    pub const fn is_news(&self) -> bool {
        matches!(self, Self::Found { .. } | Self::Gone { .. } | Self::Failing)
    }
}

/// A look that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failing {
    /// Why.
    pub reason: FailureReason,
    /// The first run that failed so.
    pub run: RunId,
    /// When.
    pub since: Timestamp,
}

/// What stands of a workspace's drift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Always `plangate.drift.v1`.
    pub schema: DriftSchema,
    /// Whose.
    pub workspace: WorkspaceId,
    /// When a run last said something; none: none has yet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub looked_at: Option<Timestamp>,
    /// What has drifted; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub finding: Option<Finding>,
    /// Why nothing can be said any more, if the last looks have failed. What was found before stands.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failing: Option<Failing>,
}

impl Drift {
    /// Takes in that `run` could not look, for this `reason`. Gives what stands from now on, and whether that is new.
    #[must_use]
    pub fn after_failure(
        before: Option<&Self>,
        workspace: &WorkspaceId,
        run: &RunId,
        reason: FailureReason,
        now: Timestamp,
    ) -> (Self, DriftWord) {
        let failing = before.and_then(|drift| drift.failing.as_ref()).filter(|failing| failing.reason == reason);
        let (failing, word) = match failing {
            Some(old) => (old.clone(), DriftWord::StillFailing { first: old.run.clone() }),
            None => (Failing { reason, run: run.clone(), since: now }, DriftWord::Failing),
        };
        let (looked_at, finding) = before.map_or((None, None), |drift| (drift.looked_at, drift.finding.clone()));
        let (schema, workspace) = (DriftSchema::V1, workspace.clone());
        (Self { schema, workspace, looked_at, finding, failing: Some(failing) }, word)
    }

    /// Takes in what `run` has found at `now`: a projection of what would be changed, or (none) that nothing would. Gives what
    /// stands from now on, and what is new about it.
    #[must_use]
    pub fn after(
        before: Option<&Self>,
        workspace: &WorkspaceId,
        run: &RunId,
        found: Option<&ProjectionRecord>,
        now: Timestamp,
    ) -> (Self, DriftWord) {
        let standing = before.and_then(|drift| drift.finding.as_ref());
        let (finding, word) = match (found, standing) {
            (None, None) => (None, DriftWord::Nothing),
            (None, Some(old)) => (None, DriftWord::Gone { previous: old.projection }),
            (Some(new), Some(old)) if new.object.digest == old.projection => {
                (Some(old.clone()), DriftWord::Standing { first: old.run.clone() })
            }
            (Some(new), old) => {
                let finding =
                    Finding { projection: new.object.digest, counts: new.counts, run: run.clone(), since: now };
                (Some(finding), DriftWord::Found { previous: old.map(|old| old.projection) })
            }
        };
        let (schema, workspace) = (DriftSchema::V1, workspace.clone());
        (Self { schema, workspace, looked_at: Some(now), finding, failing: None }, word)
    }
}

/// When a workspace was last looked at for drift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastLook {
    /// The run.
    pub run: RunId,
    /// When it was proposed.
    pub at: Timestamp,
}

/// How often a drift run is proposed at most after one that said nothing, in seconds.
const SOON: u32 = 900;

impl LastLook {
    /// When the next look is due, if this one has or has not `said` something: `hours` after it, or soon.
    #[must_use]
    pub fn next(&self, hours: u16, said: bool) -> Timestamp {
        self.at.plus_seconds(if said { u32::from(hours) * 3600 } else { SOON })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::StoredObject;

    fn projection(bytes: &[u8]) -> ProjectionRecord {
        let object = StoredObject {
            bucket: "exchange".into(),
            key: "projection".into(),
            version_id: None,
            digest: Digest::of(bytes),
            bytes: bytes.len() as u64,
        };
        ProjectionRecord { object, counts: Counts { update: 1, ..Counts::default() } }
    }

    #[test]
    fn a_finding_is_told_once_until_it_is_another_or_gone() {
        let now: Timestamp = "2026-11-30T05:00:00Z".parse().unwrap();
        let workspace = WorkspaceId::new([5; 10]);
        let (one, other) = (projection(b"one"), projection(b"other"));
        let mut standing = None;
        let mut look = |number: u8, found: Option<&ProjectionRecord>| {
            let run = RunId::new(now, [number; 10]);
            let (after, word) =
                Drift::after(standing.as_ref(), &workspace, &run, found, now.plus_seconds(number.into()));
            standing = Some(after.clone());
            (after, word)
        };
        assert_eq!(look(1, None).1, DriftWord::Nothing);
        let (found, word) = look(2, Some(&one));
        assert_eq!(word, DriftWord::Found { previous: None });
        let first = found.finding.clone().unwrap();
        for number in 3..6 {
            let (after, word) = look(number, Some(&one));
            assert_eq!(
                (after.finding.as_ref(), after.looked_at),
                (Some(&first), Some(now.plus_seconds(number.into())))
            );
            assert_eq!(word, DriftWord::Standing { first: first.run.clone() });
            assert!(!word.is_news());
        }
        let (changed, word) = look(6, Some(&other));
        assert_eq!(word, DriftWord::Found { previous: Some(first.projection) });
        assert_eq!(changed.finding.unwrap().projection, other.object.digest);
        assert_eq!(look(7, None).1, DriftWord::Gone { previous: other.object.digest });
        assert_eq!(look(8, None).1, DriftWord::Nothing);
    }

    #[test]
    fn that_nothing_can_be_seen_any_more_is_told_once_for_each_reason_and_what_was_found_stands() {
        let now: Timestamp = "2026-11-30T05:00:00Z".parse().unwrap();
        let workspace = WorkspaceId::new([5; 10]);
        let run = |number: u8| RunId::new(now, [number; 10]);
        let one = projection(b"one");
        let (found, _) = Drift::after(None, &workspace, &run(1), Some(&one), now);
        let fails = |before: &Drift, number: u8, reason| {
            Drift::after_failure(Some(before), &workspace, &run(number), reason, now.plus_seconds(number.into()))
        };
        let (first, word) = fails(&found, 2, FailureReason::PlanErrored);
        assert_eq!((word, &first.finding, first.looked_at), (DriftWord::Failing, &found.finding, found.looked_at));
        let (again, word) = fails(&first, 3, FailureReason::PlanErrored);
        assert_eq!((word, &again), (DriftWord::StillFailing { first: run(2) }, &first));
        let (other, word) = fails(&again, 4, FailureReason::InitFailed);
        assert_eq!(word, DriftWord::Failing);
        let (seen, word) = Drift::after(Some(&other), &workspace, &run(5), Some(&one), now);
        assert_eq!((word, seen.failing), (DriftWord::Standing { first: run(1) }, None));
    }
}
