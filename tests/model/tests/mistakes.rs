//! Every property can fail: each is broken by a mistake that somebody could make.

#![expect(clippy::panic, clippy::print_stdout, reason = "what a test does, in a function that several share")]

use plangate_model::bounds::{
    FROZEN, FROZEN_BESIDE, FROZEN_LINE, FUNCTIONS, ONE, REDRIVEN, SURFACES, TASKS, THREE_IN_LINE, TWO, TWO_IN_LINE,
};
use plangate_model::{Bounds, Mistake, PROPERTIES, Protocols, check};

const LIMIT: usize = 3_000_000;

fn breaks(bounds: Bounds, mistake: Mistake, property: &str) {
    let report = check(&Protocols::with(bounds, mistake), LIMIT);
    let broken = report.broken.unwrap_or_else(|| panic!("{mistake:?} breaks nothing in {} states", report.states));
    println!("{mistake:?}, after {} states: {broken}", report.states);
    assert_eq!(broken.property, property, "{mistake:?}: {broken}");
}

macro_rules! mistakes {
    ($($name:ident: $mistake:ident in $bounds:ident breaks $property:literal;)*) => {
        $(#[test] fn $name() { breaks($bounds, Mistake::$mistake, $property); })*

        /// What the mistakes above break, and which they are.
        const BROKEN: &[(Mistake, &str)] = &[$((Mistake::$mistake, $property)),*];
    };
}

#[test]
fn each_property_is_broken_by_some_mistake_and_each_mistake_breaks_one() {
    for property in PROPERTIES {
        assert!(BROKEN.iter().any(|(_, broken)| broken == property), "no mistake breaks: {property}");
    }
    for (mistake, property) in BROKEN {
        assert!(PROPERTIES.contains(property), "{mistake:?} breaks what is no property: {property}");
    }
}

mistakes! {
    two_are_admitted: AdmitIgnoresLockVersion in TWO_IN_LINE
        breaks "at most one applicable run of a workspace is between admission and end";
    a_quarantined_lock_is_taken: AdmitTakesQuarantined in TWO breaks "a quarantined lock is opened by a person alone";
    the_last_goes_first: PassOnTakesTheLast in THREE_IN_LINE breaks "the line is first-in first-out";
    the_line_is_forgotten: PassOnForgetsTheLine in TWO_IN_LINE breaks "the line loses nobody";
    somebody_elses_lock_is_released: ReleaseIgnoresFence in TWO_IN_LINE
        breaks "an applicable run holds the lock from its admission to its end";
    a_place_outlives_its_run: CancelLeavesThePlace in TWO_IN_LINE breaks "the line loses nobody";
    a_second_decision_counts: DecideIgnoresVersion in SURFACES breaks "a run is decided once";
    another_digest_is_approved: DecideIgnoresDigest in SURFACES
        breaks "an engine applies only after an approval of its digest, in time";
    an_ineligible_run_is_approved: ReviewIgnoresGuardrails in SURFACES
        breaks "a run is approved without a person only where the guardrails found it eligible";
    an_expired_plan_is_applied: NobodyLooksAtTheClock in ONE
        breaks "an engine applies only after an approval of its digest, in time";
    a_token_is_an_approval: TokenIsAuthority in SURFACES
        breaks "an engine applies only after an approval of its digest, in time";
    two_tasks_apply: NoClaim in TASKS breaks "an engine applies at most once per run";
    a_claim_is_overwritten: ClaimIsOverwritten in TASKS breaks "an engine applies at most once per run";
    there_is_no_tombstone: NoTombstone in TASKS breaks "no lock is freed while an engine may apply";
    a_refusal_is_believed: RefusalIsBelieved in TASKS breaks "no lock is freed while an engine may apply";
    an_end_is_overwritten: ConcludeIgnoresVersion in FUNCTIONS
        breaks "a terminal status is never left, and its record stays";
    a_lost_result_is_no_apply: ClaimCountsForNothing in ONE
        breaks "a run that says that nothing was applied has applied nothing";
    a_claim_is_an_apply: ClaimCountsForApplied in ONE breaks "a run is applied if and only if its engine applied";
    nobody_waits_for_the_task: ConcludeDoesNotWait in ONE breaks "no lock is freed while a plan's task may run";
    nobody_knows_and_nobody_looks: UnknownPassesOn in TWO breaks "an unknown outcome closes the lock";
    a_withdrawal_frees_the_lock: CancelDoesNotWait in FUNCTIONS
        breaks "no lock is freed while a plan's task may run";
    a_withdrawal_is_lost: IntakeIgnoresCancel in FUNCTIONS breaks "a run that was withdrawn is never applied";
    an_apply_is_withdrawn: CancelWhileApplying in FUNCTIONS
        breaks "no lock is freed while an engine may apply";
    nobody_is_woken: SweeperWakesNobody in ONE
        breaks "an approval whose execution waits for it is never slept through";
    nobody_concludes: SweeperConcludesNothing in FUNCTIONS
        breaks "every open run can end, or waits for a person who is told";
    nobody_starts: SweeperStartsNothing in ONE breaks "every open run can end, or waits for a person who is told";
    the_sweeper_guesses: SweeperGuesses in ONE breaks "no lock is freed while a plan's task may run";
    a_freeze_is_answered_too_early: FreezeLeavesTheLocks in FROZEN_BESIDE
        breaks "once a freeze was answered, nothing is admitted, approved or ordered until it is lifted";
    an_order_overtakes_a_freeze: AuthorizeIgnoresLockVersion in FROZEN
        breaks "once a freeze was answered, nothing is admitted, approved or ordered until it is lifted";
    who_ends_lets_somebody_in_under_a_freeze: PassOnIgnoresFreeze in FROZEN_LINE
        breaks "once a freeze was answered, nothing is admitted, approved or ordered until it is lifted";
    somebody_approves_under_a_freeze: DecideIgnoresFreeze in FROZEN
        breaks "once a freeze was answered, nothing is admitted, approved or ordered until it is lifted";
    a_line_is_left_behind_by_a_lift: SweeperLeavesTheLine in FROZEN_LINE
        breaks "every open run can end, or waits for a person who is told";
    a_redriven_plan_revives_its_run: IntakeRevives in REDRIVEN
        breaks "a terminal status is never left, and its record stays";
    a_redriven_apply_applies_again: ClaimOfTheSameRun in REDRIVEN breaks "an engine applies at most once per run";
    an_old_token_wins: OldTokenWins in FUNCTIONS
        breaks "an approval whose execution waits for it is never slept through";
}
