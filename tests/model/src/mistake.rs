//! Mistakes that the model can be made with, one at a time: each breaks the property that it is there for.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// `admit` takes the lock although it changed since it was read.
    AdmitIgnoresLockVersion,
    /// `admit` takes a lock that nobody holds, also one that is quarantined.
    AdmitTakesQuarantined,
    /// Whoever ends gives the lock to the last in the line.
    PassOnTakesTheLast,
    /// Whoever ends only frees the lock, whoever waits.
    PassOnForgetsTheLine,
    /// A second conclusion makes sure that the lock is released, whoever holds it.
    ReleaseIgnoresFence,
    /// Leaving the line leaves the place in it.
    CancelLeavesThePlace,
    /// `decide` writes although the run changed since it was read.
    DecideIgnoresVersion,
    /// `decide` does not look at the digest.
    DecideIgnoresDigest,
    /// `review` approves what the guardrails found ineligible.
    ReviewIgnoresGuardrails,
    /// Neither `decide` nor `authorize` nor the runner looks at the clock.
    NobodyLooksAtTheClock,
    /// Whoever completes the approval's token has approved.
    TokenIsAuthority,
    /// The runner applies without a claim.
    NoClaim,
    /// A task that meets a claim applies all the same.
    ClaimIsOverwritten,
    /// A task takes a claim that another task of the same run has left for its own.
    ClaimOfTheSameRun,
    /// `conclude` puts no tombstone where there is no claim.
    NoTombstone,
    /// `conclude` believes a receipt that says that nothing was done, before it looks at the claim.
    RefusalIsBelieved,
    /// `conclude` writes although the run changed since it was read.
    ConcludeIgnoresVersion,
    /// `conclude` takes a claim without a result for an apply that never began.
    ClaimCountsForNothing,
    /// `conclude` takes a claim and a stopped task for an apply that succeeded.
    ClaimCountsForApplied,
    /// `conclude` does not wait for the task to stop.
    ConcludeDoesNotWait,
    /// A run whose outcome nobody knows passes its lock on.
    UnknownPassesOn,
    /// Withdrawing a run frees its lock while it is planned.
    CancelDoesNotWait,
    /// `intake` does not look whether the run was withdrawn.
    IntakeIgnoresCancel,
    /// `cancel` withdraws a run that is being applied.
    CancelWhileApplying,
    /// The sweeper wakes nobody.
    SweeperWakesNobody,
    /// The sweeper concludes nothing.
    SweeperConcludesNothing,
    /// The sweeper starts nothing.
    SweeperStartsNothing,
    /// The sweeper concludes runs whose execution is alive.
    SweeperGuesses,
    /// Who freezes the gate answers without having written the locks again.
    FreezeLeavesTheLocks,
    /// `authorize` does not hold its transaction against the lock that it read.
    AuthorizeIgnoresLockVersion,
    /// Whoever ends gives the lock to the head of the line, also while a freeze stands.
    PassOnIgnoresFreeze,
    /// `decide` does not look whether anything is frozen.
    DecideIgnoresFreeze,
    /// The sweeper does not look whether a lift has left a line behind.
    SweeperLeavesTheLine,
    /// `intake` takes in the receipt of a run that has ended.
    IntakeRevives,
    /// A function that was given up puts its token over that of its successor.
    OldTokenWins,
}
