//! Refusals: one closed list of stable reasons.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal => $next:literal),* $(,)?) => {
        /// Why the API refused. Stable: clients may match on the code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[$doc])* #[serde(rename = $code)] $name),*
        }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// The HTTP status that it is answered with.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// What the caller should do next.
            #[must_use]
            pub const fn next_step(self) -> &'static str {
                match self { $(Self::$name => $next),* }
            }
        }
    };
}

reasons! {
    /// The request is not what its schema says.
    InvalidRequest = "invalid-request", 400 => "correct the request and send it again",
    /// A document's spec says something that it may not.
    InvalidDocument = "invalid-document", 400 => "correct the field that is named and send it again",
    /// The caller is nobody whom configuration knows, or may not do this, or there is nothing here: these are not told apart.
    NotPermitted = "not-permitted", 403 => "ask whoever administers the workspace for a grant",
    /// The approver must be another person than the proposer (`R47`).
    DistinctApproverRequired = "distinct-approver-required", 403 => "ask another person who may approve",
    /// A plan-only run is never decided on (`R7`).
    RunPlanOnly = "run-plan-only", 409 => "propose an applicable run",
    /// There is nothing of that name.
    NotFound = "not-found", 404 => "check the id",
    /// There is no such route.
    NoSuchRoute = "no-such-route", 404 => "see the list of routes",
    /// The document was changed since it was read, or is there already, or is not.
    EtagMismatch = "etag-mismatch", 412 => "read the document again and repeat the change on what it says now",
    /// The request id was used for another request.
    RequestIdReused = "request-id-reused", 409 => "use a new request id",
    /// A name, a state or a role belongs to another workspace already (`R1`).
    NotUnique = "not-unique", 409 => "use what belongs to no other workspace",
    /// The document names another that is not there.
    MissingReference = "missing-reference", 409 => "create what is named first",
    /// The bundle was not uploaded.
    BundleMissing = "bundle-missing", 409 => "upload the bundle, then propose",
    /// The bundle is larger than it may be.
    BundleTooLarge = "bundle-too-large", 413 => "leave out what the configuration does not need",
    /// Somebody has decided already (`R46`).
    AlreadyDecided = "already-decided", 409 => "see who decided with `plangate show`",
    /// The run is not waiting for a decision (`R51`).
    NotAwaitingApproval = "not-awaiting-approval", 409 => "see where the run stands with `plangate show`",
    /// The run has ended (`R51`, `R6`).
    RunEnded = "run-ended", 409 => "propose again",
    /// The plan is dead (`R13`, `R51`).
    PlanExpired = "plan-expired", 409 => "propose again and decide within the plan's life",
    /// The decision is on another projection than the run's.
    ProjectionMismatch = "projection-mismatch", 409 => "look at the run's projection and decide on that",
    /// The run is being applied; it can no longer be withdrawn.
    AlreadyApplying = "already-applying", 409 => "wait until it has ended",
    /// The gate or the workspace is frozen: nothing is admitted, approved or started.
    Frozen = "frozen", 409 => "wait until it is lifted; `plangate workspace get` tells who froze it and why",
    /// It is frozen already.
    AlreadyFrozen = "already-frozen", 409 => "see who froze it and why, and speak with them before you lift it",
    /// No freeze stands there.
    NotFrozen = "not-frozen", 409 => "see what is frozen with `plangate workspace get`; the gate and a workspace are lifted each by itself",
    /// The lock is not quarantined, or the named run does not show the state.
    NothingToAcknowledge = "nothing-to-acknowledge", 409 => "see the lock with `plangate workspace get`; name a plan-only run made since",
    /// The run has as many annotations as a run may have.
    TooManyAnnotations = "too-many-annotations", 409 => "keep what there is to say elsewhere, and name the run's id there",
    /// There is no projection, or no log, yet.
    NotThereYet = "not-there-yet", 409 => "wait until the phase has ended",
    /// Others are changing the same thing, or AWS does not answer.
    Unavailable = "unavailable", 503 => "send the same request again",
    /// Something in the gate failed.
    Internal = "internal", 500 => "tell the gate's operators the request's id",
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

/// A refusal as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// The refusal.
    pub error: ApiErrorBody,
}

/// What a refusal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiErrorBody {
    /// The stable code.
    pub reason: Reason,
    /// One line for people, with what to do next.
    pub message: String,
    /// More, by reason: never a value of the estate.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_code_an_error_status_and_a_next_step() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{reason}\""));
            assert!((400..600).contains(&reason.status()));
            assert!(!reason.next_step().is_empty());
        }
    }
    #[test]
    fn the_documentation_has_every_reason_and_every_failure() {
        let documentation = include_str!("../../../docs/api.md");
        for reason in Reason::ALL {
            let row = format!("| `{reason}` | {} |", reason.status());
            assert!(documentation.contains(&row), "docs/api.md lacks {row}");
        }
        for failure in plangate_gate::failure::FailureReason::ALL {
            let row = format!("| `{}` |", failure.code());
            assert!(documentation.contains(&row), "docs/api.md lacks {row}");
        }
    }
}
