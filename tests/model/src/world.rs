//! What surrounds the code: the state machine, its tasks, messages, the clock, and whatever breaks.

use plangate_gate::failure::FailureReason;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::Choice;

use crate::checker::{Action, Class};
use crate::mistake::Mistake;
use crate::properties::Protocols;
use crate::state::{
    ApplyReceipt, ApplyTask, At, ClaimHolder, Execution, LockState, Pc, PlanReceipt, PlanTask, Process, RunRow, Scope,
    Slot, State, Step, Token,
};
use crate::table::Outcome;

impl State {
    /// The execution enters a state, and calls its function.
    pub(crate) fn enter(&mut self, run: u8, at: At) {
        self.outlive_token(run);
        let step = match at {
            At::Admit => Step::Admit,
            At::PreparePlan => Step::Prepare,
            At::Intake => Step::Intake,
            At::Project => Step::Project,
            At::Guard => Step::Guard,
            At::Review => Step::Review,
            At::RequestApproval => Step::RequestApproval,
            At::Authorize => Step::Authorize,
            At::Conclude => Step::Conclude,
            At::Absent | At::Plan | At::Apply | At::Ended => {
                self.executions[run as usize] = Execution { at, ..Execution::ABSENT };
                return;
            }
        };
        let token = if matches!(at, At::Admit | At::RequestApproval) { Token::Current } else { Token::None };
        let step = Some(Process::call(step, run, token));
        self.executions[run as usize] = Execution { at, step, ..Execution::ABSENT };
    }

    /// The execution ends from outside, wherever it is. Its tasks may go on.
    pub(crate) fn die(&mut self, run: u8) {
        self.outlive_token(run);
        let failed_at = Some(self.executions[run as usize].at);
        self.executions[run as usize] = Execution { at: At::Ended, failed_at, ..Execution::ABSENT };
    }

    fn entered(&self, run: u8, at: At) -> Self {
        let mut state = self.clone();
        state.enter(run, at);
        state
    }

    /// What the execution does with what its function told: `run.asl.json`.
    pub(crate) fn returned(self, run: u8, outcome: Outcome) -> Vec<Self> {
        let at = self.executions[run as usize].at;
        match (at, outcome) {
            (_, Outcome::Next(At::Ended)) => vec![self.entered(run, At::Ended)],
            (_, Outcome::Next(next)) => vec![self.entered(run, next)],
            (_, Outcome::Done) => {
                let mut waits = self;
                waits.executions[run as usize].waiting = true;
                vec![waits]
            }
            (At::PreparePlan, Outcome::NotAdmitted | Outcome::Frozen) => vec![self.entered(run, At::Admit)],
            (At::Authorize, Outcome::NotApproved | Outcome::Frozen) => vec![self.entered(run, At::RequestApproval)],
            (At::Conclude, Outcome::StillRunning) => vec![self.entered(run, At::Conclude), self.given_up(run)],
            _ => vec![self.given_up(run)],
        }
    }

    /// The function's error is caught by what catches all.
    fn given_up(&self, run: u8) -> Self {
        match self.executions[run as usize].at {
            At::Review => self.entered(run, At::RequestApproval),
            At::Conclude => {
                let mut state = self.clone();
                state.die(run);
                state
            }
            _ => self.entered(run, At::Conclude),
        }
    }
}

/// Collects the steps of everything that is no process.
pub(crate) struct World<'w> {
    pub(crate) model: &'w Protocols,
    pub(crate) state: &'w State,
    pub(crate) out: &'w mut Vec<(Action, State)>,
}

impl World<'_> {
    fn push(&mut self, who: &'static str, run: u8, what: &'static str, class: Class, state: State) {
        self.out.push((Action { who, run, what, class }, state));
    }

    pub(crate) fn with(
        &mut self,
        who: &'static str,
        run: u8,
        what: &'static str,
        class: Class,
        change: impl FnOnce(&mut State),
    ) {
        let mut state = self.state.clone();
        change(&mut state);
        self.push(who, run, what, class, state);
    }

    pub(crate) fn steps(&mut self) {
        for run in (0u8..).take(self.model.bounds.kinds.len()) {
            self.proposals(run);
            self.execution(run);
            self.breaks(run);
            for which in 0..2 {
                self.plan_task(run, which);
                self.apply_task(run, which);
            }
            self.clock(run);
            self.people(run);
        }
        self.processes_begin_and_die();
    }

    fn proposals(&mut self, run: u8) {
        let r = run as usize;
        let row = self.state.runs[r];
        let kinds = self.model.bounds.kinds;
        // Runs of one kind are alike: which is first makes no difference.
        let turn = r == 0 || kinds[r - 1] != kinds[r] || self.state.runs[r - 1].there;
        if !row.there && turn {
            let since_quarantine = matches!(self.state.lock.lock, LockState::Quarantined(_));
            self.with("api", run, "propose: recorded, StartExecution sent", Class::Person, |state| {
                state.runs[r] = RunRow { there: true, since_quarantine, ..RunRow::ABSENT };
                state.start[r] = true;
            });
        }
        if self.state.start[r] {
            self.with("message", run, "StartExecution arrives", Class::Plain, |state| {
                state.start[r] = false;
                if state.executions[r].at == At::Absent {
                    state.enter(run, At::Admit);
                }
            });
            self.with("message", run, "StartExecution is lost", Class::Fault, |state| state.start[r] = false);
        }
    }

    fn execution(&mut self, run: u8) {
        let r = run as usize;
        let execution = self.state.executions[r];
        let woken = |at| if at == At::Admit { At::PreparePlan } else { At::Authorize };
        let wait = matches!(execution.at, At::Admit | At::RequestApproval);
        if execution.wake {
            let to = woken(execution.at);
            self.with("message", run, "SendTaskSuccess arrives", Class::Plain, |state| state.enter(run, to));
            self.with("message", run, "SendTaskSuccess is lost", Class::Fault, |state| {
                state.executions[r].wake = false;
            });
        }
        if wait && execution.waiting {
            match execution.at {
                At::Admit => self.with("execution", run, "an hour is over", Class::Time, |s| s.enter(run, At::Admit)),
                _ if self.state.expired[r] => {
                    self.with("execution", run, "the plan's life is over", Class::Time, |s| {
                        s.enter(run, At::Authorize)
                    });
                }
                _ => {}
            }
            if self.state.left.stolen > 0 {
                self.with("stranger", run, "completes the token", Class::Fault, |state| {
                    state.left.stolen -= 1;
                    state.enter(run, woken(execution.at));
                });
            }
        }
        if matches!(execution.at, At::Plan | At::Apply) {
            self.task_state(run, execution);
        }
    }

    fn task_state(&mut self, run: u8, execution: Execution) {
        let r = run as usize;
        let plan = execution.at == At::Plan;
        let tasks = self.state.tasks[r];
        if !execution.waiting {
            let place = if self.model.bounds.line_only {
                None
            } else if plan {
                tasks.plan.iter().position(|task| *task == PlanTask::None)
            } else {
                tasks.apply.iter().position(|task| *task == ApplyTask::None)
            };
            if let Some(place) = place {
                self.with("execution", run, "RunTask", Class::Plain, |state| {
                    state.executions[r].waiting = true;
                    if plan {
                        state.tasks[r].plan[place] = PlanTask::Running;
                    } else {
                        state.tasks[r].apply[place] = ApplyTask::Started;
                    }
                });
            }
            let class = if place.is_some() { Class::Fault } else { Class::Plain };
            self.with("execution", run, "RunTask fails", class, |state| state.enter(run, At::Conclude));
            return;
        }
        let ended =
            if plan { tasks.plan.contains(&PlanTask::Stopped) } else { tasks.apply.contains(&ApplyTask::Stopped) };
        if ended {
            if plan {
                self.with("execution", run, "its task has ended", Class::Plain, |state| state.enter(run, At::Intake));
            }
            self.with("execution", run, "its task has ended or failed", Class::Plain, |s| s.enter(run, At::Conclude));
        }
        self.with("execution", run, "its task takes too long", Class::Time, |state| state.enter(run, At::Conclude));
    }

    fn breaks(&mut self, run: u8) {
        let r = run as usize;
        let execution = self.state.executions[r];
        let left = self.state.left;
        if let Some(step) = execution.step {
            if left.crashes > 0 {
                let mut died = self.state.clone();
                died.left.crashes -= 1;
                died.executions[r].step = None;
                self.push(
                    "execution",
                    run,
                    "its function dies: tried again",
                    Class::Fault,
                    died.entered(run, execution.at),
                );
                self.push("execution", run, "its function dies for good", Class::Fault, died.given_up(run));
            }
            if left.zombies > 0 && self.state.zombie.is_none() {
                self.with("execution", run, "gives its function up, and calls it again", Class::Fault, |state| {
                    state.left.zombies -= 1;
                    state.zombie = Some(step);
                    state.enter(run, execution.at);
                });
            }
        }
        if execution.running() && left.aborts > 0 {
            self.with("execution", run, "dies", Class::Fault, |state| {
                state.left.aborts -= 1;
                state.die(run);
            });
        }
        if let (At::Ended, Some(at), 1..) = (execution.at, execution.failed_at, left.redrives) {
            self.with("operator", run, "redrives the execution", Class::Fault, |state| {
                state.left.redrives -= 1;
                state.enter(run, at);
            });
        }
        if left.strays > 0 && self.state.objects[r].order && self.state.tasks[r].apply[1] == ApplyTask::None {
            self.with("stranger", run, "starts an apply task", Class::Fault, |state| {
                state.left.strays -= 1;
                state.tasks[r].apply[1] = ApplyTask::Started;
            });
        }
    }

    fn plan_task(&mut self, run: u8, which: usize) {
        let r = run as usize;
        if self.state.tasks[r].plan[which] != PlanTask::Running {
            return;
        }
        let stop = |state: &mut State| state.tasks[r].plan[which] = PlanTask::Stopped;
        if self.state.objects[r].plan_receipt.is_some() {
            return self.with("plan task", run, "stops", Class::Plain, stop);
        }
        let receipts = [
            (PlanReceipt::Changes, "leaves its receipt"),
            (PlanReceipt::NoChanges, "leaves its receipt: no changes"),
            (PlanReceipt::Failed, "leaves the receipt of a failure"),
        ];
        for (receipt, what) in receipts {
            self.with("plan task", run, what, Class::Plain, |state| state.objects[r].plan_receipt = Some(receipt));
        }
        self.with("plan task", run, "dies", Class::Fault, stop);
    }

    fn apply_task(&mut self, run: u8, which: usize) {
        let r = run as usize;
        let task = self.state.tasks[r].apply[which];
        if !task.alive() {
            return;
        }
        let objects = self.state.objects[r];
        let expired = self.state.expired[r];
        let mistake = self.model.mistake;
        let mut on = |what: &'static str, class, next: ApplyTask, change: &dyn Fn(&mut State)| {
            self.with("apply task", run, what, class, |state| {
                state.tasks[r].apply[which] = next;
                change(state);
            });
        };
        let nothing = |_: &mut State| {};
        let blind = mistake == Some(Mistake::NobodyLooksAtTheClock);
        match task {
            ApplyTask::None | ApplyTask::Stopped => {}
            ApplyTask::Started => {
                let refuse = |reason| ApplyTask::Refusing(reason);
                if !objects.order {
                    on("finds no order", Class::Plain, ApplyTask::Stopped, &nothing);
                } else if !objects.signature {
                    on("finds no signature", Class::Plain, refuse(FailureReason::OrderInvalid), &nothing);
                } else if expired && !blind {
                    on("is too late", Class::Plain, refuse(FailureReason::PlanExpired), &nothing);
                } else {
                    on("has checked all", Class::Plain, ApplyTask::Checked { late: expired }, &nothing);
                    let refused = refuse(FailureReason::StateIdentityMismatch);
                    on("finds something else changed", Class::Fault, refused, &nothing);
                }
            }
            ApplyTask::Checked { late } => {
                let claims = |state: &mut State| state.objects[r].claim = Some(ClaimHolder::Runner);
                let own = mistake == Some(Mistake::ClaimOfTheSameRun) && objects.claim == Some(ClaimHolder::Runner);
                let free = objects.claim.is_none() || own || mistake == Some(Mistake::ClaimIsOverwritten);
                if mistake == Some(Mistake::NoClaim) {
                    on("applies without a claim", Class::Plain, ApplyTask::Claimed { late }, &nothing);
                } else if free {
                    on("takes the claim", Class::Plain, ApplyTask::Claimed { late }, &claims);
                    let unsure = ApplyTask::Refusing(FailureReason::ApplyNotStarted);
                    on("takes the claim, and gets no answer", Class::Fault, unsure, &claims);
                } else {
                    let taken = ApplyTask::Refusing(FailureReason::ClaimTaken);
                    on("finds the claim taken", Class::Plain, taken, &nothing);
                }
            }
            ApplyTask::Claimed { .. } => {
                on("starts the engine", Class::Plain, ApplyTask::Engine, &|state| state.tasks[r].engines += 1);
            }
            ApplyTask::Engine => {
                on("has applied", Class::Plain, ApplyTask::Ended(true), &nothing);
                on("has failed to apply", Class::Fault, ApplyTask::Ended(false), &nothing);
                let unknown = ApplyTask::Refusing(FailureReason::ApplyOutcomeUnknown);
                on("cannot read the state any more", Class::Fault, unknown, &nothing);
            }
            ApplyTask::Ended(well) => {
                on("writes the result", Class::Plain, ApplyTask::Told(well), &|state| {
                    state.objects[r].result.get_or_insert(well);
                });
                on("cannot write the result", Class::Fault, ApplyTask::Told(well), &nothing);
            }
            ApplyTask::Told(well) => on("writes the receipt", Class::Plain, ApplyTask::Stopped, &|state| {
                state.objects[r].apply_receipt.get_or_insert(ApplyReceipt::Applied(well));
            }),
            ApplyTask::Refusing(reason) => on("says why it did not", Class::Plain, ApplyTask::Stopped, &|state| {
                state.objects[r].apply_receipt.get_or_insert(ApplyReceipt::Refused(reason));
            }),
        }
        on("dies", Class::Fault, ApplyTask::Stopped, &nothing);
    }

    fn clock(&mut self, run: u8) {
        let r = run as usize;
        let row = self.state.runs[r];
        // Before that nobody looks.
        let asked = matches!(row.status, Status::AwaitingApproval | Status::Approved | Status::Applying);
        let matters = asked || self.state.tasks[r].apply.iter().any(|task| task.alive());
        if matters && !self.state.expired[r] {
            self.with("clock", run, "the plan expires", Class::Time, |state| state.expired[r] = true);
        }
    }

    fn people(&mut self, run: u8) {
        let row = self.state.runs[run as usize];
        let places = self.model.bounds.surfaces.into();
        let Some(place) = self.state.asked.iter().take(places).position(Option::is_none) else { return };
        let ask = |state: &mut State, step| state.asked[place] = Some(Process::call(step, run, Token::None));
        if row.status == Status::AwaitingApproval && self.state.left.decisions > 0 {
            let mut choices = vec![(Choice::Approve, true, "approves")];
            if self.model.bounds.any_decision {
                choices.push((Choice::Reject, true, "rejects"));
                choices.push((Choice::Approve, false, "approves something else"));
            }
            for (choice, digest_right, what) in choices {
                self.with("person", run, what, Class::Person, |state| {
                    state.left.decisions -= 1;
                    ask(state, Step::Decide(choice, digest_right));
                });
            }
        }
        if row.open() && self.state.left.cancels > 0 {
            self.with("person", run, "withdraws", Class::Person, |state| {
                state.left.cancels -= 1;
                ask(state, Step::Cancel);
            });
        }
        if run == 0 {
            self.freezes(place);
        }
        if self.state.lock.lock == LockState::Quarantined(run) {
            self.with("person", run, "acknowledges", Class::Person, |state| ask(state, Step::Acknowledge));
        }
    }

    /// Somebody freezes, or lifts what is frozen. One at a time: who comes second is refused.
    fn freezes(&mut self, place: usize) {
        let by = |process: &Process| matches!(process.step, Step::Freeze(_) | Step::Lift(_) | Step::Resume);
        if self.state.asked.iter().flatten().any(by) {
            return;
        }
        let scopes = [(Scope::Workspace, self.state.lock.frozen), (Scope::Gate, self.state.gate_frozen)];
        for (scope, frozen) in scopes {
            let (what, step) = match (frozen, scope) {
                (false, Scope::Workspace) => ("freezes the workspace", Step::Freeze(scope)),
                (false, Scope::Gate) => ("freezes the gate", Step::Freeze(scope)),
                (true, Scope::Workspace) => ("lifts the workspace's freeze", Step::Lift(scope)),
                (true, Scope::Gate) => ("lifts the gate's freeze", Step::Lift(scope)),
            };
            if frozen || self.state.left.freezes > 0 {
                self.with("person", 0, what, Class::Person, |state| {
                    state.left.freezes -= u8::from(!frozen);
                    state.asked[place] = Some(Process::call(step, 0, Token::None));
                });
            }
        }
    }

    fn processes_begin_and_die(&mut self) {
        if self.state.sweeper.is_none() {
            for run in (0u8..).take(self.model.bounds.kinds.len()) {
                if self.state.runs[run as usize].open() {
                    self.see_to(run);
                }
            }
        }
        // One that has done nothing yet and dies is one that was never there; one that is never heard of again is dead.
        for slot in [Slot::Sweeper, Slot::Asked(0), Slot::Asked(1)] {
            let mut state = self.state.clone();
            match state.process(slot).take() {
                Some(process) if process.pc != Pc::Load => {
                    self.push(slot.name(), process.run, "dies", Class::Fault, state);
                }
                _ => {}
            }
        }
    }
}
