//! The words by which measurements are told apart: whose affair a failure is, what came of a review, and so on.

use crate::failure::FailureReason;
use crate::review::{Cause, ReviewRecord};

macro_rules! words {
    ($(#[$outer:meta])* $type:ident { $($(#[$doc:meta])* $name:ident = $word:literal,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $($(#[$doc])* $name,)*
        }

        impl $type {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

words! {
    /// Whose affair a failure is.
    Class {
        /// What was proposed, or its workspace's configuration, cannot be planned: its proposer's.
        Proposal = "proposal",
        /// Time or the state went on without the run: to be proposed again.
        Overtaken = "overtaken",
        /// The engine could not make the change: the estate's.
        Estate = "estate",
        /// A task or an execution ended before its time: the operators'.
        Task = "task",
        /// The gate failed: the operators'.
        Gate = "gate",
        /// Something is not what the gate has recorded of it: the operators', and perhaps an attack.
        Integrity = "integrity",
        /// Nobody knows what was applied, and the workspace is closed: the operators'.
        Unknown = "unknown",
    }
}

words! {
    /// A phase of a run.
    Phase {
        /// From the order of the plan to its receipt.
        Plan = "plan",
        /// From there to the guardrails' outcome.
        Evaluate = "evaluate",
        /// The reviewer's answer.
        Review = "review",
        /// From the order of the apply to the run's end.
        Apply = "apply",
    }
}

words! {
    /// What came of asking a reviewer.
    Outcome {
        /// The run was approved without a person.
        Approved = "approved",
        /// A person is asked, as the reviewer or the workspace wants it.
        Escalated = "escalated",
        /// The reviewer had nothing against it, but something else stood in the way.
        Withheld = "withheld",
        /// The reviewer gave no verdict that can be used.
        NoVerdict = "no-verdict",
    }
}

words! {
    /// Why a callback was not taken for what somebody did in Slack.
    Doubt {
        /// Its signature, or its time, does not hold.
        Signature = "signature",
        /// It was heard before.
        Replayed = "replayed",
        /// It is nothing that the gate understands.
        Malformed = "malformed",
        /// It is of nobody whom configuration knows.
        Stranger = "stranger",
    }
}

impl Class {
    /// The class of a failure.
    #[must_use]
    pub const fn of(reason: FailureReason) -> Self {
        use FailureReason as F;
        match reason {
            F::BundleInvalid
            | F::BundleRefused
            | F::LockFileInvalid
            | F::ModuleNotCaptured
            | F::EngineVersionMismatch
            | F::BackendMismatch
            | F::SecretUnavailable
            | F::InitFailed
            | F::PlanErrored
            | F::PlanTimedOut
            | F::PlanFormatUnsupported => Self::Proposal,
            F::OrderKeyRetired | F::StateMovedDuringPlan | F::StateIdentityMismatch | F::PlanExpired => Self::Overtaken,
            F::ApplyErrored | F::EstateUnavailable => Self::Estate,
            F::PlanTaskFailed | F::ApplyNotStarted | F::ExecutionAborted => Self::Task,
            F::PlanUnparseable | F::GateError => Self::Gate,
            F::IdentityMismatch
            | F::OrderInvalid
            | F::ReceiptInvalid
            | F::PlanInconsistent
            | F::ObjectReplaced
            | F::ProjectionMismatch
            | F::KindMismatch
            | F::LockLost
            | F::ClaimTaken => Self::Integrity,
            F::ApplyOutcomeUnknown => Self::Unknown,
        }
    }
}

impl Outcome {
    /// What came of a review, by its record.
    #[must_use]
    pub const fn of(review: &ReviewRecord) -> Self {
        match review.cause {
            None => Self::Approved,
            Some(Cause::AlwaysEscalate | Cause::Escalated) => Self::Escalated,
            Some(Cause::Frozen | Cause::ConfigurationChanged | Cause::AutomaticApprovalOff | Cause::PlanExpired) => {
                Self::Withheld
            }
            Some(_) => Self::NoVerdict,
        }
    }
}
