//! What people ask for: a decision, a withdrawal, an acknowledgement.

use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Choice, Kind};

use crate::checker::Class;
use crate::mistake::Mistake;
use crate::state::{Decision, LockState, Pc, Process, RunRow, State};
use crate::steps::ended;
use crate::table::{Outcome, Turn};

impl Turn<'_> {
    pub(crate) fn decide(&mut self, choice: Choice, digest_right: bool) {
        match (self.process.pc, self.process.ending) {
            (Pc::Load, _) => {
                let loaded = self.load(false);
                let row = loaded.row;
                let late = loaded.late == Some(true) && !self.made(Mistake::NobodyLooksAtTheClock);
                let wrong = !digest_right && !self.made(Mistake::DecideIgnoresDigest);
                let frozen =
                    choice == Choice::Approve && self.state.frozen() && !self.made(Mistake::DecideIgnoresFreeze);
                if row.decision.is_some() || row.status != Status::AwaitingApproval || late || wrong || frozen {
                    // Recorded in the run's chain; the run itself is not touched.
                    self.returns("decide: refused", Outcome::Done);
                } else if choice == Choice::Reject {
                    let decision =
                        Some(Decision { choice, digest_right, late: loaded.late == Some(true), automatic: false });
                    let decided = Process { row: RunRow { decision, ..row }, ..loaded };
                    self.finishing("decide reads, to reject", decided, ended(Status::Rejected));
                } else {
                    let checked = self.load_checked(loaded);
                    self.goes("decide reads, to approve", Process { pc: Pc::Commit, ..checked });
                }
            }
            (_, Some(_)) => match self.finish() {
                Some(state) => self.decided("decide: rejected", state),
                None => self.to("is refused by the table: reads again", Pc::Load),
            },
            (_, None) => {
                let late = self.process.late == Some(true);
                let decision = Some(Decision { choice, digest_right, late, automatic: false });
                let mut state = self.state.clone();
                let approved = RunRow { status: Status::Approved, decision, ..self.process.row };
                state.put_run(self.model, self.process.run, approved);
                self.decided("decide: approved", state);
            }
        }
    }

    fn decided(&mut self, what: &'static str, mut state: State) {
        state.send_wake(self.process.run, self.process.row.token);
        self.ends(what, state, Outcome::Done);
    }

    pub(crate) fn cancel(&mut self) {
        match (self.process.pc, self.process.ending) {
            (Pc::Load, _) => {
                let loaded = self.load(false);
                match loaded.row.status {
                    // Asked again, perhaps because what follows was lost: done again.
                    Status::Canceled => self.goes("cancel: done already", Process { pc: Pc::StopExecution, ..loaded }),
                    Status::Planning if loaded.row.cancel => {
                        self.goes("cancel: marked already", Process { pc: Pc::StopExecution, ..loaded });
                    }
                    Status::Planning if !self.made(Mistake::CancelDoesNotWait) => {
                        self.goes("cancel reads a planning run", Process { pc: Pc::Commit, ..loaded });
                    }
                    Status::Applying if self.made(Mistake::CancelWhileApplying) => {
                        self.finishing("cancel reads an applying run", loaded, ended(Status::Canceled));
                    }
                    Status::Applying => self.returns("cancel: already applying", Outcome::Done),
                    status if status.is_terminal() => self.returns("cancel: ended", Outcome::Done),
                    _ => self.finishing("cancel reads", loaded, ended(Status::Canceled)),
                }
            }
            (Pc::Commit, Some(_)) => self.finishes("cancel: canceled", Pc::StopExecution),
            (Pc::Commit, None) => {
                let mut state = self.state.clone();
                state.put_run(self.model, self.process.run, RunRow { cancel: true, ..self.process.row });
                self.wrote("cancel: marked", state, Pc::StopExecution);
            }
            (_, _) => {
                // A run that has ended has passed its lock on.
                let mut stopped = self.state.clone();
                stopped.wake_holder();
                if stopped.executions[self.run()].running() {
                    stopped.die(self.process.run);
                }
                self.ends("cancel stops the execution", stopped, Outcome::Done);
                let mut woken = self.state.clone();
                woken.wake_holder();
                woken.send_wake(self.process.run, self.process.row.token);
                self.ends_as("cancel cannot stop the execution, and wakes it", Class::Fault, woken, Outcome::Done);
            }
        }
    }

    pub(crate) fn acknowledge(&mut self) {
        match self.process.pc {
            Pc::Load => {
                let loaded = self.load_lock(self.process.again());
                let quarantined = matches!(self.state.lock.lock, LockState::Quarantined(_));
                if quarantined && self.model.looked(self.state) {
                    self.goes("acknowledge reads", Process { pc: Pc::Commit, row_fresh: true, ..loaded });
                } else {
                    self.returns("acknowledge: nothing to acknowledge", Outcome::Done);
                }
            }
            _ => {
                let mut state = self.state.clone();
                let mut lock = state.lock;
                self.pass_on(&mut state, &mut lock);
                state.put_lock(self.model, lock);
                state.wake_holder();
                self.ends("acknowledge: opened", state, Outcome::Done);
            }
        }
    }
}

impl crate::Protocols {
    /// Whether a plan-only run has looked at the estate since the quarantine. Where the model has no plan-only run, one
    /// outside of it has.
    pub(crate) fn looked(&self, state: &State) -> bool {
        let kinds = self.bounds.kinds;
        if !kinds.contains(&Kind::PlanOnly) {
            return true;
        }
        kinds.iter().zip(&state.runs).any(|(kind, row)| {
            *kind == Kind::PlanOnly && row.since_quarantine && matches!(row.status, Status::Planned | Status::NoChanges)
        })
    }
}
