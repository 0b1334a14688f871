//! Every property can fail: each is broken by a mistake that somebody could make.

use plangate_model::bounds::{FUNCTIONS, ONE, SURFACES, TASKS, THREE_IN_LINE, TWO, TWO_IN_LINE};
use plangate_model::{Bounds, Mistake, Protocols, check};

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
    };
}

mistakes! {
    two_are_admitted: AdmitIgnoresLockVersion in TWO_IN_LINE
        breaks "an applicable run holds the lock from its admission to its end";
    the_last_goes_first: PassOnTakesTheLast in THREE_IN_LINE breaks "the line is first-in first-out";
    the_line_is_forgotten: PassOnForgetsTheLine in TWO_IN_LINE breaks "the line loses nobody";
    somebody_elses_lock_is_released: ReleaseIgnoresFence in TWO_IN_LINE
        breaks "an applicable run holds the lock from its admission to its end";
    a_place_outlives_its_run: CancelLeavesThePlace in TWO_IN_LINE breaks "the line loses nobody";
    a_second_decision_counts: DecideIgnoresVersion in SURFACES breaks "a run is decided once";
    another_digest_is_approved: DecideIgnoresDigest in SURFACES
        breaks "an engine applies only after an approval of its digest, in time";
    an_expired_plan_is_applied: NobodyLooksAtTheClock in ONE
        breaks "an engine applies only after an approval of its digest, in time";
    a_token_is_an_approval: TokenIsAuthority in SURFACES
        breaks "an engine applies only after an approval of its digest, in time";
    two_tasks_apply: NoClaim in TASKS breaks "an engine applies at most once per run";
    a_claim_is_overwritten: ClaimIsOverwritten in TASKS breaks "an engine applies at most once per run";
    there_is_no_tombstone: NoTombstone in TASKS breaks "no lock is freed while an engine may apply";
    a_refusal_is_believed: RefusalIsBelieved in TASKS breaks "no lock is freed while an engine may apply";
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
    an_old_token_wins: OldTokenWins in FUNCTIONS
        breaks "an approval whose execution waits for it is never slept through";
}
