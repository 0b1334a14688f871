//! Why a run ended without being applied as approved: one closed list of stable codes.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal => $next:literal),* $(,)?) => {
        /// Why a run failed. The code is stable and is what the record, the API and the notifications carry (`R2`, `R52`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum FailureReason {
            $($(#[$doc])* #[serde(rename = $code)] $name),*
        }

        impl FailureReason {
            /// Every reason there is.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// What its reader should do next.
            #[must_use]
            pub const fn next_step(self) -> &'static str {
                match self { $(Self::$name => $next),* }
            }
        }
    };
}

reasons! {
    /// The bundle is not in the bucket, or its bytes are not those of its digest (`R4`).
    BundleInvalid = "bundle-invalid" => "propose again; the upload was incomplete or was altered",
    /// The bundle was refused when it was unpacked or read: a path, a link, a size, a forbidden file.
    BundleRefused = "bundle-refused" => "read the detail, change the folder, and propose again",
    /// The dependency lock is missing, incomplete, or not what the plan was made with (`R11`).
    LockFileInvalid = "lock-file-invalid" => "run `providers lock` for the runner's platform, which the plan log names, and commit the lock file",
    /// A module's source is not in the bundle.
    ModuleNotCaptured = "module-not-captured" => "propose with the CLI, which captures remote modules",
    /// The engine at hand is not the one that is pinned (`R10`).
    EngineVersionMismatch = "engine-version-mismatch" => "set the workspace's engine version to one that the runner carries",
    /// The initialised backend is not the workspace's.
    BackendMismatch = "backend-mismatch" => "remove what overrides the backend from the configuration",
    /// The runner runs as somebody else than the order says (`R16`).
    IdentityMismatch = "identity-mismatch" => "check the workspace's roles; somebody started a task by hand",
    /// The work order is absent, for something else, too old, or not signed by a known key.
    OrderInvalid = "order-invalid" => "propose again; if it recurs, compare the runner's verification key with the gate's key",
    /// The work order was signed by a key of the gate that has been retired since.
    OrderKeyRetired = "order-key-retired" => "propose again: orders are signed by another key now",
    /// A referenced secret cannot be read under the workspace's role (`R21`).
    SecretUnavailable = "secret-unavailable" => "check the parameter's name and that the workspace's role may read it",
    /// The estate's role in another account cannot be assumed by the workspace's role of the same phase (`R16`).
    EstateUnavailable = "estate-unavailable" => "deploy infra/estate.yaml in the estate's account with this workspace's id and roles, and compare the roles that the workspace names",
    /// `init` failed.
    InitFailed = "init-failed" => "read the plan log",
    /// The plan phase failed in the engine, or the engine's document says that it did.
    PlanErrored = "plan-errored" => "read the plan log",
    /// The plan phase took longer than it may.
    PlanTimedOut = "plan-timed-out" => "make the plan smaller or raise the limit",
    /// The state was changed by somebody while the plan was made.
    StateMovedDuringPlan = "state-moved-during-plan" => "propose again once nobody else works on this state",
    /// The plan task ended without a receipt.
    PlanTaskFailed = "plan-task-failed" => "read the plan log; propose again",
    /// A receipt is not what it must be.
    ReceiptInvalid = "receipt-invalid" => "tell the gate's operators: something other than the runner wrote it, or versions differ",
    /// The plan document is no plan document.
    PlanUnparseable = "plan-unparseable" => "tell the gate's operators; the engine wrote something that cannot be read",
    /// The plan document's format is not one that is understood.
    PlanFormatUnsupported = "plan-format-unsupported" => "use an engine version whose plan format is 1.x",
    /// Exit code and document say different things.
    PlanInconsistent = "plan-inconsistent" => "tell the gate's operators; the document does not belong to this plan",
    /// A stored object is not the one that was recorded.
    ObjectReplaced = "object-replaced" => "find out who wrote to the bucket; propose again",
    /// The state is not the one that the plan was made against (`R12`).
    StateIdentityMismatch = "state-identity-mismatch" => "propose again: the state has changed since this plan was made",
    /// What the artifact shows at apply is not the projection that was approved.
    ProjectionMismatch = "projection-mismatch" => "find out who replaced the document; propose again",
    /// The plan expired after it was approved (`R13`).
    PlanExpired = "plan-expired" => "propose again",
    /// The run's kind is not one that may be applied (`R7`).
    KindMismatch = "kind-mismatch" => "find out who changed the record",
    /// The run does not hold its workspace's lock, or not with its fence (`R3`).
    LockLost = "lock-lost" => "propose again",
    /// The claim was taken: this plan has been, or will be, applied or buried by somebody else.
    ClaimTaken = "claim-taken" => "look at the other task of this run",
    /// The engine was started with the plan and failed.
    ApplyErrored = "apply-errored" => "read the apply log; part of the change may have been made: propose again to see what is left",
    /// The apply task ended before it took the claim: nothing was applied.
    ApplyNotStarted = "apply-not-started" => "read the apply log; nothing was changed: propose again",
    /// The apply took the claim and left no result: nobody knows what was applied.
    ApplyOutcomeUnknown = "apply-outcome-unknown" => "the workspace is closed: `plangate workspace get` tells what is known, and what to do in which order",
    /// The workflow of the run ended from outside.
    ExecutionAborted = "execution-aborted" => "propose again",
    /// Something in the gate failed.
    GateError = "gate-error" => "tell the gate's operators; the function's log has the run's id",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_its_serialisation_and_says_what_to_do_next() {
        for reason in FailureReason::ALL {
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{}\"", reason.code()));
            assert!(!reason.next_step().is_empty());
        }
    }
}
