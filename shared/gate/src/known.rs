//! What the gate knows of a workspace's state: what it last recorded of it, by which run, and whether somebody else has
//! changed it since (`R56`).
//!
//! A plan reads the state at some moment between its order and its receipt. If what is known has become another in between,
//! or an apply of the gate was at work when the receipt was taken in, nobody can say whether the plan has read what was before
//! or what came after. Then it says nothing, and the next plan does. So moments are told apart by counting, never by clocks.

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, WorkspaceId};
use crate::order::Phase;
use crate::state::StateIdentity;
use crate::time::Timestamp;
use crate::untrusted;

/// The one schema of what is known of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KnownSchema {
    /// The first.
    #[serde(rename = "plangate.known.v1")]
    V1,
}

/// A state as a run has seen it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sighting {
    /// Which state.
    pub state: StateIdentity,
    /// The run that saw it.
    pub run: RunId,
    /// A plan has read it, or an apply has left it.
    pub phase: Phase,
    /// It stood there at a moment not before this one.
    pub from: Timestamp,
    /// It stood there at a moment not after this one.
    pub to: Timestamp,
}

/// A change of the state that is none of the gate's: it happened after `before` was seen, and before `after` was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outside {
    /// What the gate last knew.
    pub before: Sighting,
    /// What stands there instead, and the run that noticed.
    pub after: Sighting,
}

/// What a plan's state was to what is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Compared {
    /// Nothing was known: from now on this is.
    #[serde(deserialize_with = "untrusted::no_fields")]
    First,
    /// It is the known one.
    #[serde(deserialize_with = "untrusted::no_fields")]
    AsKnown,
    /// It is another, and no apply of the gate has left it.
    ChangedOutside {
        /// The change.
        change: Box<Outside>,
    },
    /// It is another, and nobody can say whose it is: a run has applied, nobody knows what, and nobody has looked yet.
    #[serde(deserialize_with = "untrusted::no_fields")]
    Unsettled,
    /// Nobody can say which of several states it is: the state moved while the plan was being made.
    #[serde(deserialize_with = "untrusted::no_fields")]
    Unclear,
}

/// What is known of a workspace's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Always `plangate.known.v1`.
    pub schema: KnownSchema,
    /// Whose state.
    pub workspace: WorkspaceId,
    /// How often what is known has become another. A plan that was ordered at another count says nothing.
    pub moves: u64,
    /// The state as it was last recorded; none until one was.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seen: Option<Sighting>,
    /// The run of whose apply nobody knows what it did, until somebody has looked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unsettled: Option<RunId>,
    /// The last run that was applied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub applied: Option<RunId>,
    /// The last change that was none of the gate's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outside: Option<Outside>,
}

impl Known {
    /// Of a workspace of which nothing was ever recorded.
    #[must_use]
    pub const fn nothing(workspace: WorkspaceId) -> Self {
        Self { schema: KnownSchema::V1, workspace, moves: 0, seen: None, unsettled: None, applied: None, outside: None }
    }

    /// Takes in what a plan has read that was ordered when the count was `moves`. `applying` is whether an apply of the gate
    /// is at work; whoever asks has read the receipt first and that afterwards.
    ///
    /// A change outside is told once: from then on it is what is known.
    pub fn planned(&mut self, sighting: Sighting, moves: u64, applying: bool) -> Compared {
        if applying || moves != self.moves {
            return Compared::Unclear;
        }
        match (&mut self.seen, &self.unsettled) {
            (Some(seen), _) if seen.state == sighting.state => {
                // Seen again, later: what changes it from now on has happened since.
                if sighting.from > seen.from {
                    *seen = sighting;
                }
                Compared::AsKnown
            }
            (_, Some(_)) => {
                self.see(sighting);
                Compared::Unsettled
            }
            (None, None) => {
                self.see(sighting);
                Compared::First
            }
            (Some(seen), None) => {
                let change = Outside { before: seen.clone(), after: sighting.clone() };
                self.see(sighting);
                self.outside = Some(change.clone());
                Compared::ChangedOutside { change: Box::new(change) }
            }
        }
    }

    /// An apply of the gate has ended, and this is the state that it has left.
    pub fn left(&mut self, sighting: Sighting) {
        self.unsettled = None;
        self.see(sighting);
    }

    /// An apply of the gate has ended, and nobody knows what `run` has done.
    pub fn lost(&mut self, run: RunId) {
        self.unsettled = Some(run);
        self.moves += 1;
    }

    /// Somebody has looked after an apply of which nobody knew what it did, and this is what they have looked at. What
    /// changes from now on is told again.
    pub fn settle(&mut self, sighting: Sighting) {
        if self.unsettled.take().is_some() && self.seen.as_ref().is_none_or(|seen| seen.state != sighting.state) {
            self.see(sighting);
        }
    }

    fn see(&mut self, sighting: Sighting) {
        self.seen = Some(sighting);
        self.moves += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    fn state(serial: u64) -> StateIdentity {
        let digest = Digest::of(&serial.to_be_bytes());
        StateIdentity::Present { lineage: "l".into(), serial, version_id: serial.to_string(), digest }
    }

    /// A run's sighting of the state with this serial, at that second.
    fn sighting(run: u8, serial: u64, second: u32) -> Sighting {
        let at = "2026-11-30T05:00:00Z".parse::<Timestamp>().unwrap().plus_seconds(second);
        Sighting {
            state: state(serial),
            run: RunId::new(at, [run; 10]),
            phase: Phase::Plan,
            from: at,
            to: at.plus_seconds(9),
        }
    }

    fn known() -> Known {
        Known::nothing(WorkspaceId::new([5; 10]))
    }

    #[test]
    fn what_was_changed_by_somebody_else_is_told_once_with_before_and_after() {
        let mut known = known();
        assert_eq!(known.planned(sighting(1, 1, 0), 0, false), Compared::First);
        assert_eq!(known.planned(sighting(2, 1, 20), 1, false), Compared::AsKnown);
        let Compared::ChangedOutside { change } = known.planned(sighting(3, 7, 40), 1, false) else {
            panic!("{known:?}")
        };
        // The last time that it was seen as it was, not the first: who did it did it since.
        assert_eq!((change.before.clone(), change.after.clone()), (sighting(2, 1, 20), sighting(3, 7, 40)));
        assert_eq!(known.outside.as_ref(), Some(&*change));
        assert_eq!(known.planned(sighting(4, 7, 60), 2, false), Compared::AsKnown);
        assert_eq!(known.outside.as_ref(), Some(&*change), "it stays to be seen");
    }

    #[test]
    fn an_older_sighting_does_not_take_the_place_of_a_newer_one() {
        let mut known = known();
        known.planned(sighting(1, 1, 50), 0, false);
        assert_eq!(known.planned(sighting(2, 1, 40), 1, false), Compared::AsKnown);
        assert_eq!(known.seen, Some(sighting(1, 1, 50)));
        known.planned(sighting(3, 2, 60), 1, false);
        // Ordered when the first was known, and read before the second stood there.
        let before = known.clone();
        assert_eq!(known.planned(sighting(4, 1, 55), 1, false), Compared::Unclear);
        assert_eq!(known, before);
    }

    #[test]
    fn what_an_apply_of_the_gate_leaves_is_no_change_outside() {
        let mut known = known();
        known.planned(sighting(1, 1, 0), 0, false);
        let before = known.clone();
        assert_eq!(known.planned(sighting(2, 2, 10), 1, true), Compared::Unclear, "what the engine saves on its way");
        assert_eq!(known, before);
        known.left(sighting(1, 3, 20));
        for serial in [1, 2, 3] {
            assert_eq!(known.planned(sighting(3, serial, 15), 1, false), Compared::Unclear, "ordered before its end");
        }
        assert_eq!(known.planned(sighting(4, 3, 30), 2, false), Compared::AsKnown);
        assert!(known.outside.is_none());
    }

    #[test]
    fn after_an_unknown_outcome_nothing_is_told_until_somebody_has_looked() {
        let mut known = known();
        known.planned(sighting(1, 1, 0), 0, false);
        known.lost(sighting(1, 1, 0).run);
        assert_eq!(
            known.planned(sighting(2, 1, 5), 1, false),
            Compared::Unclear,
            "ordered before the end of the apply"
        );
        assert_eq!(known.planned(sighting(3, 4, 10), 2, false), Compared::Unsettled);
        assert_eq!(known.planned(sighting(4, 5, 20), 3, false), Compared::Unsettled);
        // They have looked at the first of the two: the second has come since.
        known.settle(sighting(3, 4, 10));
        assert_eq!((known.unsettled.clone(), known.moves), (None, 5));
        assert!(matches!(known.planned(sighting(5, 5, 30), 5, false), Compared::ChangedOutside { .. }));
        let settled = known.clone();
        known.settle(sighting(3, 4, 10));
        assert_eq!(known, settled, "nothing is to be settled");
    }
}
