//! Audit events: what happened, in chains whose links are digests (`R52`, `R6`).

pub mod archive;
pub mod history;
pub mod witness;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::FailureReason;
use crate::ids::{RunId, WorkspaceId};
use crate::known::Sighting;
use crate::lifecycle::Status;
use crate::receipt::PhaseFailure;
use crate::run::{
    Actor, ApplyRecord, ChainHead, Counts, DecisionRecord, GuardrailRecord, Kind, Origin, PlanRecord, Proposer,
    ReviewRecord, Surface,
};
use crate::state::StateIdentity;
use crate::time::Timestamp;
use crate::untrusted::{self, UntrustedError};

/// The most bytes that one event may have.
pub const EVENT_LIMIT: usize = 256 * 1024;

/// The one schema of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventSchema {
    /// The first.
    #[serde(rename = "plangate.audit-event.v1")]
    V1,
}

/// Which chain an event belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Chain {
    /// A run's own.
    Run(RunId),
    /// A workspace's ledger.
    Workspace(WorkspaceId),
    /// The gate's: what belongs to no workspace.
    Gate,
    /// Refusals of those who may not: bounded, and apart, so that noise blocks nothing.
    Strangers,
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(id) => write!(f, "run/{id}"),
            Self::Workspace(id) => write!(f, "ws/{id}"),
            Self::Gate => f.write_str("gate"),
            Self::Strangers => f.write_str("strangers"),
        }
    }
}

/// A text that names no chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a chain: expected `run/ID`, `ws/ID`, `gate` or `strangers`")]
pub struct ChainNameError;

impl std::str::FromStr for Chain {
    type Err = ChainNameError;

    fn from_str(text: &str) -> Result<Self, ChainNameError> {
        match text.split_once('/') {
            Some(("run", id)) => id.parse().map(Self::Run).map_err(|_| ChainNameError),
            Some(("ws", id)) => id.parse().map(Self::Workspace).map_err(|_| ChainNameError),
            None if text == "gate" => Ok(Self::Gate),
            None if text == "strangers" => Ok(Self::Strangers),
            _ => Err(ChainNameError),
        }
    }
}

impl Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum What {
    /// A run was proposed.
    RunProposed {
        /// Whether it may ever be applied.
        kind: Kind,
        /// Its configuration.
        bundle: Digest,
        /// Who proposed it.
        proposer: Proposer,
        /// What it came from.
        origin: Origin,
    },
    /// Another run holds the workspace's lock, or a freeze stands, so this one waits.
    RunQueued {
        /// Its place in the line.
        place: u64,
    },
    /// The run was admitted: it holds the lock under `fence`, or needs none (0).
    RunAdmitted {
        /// The fence.
        fence: u64,
    },
    /// The plan was ordered.
    PlanOrdered {
        /// The digest of the order's bytes.
        order: Digest,
        /// The etag of the workspace's configuration that both phases go by.
        workspace_etag: String,
        /// The roles of the workspace.
        roles: crate::order::Roles,
    },
    /// The plan's receipt was taken in.
    PlanReceived {
        /// What it says.
        plan: Box<PlanRecord>,
    },
    /// The document was projected.
    PlanProjected {
        /// The projection's digest.
        projection: Digest,
        /// How many bytes.
        bytes: u64,
        /// Its counts.
        counts: Counts,
    },
    /// The guardrails judged.
    GuardrailsEvaluated {
        /// What they found.
        outcome: GuardrailRecord,
    },
    /// The reviewer was asked.
    Reviewed {
        /// What came of it.
        review: ReviewRecord,
    },
    /// A person was asked.
    ApprovalRequested {
        /// The digest of what is to be decided on.
        projection: Digest,
        /// Until when.
        expires_at: Timestamp,
    },
    /// The decision.
    Decided {
        /// What, by whom.
        decision: DecisionRecord,
    },
    /// A decision that came too late, or was refused, and changed nothing (`R46`).
    DecisionWithoutEffect {
        /// What was asked.
        decision: DecisionRecord,
        /// Why it had no effect, as a stable code.
        reason: String,
    },
    /// The apply was ordered.
    ApplyOrdered {
        /// The digest of the order's bytes.
        order: Digest,
        /// The plan's artifact.
        artifact: Digest,
        /// The projection that was approved.
        projection: Digest,
    },
    /// The apply ended.
    ApplyReceived {
        /// What came of it.
        apply: Box<ApplyRecord>,
    },
    /// People could not be told how the run stands. The run goes on, and can be decided elsewhere.
    NotificationFailed {
        /// Where they were to be told.
        surface: Surface,
        /// Why not, as a stable word.
        problem: String,
    },
    /// Somebody wants the run withdrawn while its plan is being made; it ends once the plan has stopped.
    CancelRequested {
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        note: Option<String>,
    },
    /// Somebody who answers for the run has added a note to what is recorded of it, also after its end (`R6`): the record
    /// itself, and every event, stays as it is.
    RunAnnotated {
        /// What they have to say: one line.
        note: String,
        /// The event of this chain that it corrects, if it corrects one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        corrects: Option<u64>,
    },
    /// The run ended (`R52`).
    RunEnded {
        /// As what.
        status: Status,
        /// Why, if it failed.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        failure: Option<PhaseFailure>,
        /// What the guardrails had said: `eligible`, `ineligible` or `not-evaluated`.
        guardrails: GuardrailWord,
        /// Why it was withdrawn, in the words of who did.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        note: Option<String>,
    },
    /// Ledger: a run was opened.
    RunOpened {
        /// Which.
        run: RunId,
    },
    /// Ledger: a run ended; its chain is anchored here.
    RunClosed {
        /// Which.
        run: RunId,
        /// As what.
        status: Status,
        /// The end of its chain.
        chain: ChainHead,
    },
    /// Ledger: the workspace's lock was closed, since nobody knows what a run has applied.
    LockQuarantined {
        /// The run.
        run: RunId,
        /// Why.
        reason: FailureReason,
    },
    /// Ledger: somebody looked at the estate and opened the lock again.
    LockAcknowledged {
        /// What they wrote.
        note: String,
        /// The plan-only run that has recorded the state's identity since.
        run: RunId,
        /// That identity: what was looked at. A change from here on is told again.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<StateIdentity>,
    },
    /// Ledger: a plan has read another state than the one that was known, and no apply of the gate has left it (`R56`).
    ChangedOutsideGate {
        /// The run that noticed.
        run: RunId,
        /// What was known, and when it was last seen.
        before: Sighting,
        /// What stands there instead.
        after: Sighting,
    },
    /// Ledger: what applying the last applied configuration again would change is new, or has become another (`R55`).
    DriftFound {
        /// The run that found it.
        run: RunId,
        /// The digest of its projection, which names the finding.
        projection: Digest,
        /// How much would be changed.
        counts: Counts,
        /// The finding that stood before, if one did.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        previous: Option<Digest>,
    },
    /// Ledger: what had drifted is as it was applied again.
    DriftGone {
        /// The run that found that.
        run: RunId,
        /// The finding that stood before.
        previous: Digest,
    },
    /// Ledger, or the gate's chain: from here on nothing of the workspace, or of the whole gate, is admitted, approved or
    /// started.
    Frozen {
        /// Why.
        reason: String,
    },
    /// Ledger, or the gate's chain: the freeze was lifted.
    FreezeLifted {
        /// Why.
        reason: String,
    },
    /// Configuration was changed.
    DocumentChanged {
        /// The kind of document.
        document: crate::documents::DocumentKind,
        /// Its id.
        id: String,
        /// The etag before, if there was one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        before: Option<String>,
        /// The etag after.
        after: String,
        /// The spec before.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        spec_before: Option<serde_json::Value>,
        /// The spec after.
        spec_after: serde_json::Value,
    },
    /// Ledger: runs of the workspace may from now on be applied without a person's approval (`R34`). The change itself
    /// stands in the event before.
    AutomaticApprovalSwitchedOn {
        /// The etag of the workspace from which on.
        after: String,
    },
    /// Ledger: drift can no longer be looked for, or for another reason than before; told once for each.
    DriftNotSeen {
        /// The run that could not look.
        run: RunId,
        /// Why.
        reason: FailureReason,
    },
    /// Somebody was refused who may not do what was asked.
    StrangerRefused {
        /// Who, as far as it is known: the IAM identity of the request.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        identity: Option<String>,
        /// What was asked, shortened, without its content.
        asked: String,
        /// Why it was refused, as a stable code.
        reason: String,
    },
    /// So many refusals were not recorded one by one, to keep noise from flooding the chain.
    StrangersLeftOut {
        /// From when on.
        since: Timestamp,
        /// How many there were, at least.
        at_least: u64,
    },
}

/// What the guardrails had said when a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardrailWord {
    /// Eligible.
    Eligible,
    /// Ineligible.
    Ineligible,
    /// They were not asked.
    NotEvaluated,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEvent {
    /// Always `plangate.audit-event.v1`.
    pub schema: EventSchema,
    /// The chain.
    pub chain: Chain,
    /// Its place in the chain, from 1.
    pub seq: u64,
    /// The digest of the event before; none for the first.
    pub previous: Option<Digest>,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What.
    pub what: What,
}

/// An event as it is stored: its canonical bytes and their digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedEvent {
    /// The chain.
    pub chain: Chain,
    /// Its place.
    pub seq: u64,
    /// The canonical bytes.
    pub bytes: String,
    /// Their digest.
    pub digest: Digest,
}

impl SealedEvent {
    /// The next event of `chain`, whose end is `head` (none: this is the first).
    ///
    /// # Errors
    /// The event cannot be written as JSON, or is larger than an event may be.
    pub fn next(
        chain: Chain,
        head: Option<&ChainHead>,
        at: Timestamp,
        actor: Actor,
        what: What,
    ) -> Result<Self, UntrustedError> {
        let seq = head.map_or(1, |head| head.seq + 1);
        let previous = head.map(|head| head.digest);
        let event = AuditEvent { schema: EventSchema::V1, chain, seq, previous, at, actor, what };
        let bytes = canonical(&event)?;
        let digest = Digest::of(bytes.as_bytes());
        Ok(Self { chain: event.chain, seq, bytes, digest })
    }

    /// The chain's end once this event stands.
    #[must_use]
    pub fn head(&self) -> ChainHead {
        ChainHead { seq: self.seq, digest: self.digest }
    }
}

/// Canonical bytes: compact JSON with the keys of every object sorted.
fn canonical<T: Serialize>(value: &T) -> Result<String, UntrustedError> {
    canonical_of("audit event", value, EVENT_LIMIT)
}

/// The canonical bytes of `what`, at most `limit`.
fn canonical_of<T: Serialize>(what: &'static str, value: &T, limit: usize) -> Result<String, UntrustedError> {
    // `serde_json::Value` keeps its keys sorted.
    let text = serde_json::to_value(value)
        .and_then(|value| serde_json::to_string(&value))
        .map_err(|_| UntrustedError::Malformed { what, detail: "cannot be written as JSON".to_owned() })?;
    if text.len() > limit {
        return Err(UntrustedError::TooLarge { what, bytes: text.len(), limit });
    }
    Ok(text)
}

/// Why a chain of events is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// An event's bytes are no event.
    #[error("event {seq} cannot be read: {error}")]
    Unreadable {
        /// Where it stood.
        seq: u64,
        /// Why.
        error: UntrustedError,
    },
    /// An event's bytes are not those of its digest, or not in canonical form.
    #[error("event {seq} was changed")]
    Changed {
        /// Where it stood.
        seq: u64,
    },
    /// An event is not the next one of the chain.
    #[error("event {seq} is missing, or another stands in its place")]
    Broken {
        /// Which was expected.
        seq: u64,
    },
}

/// Checks that `events` (bytes and recorded digest, in order) are a whole chain from its first event on, and gives its end.
///
/// # Errors
/// The first event that does not fit.
pub fn verify<'a>(
    chain: &Chain,
    events: impl IntoIterator<Item = (&'a str, Digest)>,
) -> Result<Option<ChainHead>, ChainError> {
    let mut head: Option<ChainHead> = None;
    for (bytes, recorded) in events {
        let seq = head.as_ref().map_or(1, |head| head.seq + 1);
        let event: AuditEvent = untrusted::parse("audit event", bytes.as_bytes(), EVENT_LIMIT)
            .map_err(|error| ChainError::Unreadable { seq, error })?;
        if event.seq != seq || event.chain != *chain || event.previous != head.map(|head| head.digest) {
            return Err(ChainError::Broken { seq });
        }
        let digest = Digest::of(bytes.as_bytes());
        if digest != recorded || canonical(&event).as_deref() != Ok(bytes) {
            return Err(ChainError::Changed { seq });
        }
        head = Some(ChainHead { seq, digest });
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain_of(length: u64) -> (Chain, Vec<SealedEvent>) {
        let now: Timestamp = "2026-11-30T05:00:00Z".parse().unwrap();
        let chain = Chain::Run(RunId::new(now, [1; 10]));
        let mut events: Vec<SealedEvent> = Vec::new();
        for place in 1..=length {
            let head = events.last().map(SealedEvent::head);
            let what = What::RunQueued { place };
            events.push(SealedEvent::next(chain.clone(), head.as_ref(), now, Actor::gate("admit"), what).unwrap());
        }
        (chain, events)
    }

    fn check(chain: &Chain, events: &[SealedEvent]) -> Result<Option<ChainHead>, ChainError> {
        verify(chain, events.iter().map(|event| (event.bytes.as_str(), event.digest)))
    }

    #[test]
    fn a_whole_chain_verifies_and_its_end_is_the_last_event() {
        let (chain, events) = chain_of(5);
        assert_eq!(check(&chain, &events).unwrap(), Some(events[4].head()));
        assert_eq!(check(&chain, &[]).unwrap(), None);
    }

    #[test]
    fn each_tampering_is_found_where_it_is() {
        let (chain, good) = chain_of(5);
        let tampered = |change: fn(&mut Vec<SealedEvent>)| {
            let mut events = good.clone();
            change(&mut events);
            check(&chain, &events).unwrap_err()
        };
        assert_eq!(tampered(|e| e.swap(1, 2)), ChainError::Broken { seq: 2 });
        assert_eq!(tampered(|e| drop(e.remove(0))), ChainError::Broken { seq: 1 });
        assert_eq!(tampered(|e| e.insert(3, e[2].clone())), ChainError::Broken { seq: 4 });
        assert_eq!(
            tampered(|e| e[2].bytes = e[2].bytes.replace("\"place\":3", "\"place\":9")),
            ChainError::Changed { seq: 3 }
        );
        // Changed together with its digest: the next link does not hold.
        assert_eq!(
            tampered(|e| {
                e[2].bytes = e[2].bytes.replace("\"place\":3", "\"place\":9");
                e[2].digest = Digest::of(e[2].bytes.as_bytes());
            }),
            ChainError::Broken { seq: 4 }
        );
        let (other, _) = (Chain::Gate, ());
        assert_eq!(check(&other, &good), Err(ChainError::Broken { seq: 1 }));
    }
}
