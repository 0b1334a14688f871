//! The table: what a transaction writes, and who has thereby read something that is no more. As `finish.rs` in the code.

use plangate_gate::failure::FailureReason;
use plangate_gate::lifecycle::Status;

use crate::checker::{Action, Class};
use crate::mistake::Mistake;
use crate::properties::Protocols;
use crate::state::{At, Ending, Lock, LockState, Pc, Process, RunRow, Slot, State, Step, Token};

/// What a step tells its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done; on to this state. The waits stay where they are.
    Next(At),
    /// Done.
    Done,
    /// The error of this name.
    NotAdmitted,
    /// See above.
    NotApproved,
    /// See above.
    StillRunning,
    /// See above.
    Frozen,
    /// Another error.
    Failed,
}

/// One process about to take its next step, and where the results go.
pub(crate) struct Turn<'t> {
    pub(crate) model: &'t Protocols,
    pub(crate) state: &'t State,
    pub(crate) slot: Slot,
    pub(crate) process: Process,
    pub(crate) out: &'t mut Vec<(Action, State)>,
}

impl Turn<'_> {
    pub(crate) fn run(&self) -> usize {
        self.process.run as usize
    }

    pub(crate) fn made(&self, mistake: Mistake) -> bool {
        self.model.mistake == Some(mistake)
    }

    fn action(&self, what: &'static str, class: Class) -> Action {
        Action { who: self.slot.name(), run: self.process.run, what, class }
    }

    /// The process goes on as `process`; nothing else changes.
    pub(crate) fn goes(&mut self, what: &'static str, process: Process) {
        let mut state = self.state.clone();
        *state.process(self.slot) = Some(process);
        self.out.push((self.action(what, Class::Plain), state));
    }

    /// The process goes on to `pc`.
    pub(crate) fn to(&mut self, what: &'static str, pc: Pc) {
        let process = Process { pc, ..self.process };
        self.goes(what, process);
    }

    /// The process has done its transaction, and goes on to `pc`.
    pub(crate) fn wrote(&mut self, what: &'static str, mut state: State, pc: Pc) {
        let process = if pc == Pc::Load { self.process.again() } else { Process { pc, ..self.process } };
        *state.process(self.slot) = Some(process);
        self.out.push((self.action(what, Class::Plain), state));
    }

    /// The process has done something outside the table, and goes on to `pc`.
    pub(crate) fn did(&mut self, what: &'static str, mut state: State, process: Process) {
        *state.process(self.slot) = Some(process);
        self.out.push((self.action(what, Class::Plain), state));
    }

    /// The process ends.
    pub(crate) fn ends(&mut self, what: &'static str, state: State, outcome: Outcome) {
        self.ends_as(what, Class::Plain, state, outcome);
    }

    pub(crate) fn ends_as(&mut self, what: &'static str, class: Class, mut state: State, outcome: Outcome) {
        let action = self.action(what, class);
        *state.process(self.slot) = None;
        if let Slot::Execution(run) = self.slot {
            for state in state.returned(run, outcome) {
                self.out.push((action, state));
            }
        } else {
            self.out.push((action, state));
        }
    }

    /// The process ends with nothing changed.
    pub(crate) fn returns(&mut self, what: &'static str, outcome: Outcome) {
        let state = self.state.clone();
        self.ends(what, state, outcome);
    }

    /// What the process reads of the table: its run, and the lock with the head of the line if it needs it.
    ///
    /// The versions make it one reading: who writes does so only if none of it has changed. A place in the line has no
    /// second version, and its coming always writes the lock, its going always its run.
    pub(crate) fn load(&self, with_lock: bool) -> Process {
        let row = self.state.runs[self.run()];
        // Only these look at the clock; each call of a step does so once.
        let looks = matches!(self.process.step, Step::Authorize | Step::Conclude | Step::Decide(..) | Step::Review);
        let late = looks.then(|| self.process.late.unwrap_or(self.state.expired[self.run()]));
        let loaded = Process { row, row_fresh: true, late, ..self.process.again() };
        if with_lock { self.load_lock(loaded) } else { loaded }
    }

    /// Reads the lock and the head of the line.
    pub(crate) fn load_lock(&self, process: Process) -> Process {
        let head = if self.made(Mistake::PassOnTakesTheLast) {
            self.state.line.iter().flatten().last().copied()
        } else {
            self.state.head()
        };
        Process { head, head_fresh: true, ..self.load_checked(process) }
    }

    /// Reads the lock, and then whether a freeze stands: not in one moment, but what the freeze was when the lock was read
    /// is the worst of what it may be a little later.
    pub(crate) fn load_checked(&self, process: Process) -> Process {
        Process { lock: Some(self.state.lock), lock_fresh: true, frozen: self.state.frozen(), ..process }
    }

    /// Goes on to end the run, having read what `finish` reads.
    pub(crate) fn finishing(&mut self, what: &'static str, loaded: Process, ending: Ending) {
        let holds = loaded.row.fence > 0 && loaded.row.status.holds_lock();
        let read = if holds { self.load_lock(loaded) } else { loaded };
        let process = Process { ending: Some(ending), pc: Pc::Commit, ..read };
        if self.model.conflicts(&process) {
            let process = self.process.again();
            self.goes("what it read has changed: reads again", process);
        } else {
            self.goes(what, process);
        }
    }

    /// `finish`: terminal status, lock passed on. Gives the state after it, or nothing on a conflict.
    pub(crate) fn finish(&self) -> Option<State> {
        let process = &self.process;
        let ending = process.ending?;
        let run = process.run;
        let mut state = self.state.clone();
        let before = process.row;
        let after = RunRow { status: ending.status, failure: ending.failure, token: Token::None, ..process.row };
        state.put_run(self.model, run, after);
        if let (Status::Queued, place @ 1..) = (before.status, before.queued_as)
            && !self.made(Mistake::CancelLeavesThePlace)
        {
            // The deletion's condition: the place is there.
            state.line[place as usize - 1].take()?;
        }
        if let Some(mut lock) = process.lock
            && before.status.holds_lock()
            && lock.held_by(run, before.fence)
        {
            let unknown = ending.failure == Some(FailureReason::ApplyOutcomeUnknown);
            if unknown && !self.made(Mistake::UnknownPassesOn) {
                lock.lock = LockState::Quarantined(run);
            } else {
                self.pass_on(&mut state, &mut lock);
            }
            state.put_lock(self.model, lock);
        }
        Some(state)
    }

    /// `pass_on`: the head of the line gets the lock, or nobody.
    pub(crate) fn pass_on(&self, state: &mut State, lock: &mut Lock) {
        let head = if self.made(Mistake::PassOnForgetsTheLine) { None } else { self.process.head };
        let head = head.filter(|_| !self.process.frozen || self.made(Mistake::PassOnIgnoresFreeze));
        let Some(next) = head else {
            lock.lock = LockState::Free;
            return;
        };
        let row = state.runs[next as usize];
        let fence = lock.grant(next);
        state.line[row.queued_as as usize - 1] = None;
        state.put_run(self.model, next, RunRow { fence, queued_as: 0, status: Status::Planning, ..row });
    }
}

impl Protocols {
    /// Whether a process at its transaction has read something that has changed.
    pub(crate) fn conflicts(&self, process: &Process) -> bool {
        let lock = process.lock.is_some()
            && (!process.lock_fresh || process.head.is_some() && !process.head_fresh)
            && !(self.mistake == Some(Mistake::AdmitIgnoresLockVersion) && process.step == Step::Admit);
        let blind = match self.mistake {
            Some(Mistake::DecideIgnoresVersion) => matches!(process.step, Step::Decide(..)),
            Some(Mistake::ConcludeIgnoresVersion) => process.step == Step::Conclude,
            _ => false,
        };
        let row = !process.row_fresh && !blind;
        row || lock
    }
}

impl State {
    /// Writes a run, as its next version.
    pub(crate) fn put_run(&mut self, model: &Protocols, run: u8, row: RunRow) {
        self.runs[run as usize] = row;
        for process in self.processes() {
            process.row_fresh &= process.run != run;
            process.head_fresh &= process.head != Some(run);
        }
        self.settle(model);
    }

    /// Writes the lock, as its next version.
    pub(crate) fn put_lock(&mut self, model: &Protocols, lock: Lock) {
        self.lock = lock;
        for process in self.processes() {
            process.lock_fresh = false;
        }
        self.settle(model);
    }

    /// A process whose transaction can only be refused reads again: that it tries first changes nothing.
    fn settle(&mut self, model: &Protocols) {
        for process in self.processes() {
            if process.pc == Pc::Commit && model.conflicts(process) {
                *process = process.again();
            }
        }
    }

    /// `wake_holder`: whoever holds the lock, if it may still sleep.
    pub(crate) fn wake_holder(&mut self) {
        if let LockState::Held(holder) = self.lock.lock {
            let row = self.runs[holder as usize];
            if row.status == Status::Planning {
                self.send_wake(holder, row.token);
            }
        }
    }

    /// `Workflow::wake`: a message, if anybody waits with the token. It arrives at any time later, or never: so a process
    /// that dies before it sends one, or that sends it late, is the same as a message that is lost, or late.
    pub(crate) fn send_wake(&mut self, run: u8, token: Token) {
        if token == Token::Current {
            self.executions[run as usize].wake = true;
        }
    }

    /// The wait that a token belonged to is over: nobody waits with it any more, wherever it is.
    pub(crate) fn outlive_token(&mut self, run: u8) {
        let execution = &mut self.executions[run as usize];
        execution.wake = false;
        let outlived = |token: &mut Token| {
            if *token == Token::Current {
                *token = Token::Stale;
            }
        };
        outlived(&mut self.runs[run as usize].token);
        for process in self.processes() {
            if process.run == run {
                outlived(&mut process.token);
                outlived(&mut process.row.token);
            }
        }
    }
}
