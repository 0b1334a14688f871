//! The end of a run that has nothing more to do or is dead, and the sweeper that comes for it.

use plangate_gate::failure::FailureReason;
use plangate_gate::lifecycle::Status;

use crate::checker::Class;
use crate::mistake::Mistake;
use crate::state::{ApplyReceipt, At, ClaimHolder, Ending, LockState, Pc, Process, Step, Token};
use crate::steps::{ended, failed};
use crate::table::{Outcome, Turn};
use crate::world::World;

impl Turn<'_> {
    /// What the runner has told of its apply: by its receipt, else by its result.
    fn told(&self) -> Option<Ending> {
        let objects = &self.state.objects[self.run()];
        let succeeded = match (objects.apply_receipt, objects.result) {
            (Some(ApplyReceipt::Applied(succeeded)), _) | (_, Some(succeeded)) => succeeded,
            _ => return None,
        };
        Some(if succeeded { ended(Status::Applied) } else { failed(FailureReason::ApplyErrored) })
    }

    fn refusal(&self) -> Option<FailureReason> {
        match self.state.objects[self.run()].apply_receipt {
            Some(ApplyReceipt::Refused(reason)) => Some(reason),
            _ => None,
        }
    }

    pub(crate) fn conclude(&mut self) {
        match self.process.pc {
            Pc::Load => self.conclude_begins(),
            Pc::Told => match self.told() {
                Some(ending) => self.finishing("conclude reads what was applied", self.process, ending),
                None if self.made(Mistake::RefusalIsBelieved) && self.refusal().is_some() => {
                    let ending = failed(self.refusal().unwrap_or(FailureReason::ApplyNotStarted));
                    self.finishing("conclude reads that nothing was applied", self.process, ending);
                }
                None => self.to("conclude is told nothing", Pc::PutClaim),
            },
            Pc::PutClaim => {
                let mut state = self.state.clone();
                let claim = &mut state.objects[self.run()].claim;
                let claimed = *claim == Some(ClaimHolder::Runner);
                if claim.is_none() && !self.made(Mistake::NoTombstone) {
                    *claim = Some(ClaimHolder::Gate);
                }
                let what = if claimed { "conclude finds a claim" } else { "conclude puts the tombstone" };
                self.did(what, state, Process { pc: Pc::StopTasks, claimed, ..self.process });
            }
            Pc::StopTasks => self.stops_tasks(),
            Pc::ToldAgain => {
                let unknown = match self.model.mistake {
                    Some(Mistake::ClaimCountsForNothing) => failed(FailureReason::ApplyNotStarted),
                    Some(Mistake::ClaimCountsForApplied) => ended(Status::Applied),
                    _ => failed(FailureReason::ApplyOutcomeUnknown),
                };
                let ending = self.told().unwrap_or(unknown);
                self.finishing("conclude reads again", self.process, ending);
            }
            Pc::Release => {
                let mut state = self.state.clone();
                let mut lock = state.lock;
                self.pass_on(&mut state, &mut lock);
                state.put_lock(self.model, lock);
                self.ends("conclude releases the lock again", state, Outcome::Next(At::Ended));
            }
            _ => self.finishes_and_returns("conclude: ended"),
        }
    }

    fn conclude_begins(&mut self) {
        let loaded = self.load(false);
        let late = loaded.late == Some(true);
        match loaded.row.status {
            status if status.is_terminal() => {
                if self.made(Mistake::ReleaseIgnoresFence) && loaded.row.fence > 0 {
                    let process = Process { pc: Pc::Release, ..self.load_lock(loaded) };
                    self.goes("conclude finds the run ended", process);
                } else {
                    let mut state = self.state.clone();
                    state.wake_holder();
                    self.ends("conclude finds the run ended", state, Outcome::Next(At::Ended));
                }
            }
            Status::Applying => self.goes("conclude finds the run applying", Process { pc: Pc::Told, ..loaded }),
            Status::Planning => self.goes("conclude finds the run planning", Process { pc: Pc::StopTasks, ..loaded }),
            Status::AwaitingApproval if late => {
                self.finishing("conclude reads, too late", loaded, ended(Status::Expired));
            }
            Status::Approved if late => {
                self.finishing("conclude reads, too late", loaded, failed(FailureReason::PlanExpired));
            }
            _ if loaded.row.cancel => self.finishing("conclude reads", loaded, ended(Status::Canceled)),
            _ => self.finishing("conclude reads", loaded, failed(FailureReason::ExecutionAborted)),
        }
    }

    fn stops_tasks(&mut self) {
        let applying = self.process.row.status == Status::Applying;
        let stopped = self.state.stopped(self.process.run, applying) || self.made(Mistake::ConcludeDoesNotWait);
        match (applying, self.process.claimed, stopped) {
            (true, false, _) => {
                let reason = match self.refusal() {
                    Some(reason) if reason != FailureReason::ClaimTaken => reason,
                    _ => FailureReason::ApplyNotStarted,
                };
                self.finishing("conclude: nothing was applied", self.process, failed(reason));
            }
            (_, _, false) => self.returns("conclude: a task still runs", Outcome::StillRunning),
            (true, true, true) => self.to("conclude finds the tasks stopped", Pc::ToldAgain),
            (false, _, true) => {
                let withdrawn = self.process.row.cancel;
                let ending = if withdrawn { ended(Status::Canceled) } else { failed(FailureReason::PlanTaskFailed) };
                self.finishing("conclude finds the plan stopped", self.process, ending);
            }
        }
    }
}

impl World<'_> {
    /// `see_to`: the sweeper looks at a run and its execution. What it starts, wakes or stops may come late or not at all,
    /// so reading and doing are one step here; concluding is a process of its own.
    pub(crate) fn see_to(&mut self, run: u8) {
        let r = run as usize;
        let execution = self.state.executions[r];
        let row = self.state.runs[r];
        let made = |mistake| self.model.mistake == Some(mistake);
        let asleep = match row.status {
            Status::AwaitingApproval | Status::Approved if self.state.expired[r] => true,
            Status::Proposed | Status::Planning | Status::Approved => !self.state.frozen(),
            _ => false,
        };
        let left_behind = self.state.lock.lock == LockState::Free && !self.state.frozen();
        if execution.at == At::Absent && row.status == Status::Proposed {
            if !made(Mistake::SweeperStartsNothing) {
                self.with("sweeper", run, "sends StartExecution", Class::Plain, |state| state.start[r] = true);
            }
        } else if execution.running() && !made(Mistake::SweeperGuesses) {
            if row.cancel && !made(Mistake::IntakeIgnoresCancel) {
                self.with("sweeper", run, "stops the withdrawn run's execution", Class::Plain, |state| state.die(run));
            } else if row.status == Status::Queued && left_behind && !made(Mistake::SweeperLeavesTheLine) {
                let process = Process::call(Step::Resume, run, Token::None);
                self.with("sweeper", run, "finds a line behind no lock", Class::Plain, |state| {
                    state.sweeper = Some(process);
                });
            } else if asleep && !made(Mistake::SweeperWakesNobody) {
                self.with("sweeper", run, "sends SendTaskSuccess", Class::Plain, |state| {
                    state.send_wake(run, row.token)
                });
            }
        } else if !made(Mistake::SweeperConcludesNothing) {
            let process = Process::call(Step::Conclude, run, Token::None);
            self.with("sweeper", run, "finds the execution dead", Class::Plain, |state| state.sweeper = Some(process));
        }
    }
}
