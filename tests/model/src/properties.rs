//! The model as a whole, and what must hold of it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use plangate_gate::failure::FailureReason;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Choice, Kind};

use crate::checker::{Action, Class, Model, Possibility};
use crate::mistake::Mistake;
use crate::state::{ApplyTask, At, Bounds, Decision, Execution, LockState, Process, RUNS, RunRow, Slot, State, Step};
use crate::table::Turn;
use crate::world::World;

const ONE_AT_A_TIME: &str = "at most one applicable run of a workspace is between admission and end";
const HOLDS_THE_LOCK: &str = "an applicable run holds the lock from its admission to its end";
const ONCE: &str = "an engine applies at most once per run";
const ONLY_AS_APPROVED: &str = "an engine applies only after an approval of its digest, in time";
const NOT_WHILE_APPLYING: &str = "no lock is freed while an engine may apply";
const NOT_WHILE_PLANNING: &str = "no lock is freed while a plan's task may run";
const LINE_LOSES_NOBODY: &str = "the line loses nobody";
const FIRST_IN_FIRST_OUT: &str = "the line is first-in first-out";
const APPLIED_IS_APPLIED: &str = "a run is applied if and only if its engine applied";
const NOTHING_IS_NOTHING: &str = "a run that says that nothing was applied has applied nothing";
const TERMINAL_STAYS: &str = "a terminal status is never left, and its record stays";
const DECIDED_ONCE: &str = "a run is decided once";
const WITHDRAWN_STAYS: &str = "a run that was withdrawn is never applied";
const UNKNOWN_CLOSES: &str = "an unknown outcome closes the lock";
const AUTOMATIC_IF_ELIGIBLE: &str = "a run is approved without a person only where the guardrails found it eligible";
const OPENED_BY_A_PERSON: &str = "a quarantined lock is opened by a person alone";
const FROZEN_STAYS: &str = "once a freeze was answered, nothing is admitted, approved or ordered until it is lifted";
const CAN_END: &str = "every open run can end, or waits for a person who is told";
const NOT_SLEPT_THROUGH: &str = "an approval whose execution waits for it is never slept through";

/// Every property that is checked, by its name.
pub const PROPERTIES: &[&str] = &[
    ONE_AT_A_TIME,
    HOLDS_THE_LOCK,
    ONCE,
    ONLY_AS_APPROVED,
    NOT_WHILE_APPLYING,
    NOT_WHILE_PLANNING,
    LINE_LOSES_NOBODY,
    FIRST_IN_FIRST_OUT,
    APPLIED_IS_APPLIED,
    NOTHING_IS_NOTHING,
    TERMINAL_STAYS,
    DECIDED_ONCE,
    AUTOMATIC_IF_ELIGIBLE,
    WITHDRAWN_STAYS,
    UNKNOWN_CLOSES,
    OPENED_BY_A_PERSON,
    FROZEN_STAYS,
    CAN_END,
    NOT_SLEPT_THROUGH,
];

/// The protocols of the runs of one workspace, within bounds, with a mistake or none.
#[derive(Debug)]
pub struct Protocols {
    /// How much there is of everything.
    pub bounds: Bounds,
    /// What is done wrongly.
    pub mistake: Option<Mistake>,
    /// Every transition that a run has taken.
    pub taken: RefCell<BTreeSet<(Status, Status, bool)>>,
}

impl Protocols {
    /// The protocols as they are.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, mistake: None, taken: RefCell::default() }
    }

    /// The protocols with a mistake.
    #[must_use]
    pub fn with(bounds: Bounds, mistake: Mistake) -> Self {
        Self { mistake: Some(mistake), ..Self::new(bounds) }
    }

    fn applicable(&self, run: usize) -> bool {
        self.bounds.kinds[run] == Kind::Applicable
    }

    /// What must hold in each state.
    fn broken_in(&self, state: &State) -> Option<&'static str> {
        let inside = |run: usize| self.applicable(run) && state.runs[run].status.holds_lock();
        if (0..self.bounds.kinds.len()).filter(|run| inside(*run)).count() > 1 {
            return Some(ONE_AT_A_TIME);
        }
        for (run, row) in (0u8..).zip(&state.runs).take(self.bounds.kinds.len()) {
            let r = run as usize;
            let tasks = &state.tasks[r];
            let queued = row.status == Status::Queued;
            let holds = state.lock.held_by(run, row.fence);
            if inside(r) && !holds {
                return Some(HOLDS_THE_LOCK);
            }
            if tasks.engines > 1 {
                return Some(ONCE);
            }
            if tasks.apply.iter().any(|task| task.may_apply()) && !holds {
                return Some(NOT_WHILE_APPLYING);
            }
            // Under a freeze, and until the line goes on after one, nobody holds the lock that they wait for.
            let forgotten =
                queued && state.lock.lock == LockState::Free && state.left.freezes == self.bounds.left.freezes;
            if queued != state.line.contains(&Some(run)) || forgotten {
                return Some(LINE_LOSES_NOBODY);
            }
            if row.status == Status::Applied && tasks.engines != 1 {
                return Some(APPLIED_IS_APPLIED);
            }
            let nothing_done = row.status.is_terminal()
                && row.status != Status::Applied
                && !matches!(row.failure, Some(FailureReason::ApplyErrored | FailureReason::ApplyOutcomeUnknown));
            if nothing_done && tasks.engines > 0 {
                return Some(NOTHING_IS_NOTHING);
            }
        }
        None
    }

    /// What must hold over each step of a run.
    fn broken_by_run(&self, run: usize, from: &State, to: &State) -> Option<&'static str> {
        let (before, after) = (&from.runs[run], &to.runs[run]);
        if before.there && before.status.is_terminal() && before != after {
            return Some(TERMINAL_STAYS);
        }
        if before.decision.is_some() && before.decision != after.decision {
            return Some(DECIDED_ONCE);
        }
        let automatic = after.decision.is_some_and(|decision| decision.automatic) && before.decision.is_none();
        if automatic && !(before.eligible && before.status == Status::Reviewing && self.applicable(run)) {
            return Some(AUTOMATIC_IF_ELIGIBLE);
        }
        if before.cancel && after.status == Status::Applying {
            return Some(WITHDRAWN_STAYS);
        }
        if to.tasks[run].engines > from.tasks[run].engines {
            let in_time = from.tasks[run].apply.contains(&ApplyTask::Claimed { late: false });
            let approved = matches!(
                after.decision,
                Some(Decision { choice: Choice::Approve, digest_right: true, late: false, .. })
            );
            if !approved || !in_time || !self.applicable(run) {
                return Some(ONLY_AS_APPROVED);
            }
        }
        let frozen = (0..2).any(|scope| from.answered[scope] && to.answered[scope]);
        let goes_on = matches!(after.status, Status::Planning | Status::Approved | Status::Applying);
        if frozen && (before.status != after.status && goes_on || before.plan_order != after.plan_order) {
            return Some(FROZEN_STAYS);
        }
        if before.there && before.status != after.status {
            self.taken.borrow_mut().insert((before.status, after.status, !self.applicable(run)));
            if self.applicable(run) && after.status == Status::Planning {
                let first = if before.status == Status::Queued {
                    from.line.iter().flatten().all(|other| before.queued_as <= from.runs[*other as usize].queued_as)
                } else {
                    from.line.iter().flatten().next().is_none()
                };
                if !first {
                    return Some(FIRST_IN_FIRST_OUT);
                }
            }
        }
        None
    }

    /// What must hold over each step of the lock.
    fn broken_by_lock(&self, from: &State, to: &State) -> Option<&'static str> {
        let unknown = Some(FailureReason::ApplyOutcomeUnknown);
        let ended = |run: &usize| from.runs[*run].failure != unknown && to.runs[*run].failure == unknown;
        if (0..RUNS).any(|run| ended(&run)) && !matches!(to.lock.lock, LockState::Quarantined(_)) {
            return Some(UNKNOWN_CLOSES);
        }
        if to.lock.lock == from.lock.lock {
            return None;
        }
        match from.lock.lock {
            // A plan only reads, as plan-only runs do beside any holder: one that a redrive starts after its run's tasks were
            // found stopped may run on beside the next, and nobody takes it in.
            LockState::Held(run) if !from.stopped(run, false) && from.left.redrives == self.bounds.left.redrives => {
                Some(NOT_WHILE_PLANNING)
            }
            LockState::Quarantined(_) => {
                let by_person = from.asked.iter().flatten().any(|process| process.step == Step::Acknowledge);
                (!by_person).then_some(OPENED_BY_A_PERSON)
            }
            _ => None,
        }
    }
}

impl Model for Protocols {
    type State = State;

    fn start(&self) -> State {
        State {
            runs: [RunRow::ABSENT; RUNS],
            lock: crate::Lock::FRESH,
            gate_frozen: false,
            answered: [false; 2],
            line: [None; RUNS],
            objects: Default::default(),
            tasks: Default::default(),
            executions: [Execution::ABSENT; RUNS],
            start: [false; RUNS],
            expired: [false; RUNS],
            zombie: None,
            sweeper: None,
            asked: [None; 2],
            left: self.bounds.left,
        }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Action, State)>) {
        let called = (0u8..).take(RUNS).map(Slot::Execution);
        for slot in called.chain([Slot::Zombie, Slot::Sweeper, Slot::Asked(0), Slot::Asked(1)]) {
            if let Some(process) = slot.of(state) {
                let mut turn = Turn { model: self, state, slot, process, out };
                match process.step {
                    Step::Admit => turn.admit(),
                    Step::Prepare => turn.prepare(),
                    Step::Intake => turn.intake(),
                    Step::Project => turn.project(),
                    Step::Guard => turn.guard(),
                    Step::Review => turn.review(),
                    Step::RequestApproval => turn.request_approval(),
                    Step::Authorize => turn.authorize(),
                    Step::Conclude => turn.conclude(),
                    Step::Decide(choice, digest_right) => turn.decide(choice, digest_right),
                    Step::Cancel => turn.cancel(),
                    Step::Acknowledge => turn.acknowledge(),
                    Step::Freeze(scope) => turn.freeze(scope),
                    Step::Lift(scope) => turn.lift(scope),
                    Step::Resume => turn.resume(),
                }
            }
        }
        World { model: self, state, out }.steps();
    }

    fn broken_by(&self, from: &State, to: &State) -> Option<&'static str> {
        (0..RUNS)
            .find_map(|run| self.broken_by_run(run, from, to))
            .or_else(|| self.broken_by_lock(from, to))
            .or_else(|| self.broken_in(to))
    }

    fn possibilities(&self) -> Vec<Possibility<State>> {
        vec![
            Possibility {
                name: CAN_END,
                asked: |_| true,
                reached: |state| {
                    let closed = matches!(state.lock.lock, LockState::Quarantined(_));
                    let frozen = |row: &RunRow| match row.status {
                        Status::Proposed | Status::Queued | Status::Approved => state.frozen(),
                        Status::Planning => state.frozen() && !row.plan_order,
                        _ => false,
                    };
                    state.runs.iter().all(|row| !row.open() || closed && row.status == Status::Queued || frozen(row))
                },
                // Nothing is broken for good, and nobody has to do anything.
                by: &[Class::Plain, Class::Time],
            },
            Possibility {
                name: NOT_SLEPT_THROUGH,
                asked: |state| (0..RUNS).any(|run| approved_and_waited_for(state, run)),
                reached: |state| {
                    // Whichever run it was: it is on its way.
                    (0..RUNS).all(|run| !approved_and_waited_for(state, run))
                },
                by: &[Class::Plain],
            },
        ]
    }

    fn show(&self, state: &State) -> String {
        let runs = self.bounds.kinds.iter().zip(&state.runs).zip(&state.executions).filter(|((_, row), _)| row.there);
        let runs: Vec<String> = runs
            .map(|((_, row), execution)| {
                let cancel = if row.cancel { " withdrawn" } else { "" };
                let wake = if execution.wake { ", woken" } else { "" };
                format!("{}{cancel} token {:?} in {:?}{wake}", row.status, row.token, execution.at)
            })
            .collect();
        let frozen = if state.frozen() { ", frozen" } else { "" };
        format!("{} | lock {:?}{frozen}", runs.join("; "), state.lock.lock)
    }
}

/// Whether a run is approved and not frozen, its plan lives, and its execution waits to hear of it.
fn approved_and_waited_for(state: &State, run: usize) -> bool {
    let Execution { at, .. } = state.executions[run];
    state.runs[run].status == Status::Approved && !state.expired[run] && at == At::RequestApproval && !state.frozen()
}

impl Slot {
    /// A process of this slot, for whoever looks at a state.
    #[must_use]
    pub const fn of(self, state: &State) -> Option<Process> {
        match self {
            Self::Execution(run) => state.executions[run as usize].step,
            Self::Zombie => state.zombie,
            Self::Sweeper => state.sweeper,
            Self::Asked(place) => state.asked[place as usize],
        }
    }
}
