//! Freezing, lifting, and letting the line go on. As `freeze.rs` in the code.

use plangate_gate::lifecycle::Status;

use crate::mistake::Mistake;
use crate::state::{At, LockState, Pc, Process, Scope, Slot, State, Step};
use crate::table::{Outcome, Turn};

impl Turn<'_> {
    /// Reading and writing are one action where what is read is in the transaction's condition.
    pub(crate) fn freeze(&mut self, scope: Scope) {
        let mut state = self.state.clone();
        match (scope, self.process.pc) {
            (Scope::Workspace, _) => {
                let lock = crate::Lock { frozen: true, ..state.lock };
                state.put_lock(self.model, lock);
                state.answered[0] = true;
                self.ends("freeze: the workspace is frozen", state, Outcome::Done);
            }
            (Scope::Gate, Pc::Load) => {
                state.gate_frozen = true;
                if self.made(Mistake::FreezeLeavesTheLocks) {
                    state.answered[1] = true;
                    self.ends("freeze: the gate is frozen, and that is answered", state, Outcome::Done);
                } else {
                    let process = Process { pc: Pc::RewriteLock, ..self.process };
                    self.did("freeze: the gate is frozen", state, process);
                }
            }
            (Scope::Gate, _) => {
                let lock = state.lock;
                state.put_lock(self.model, lock);
                state.answered[1] = true;
                self.ends("freeze writes the lock again, and answers", state, Outcome::Done);
            }
        }
    }

    pub(crate) fn lift(&mut self, scope: Scope) {
        let mut state = self.state.clone();
        match scope {
            Scope::Workspace => {
                self.process = self.load_lock(self.process);
                self.process.frozen = state.gate_frozen;
                let mut lock = crate::Lock { frozen: false, ..state.lock };
                self.line_goes_on(&mut state, &mut lock);
                state.put_lock(self.model, lock);
                state.answered[0] = false;
                state.wake_waiting();
                self.ends("lift: the workspace's freeze is lifted", state, Outcome::Done);
            }
            Scope::Gate => {
                state.gate_frozen = false;
                state.answered[1] = false;
                // Then for each workspace what `resume` does.
                let process = Process { pc: Pc::RewriteLock, ..Process::call(Step::Resume, 0, self.process.token) };
                self.did("lift: the gate's freeze is lifted", state, process);
            }
        }
    }

    pub(crate) fn resume(&mut self) {
        let sweeps = self.slot == Slot::Sweeper;
        match self.process.pc {
            Pc::Load | Pc::RewriteLock => {
                let loaded = self.load_lock(self.process.again());
                if sweeps && (self.state.lock.lock != LockState::Free || loaded.frozen) {
                    self.returns("resume: nothing is left behind", Outcome::Next(At::Ended));
                } else {
                    self.goes("resume reads", Process { pc: Pc::Commit, row_fresh: true, ..loaded });
                }
            }
            _ => {
                let mut state = self.state.clone();
                let mut lock = state.lock;
                self.line_goes_on(&mut state, &mut lock);
                state.put_lock(self.model, lock);
                if sweeps {
                    state.wake_holder();
                } else {
                    state.wake_waiting();
                }
                self.ends("resume: the line goes on", state, Outcome::Next(At::Ended));
            }
        }
    }

    /// `line_goes_on`: the head of the line gets a lock that nobody holds.
    fn line_goes_on(&self, state: &mut State, lock: &mut crate::Lock) {
        if lock.lock == LockState::Free {
            self.pass_on(state, lock);
        }
    }
}

impl State {
    /// `wake_waiting`: whom a freeze has kept waiting.
    fn wake_waiting(&mut self) {
        for (run, row) in (0u8..).zip(self.runs) {
            if matches!(row.status, Status::Proposed | Status::Planning | Status::Approved) {
                self.send_wake(run, row.token);
            }
        }
    }
}
