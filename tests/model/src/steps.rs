//! The functions that an execution calls, up to the apply: admit, prepare, intake, project, guard, review,
//! request-approval, authorize.

use plangate_gate::failure::FailureReason;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Choice, Kind};

use crate::mistake::Mistake;
use crate::state::{At, Decision, Ending, LockState, Pc, PlanReceipt, Process, RunRow, Token};
use crate::table::{Outcome, Turn};

/// How a run fails.
pub(crate) const fn failed(reason: FailureReason) -> Ending {
    Ending { status: Status::Failed, failure: Some(reason) }
}

/// How a run ends otherwise.
pub(crate) const fn ended(status: Status) -> Ending {
    Ending { status, failure: None }
}

impl Turn<'_> {
    pub(crate) fn kind(&self) -> Kind {
        self.model.bounds.kinds[self.run()]
    }

    /// Goes on to the transaction.
    fn commits(&mut self, what: &'static str, loaded: Process) {
        self.goes(what, Process { pc: Pc::Commit, ..loaded });
    }

    /// The transaction that writes only the run.
    fn writes(&mut self, what: &'static str, row: RunRow, pc: Pc) {
        let mut state = self.state.clone();
        state.put_run(self.model, self.process.run, row);
        self.wrote(what, state, pc);
    }

    /// The transaction that ends the run; then what comes after it.
    pub(crate) fn finishes(&mut self, what: &'static str, pc: Pc) {
        match self.finish() {
            Some(state) => self.wrote(what, state, pc),
            None => self.refused(),
        }
    }

    /// The transaction that ends the run, after which whoever holds the lock is woken, and nothing is left to do.
    pub(crate) fn finishes_and_returns(&mut self, what: &'static str) {
        match self.finish() {
            Some(mut state) => {
                state.wake_holder();
                self.ends(what, state, Outcome::Next(At::Ended));
            }
            None => self.refused(),
        }
    }

    fn refused(&mut self) {
        let process = self.process.again();
        self.goes("is refused by the table: reads again", process);
    }

    /// Leaves the token of a run that waits, unless it stands already, or the call was given up and its token is old.
    fn waits(&mut self, what: &'static str, loaded: Process) {
        if loaded.row.token == self.process.token {
            self.returns("waits already", Outcome::Done);
        } else if self.process.token == Token::Stale && !self.made(Mistake::OldTokenWins) {
            self.returns("was given up: its token is old", Outcome::Done);
        } else {
            self.commits(what, loaded);
        }
    }

    /// Nothing to wait for: the execution that waits for this very call is woken. If that fails the call fails, and is made
    /// again: no message is lost here. Where the call was given up, nobody waits for it.
    fn wakes(&mut self, what: &'static str, next: At) {
        self.returns(what, Outcome::Next(next));
    }

    pub(crate) fn admit(&mut self) {
        let applicable = self.kind() == Kind::Applicable;
        let row = self.process.row;
        match self.process.pc {
            Pc::Load => {
                let loaded = self.load(false);
                match loaded.row.status {
                    Status::Proposed if applicable => {
                        let loaded = self.load(true);
                        self.commits("admit reads a proposed run", loaded);
                    }
                    Status::Proposed if !self.state.frozen() => {
                        let loaded = self.load_checked(loaded);
                        self.commits("admit reads a proposed run", loaded);
                    }
                    Status::Queued | Status::Proposed => self.waits("admit reads a waiting run", loaded),
                    Status::Planning if !loaded.row.plan_order && self.state.frozen() => {
                        self.waits("admit reads a frozen run", loaded);
                    }
                    _ => self.wakes("admit wakes its execution", At::PreparePlan),
                }
            }
            Pc::Commit if row.status != Status::Proposed || self.process.lock.is_none() => {
                self.writes("admit replaces the token", RunRow { token: self.process.token, ..row }, Pc::Load);
            }
            _ => {
                let mut row = row;
                let mut state = self.state.clone();
                let mut what = "admit: admitted";
                row.status = Status::Planning;
                if let Some(mut lock) = self.process.lock.filter(|_| applicable) {
                    let quarantined = matches!(lock.lock, LockState::Quarantined(_));
                    let free = lock.lock == LockState::Free || quarantined && self.made(Mistake::AdmitTakesQuarantined);
                    if free && self.process.head.is_none() && !self.process.frozen {
                        row.fence = lock.grant(self.process.run);
                    } else {
                        what = "admit: queued";
                        lock.tail += 1;
                        row.queued_as = lock.tail;
                        row.token = self.process.token;
                        row.status = Status::Queued;
                        state.line[lock.tail as usize - 1] = Some(self.process.run);
                    }
                    state.put_lock(self.model, lock);
                }
                state.put_run(self.model, self.process.run, row);
                self.wrote(what, state, Pc::Load);
            }
        }
    }

    pub(crate) fn prepare(&mut self) {
        if self.process.pc == Pc::Commit {
            let row = RunRow { plan_order: true, token: Token::None, ..self.process.row };
            return self.writes("prepare: plan ordered", row, Pc::Load);
        }
        let loaded = self.load(false);
        let held = self.state.lock.held_by(self.process.run, loaded.row.fence);
        match loaded.row.status {
            Status::Planning if loaded.row.cancel => self.returns("prepare: withdrawn", Outcome::Failed),
            Status::Planning if self.kind() == Kind::Applicable && !held => {
                self.returns("prepare: the lock is not its own", Outcome::Failed);
            }
            Status::Planning if self.state.frozen() && !loaded.row.plan_order => {
                self.returns("prepare: frozen", Outcome::Frozen);
            }
            // The order's bytes are the same however often they are written.
            Status::Planning if loaded.row.plan_order => {
                self.returns("prepare writes the order", Outcome::Next(At::Plan))
            }
            Status::Planning => {
                let loaded = self.load_checked(loaded);
                self.commits("prepare reads", loaded);
            }
            Status::Proposed | Status::Queued => self.returns("prepare: not admitted", Outcome::NotAdmitted),
            _ => self.returns("prepare: ended", Outcome::Failed),
        }
    }

    pub(crate) fn intake(&mut self) {
        let row = self.process.row;
        match (self.process.pc, self.process.ending) {
            (Pc::Commit, Some(_)) => self.finishes("intake: the plan failed", Pc::Load),
            (Pc::Commit, None) => {
                self.writes("intake: plan received", RunRow { status: Status::Evaluating, ..row }, Pc::Load);
            }
            _ => {
                let loaded = self.load(false);
                match loaded.row.status {
                    Status::Planning if loaded.row.cancel && !self.made(Mistake::IntakeIgnoresCancel) => {
                        self.returns("intake: withdrawn", Outcome::Failed);
                    }
                    Status::Planning => match self.state.objects[self.run()].plan_receipt {
                        Some(PlanReceipt::Changes | PlanReceipt::NoChanges) => self.commits("intake reads", loaded),
                        Some(PlanReceipt::Failed) => {
                            self.finishing("intake reads a failure", loaded, failed(FailureReason::PlanErrored));
                        }
                        None => {
                            self.finishing("intake finds no receipt", loaded, failed(FailureReason::PlanTaskFailed));
                        }
                    },
                    Status::Evaluating => self.returns("intake: done", Outcome::Next(At::Project)),
                    _ if self.made(Mistake::IntakeRevives) => self.commits("intake reads an ended run", loaded),
                    _ => self.returns("intake: ended", Outcome::Failed),
                }
            }
        }
    }

    pub(crate) fn project(&mut self) {
        let changes = self.state.objects[self.run()].plan_receipt == Some(PlanReceipt::Changes);
        match (self.process.pc, self.process.ending) {
            (Pc::Commit, Some(_)) => self.finishes("project: no changes", Pc::Load),
            (Pc::Commit, None) => {
                self.writes("project: projected", RunRow { projection: true, ..self.process.row }, Pc::Load);
            }
            _ => {
                let loaded = self.load(false);
                match loaded.row.status {
                    Status::Evaluating if loaded.row.projection => {
                        self.returns("project: changes", Outcome::Next(At::Guard));
                    }
                    Status::Evaluating if changes => self.commits("project reads", loaded),
                    Status::Evaluating => {
                        self.finishing("project reads, and nothing changes", loaded, ended(Status::NoChanges));
                    }
                    _ => self.returns("project: ended", Outcome::Next(At::Conclude)),
                }
            }
        }
    }

    pub(crate) fn guard(&mut self) {
        let row = self.process.row;
        match (self.process.pc, self.process.ending) {
            (Pc::Commit, Some(_)) => self.finishes("guard: planned", Pc::Load),
            (Pc::Commit, None) => {
                let judged = RunRow { guardrails: true, ..row };
                self.writes("guard: a person is to be asked", judged, Pc::Load);
                if self.model.bounds.automatic {
                    let reviewing = RunRow { status: Status::Reviewing, eligible: true, ..judged };
                    self.writes("guard: eligible", reviewing, Pc::Load);
                    if self.made(Mistake::ReviewIgnoresGuardrails) {
                        let anyway = RunRow { eligible: false, ..reviewing };
                        self.writes("guard: not eligible, and reviewed all the same", anyway, Pc::Load);
                    }
                }
            }
            _ => {
                let loaded = self.load(false);
                match loaded.row.status {
                    Status::Reviewing => self.returns("guard: review", Outcome::Next(At::Review)),
                    Status::Evaluating if loaded.row.guardrails => {
                        self.returns("guard: ask", Outcome::Next(At::RequestApproval));
                    }
                    Status::Evaluating if loaded.row.projection && self.kind() == Kind::PlanOnly => {
                        self.finishing("guard reads", loaded, ended(Status::Planned));
                    }
                    Status::Evaluating if loaded.row.projection => self.commits("guard reads", loaded),
                    _ => self.returns("guard: ended", Outcome::Next(At::Conclude)),
                }
            }
        }
    }

    pub(crate) fn review(&mut self) {
        if self.process.pc == Pc::Commit {
            let reviewed = RunRow { review: true, ..self.process.row };
            self.writes("review: a person is to be asked", reviewed, Pc::Load);
            let late = self.process.late == Some(true);
            let eligible = reviewed.eligible || self.made(Mistake::ReviewIgnoresGuardrails);
            if eligible && (!late || self.made(Mistake::NobodyLooksAtTheClock)) {
                let decision = Some(Decision { choice: Choice::Approve, digest_right: true, late, automatic: true });
                let approved = RunRow { status: Status::Approved, decision, ..reviewed };
                self.writes("review: nothing against it, approved", approved, Pc::Load);
            }
            return;
        }
        let loaded = self.load(false);
        match loaded.row.status {
            Status::Reviewing if !loaded.row.review => self.commits("review reads", loaded),
            Status::Approved => self.returns("review: approved", Outcome::Next(At::Authorize)),
            // Whatever else comes of it, a person is asked.
            _ => self.returns("review: ask", Outcome::Next(At::RequestApproval)),
        }
    }

    pub(crate) fn request_approval(&mut self) {
        let row = self.process.row;
        match self.process.pc {
            Pc::Load => {
                let loaded = self.load(false);
                match loaded.row.status {
                    Status::Evaluating | Status::Reviewing if loaded.row.projection => {
                        self.commits("request-approval reads", loaded);
                    }
                    Status::AwaitingApproval => self.waits("request-approval reads an asking run", loaded),
                    Status::Approved if self.state.frozen() && !self.state.expired[self.run()] => {
                        self.waits("request-approval reads a frozen run", loaded);
                    }
                    status if status == Status::Approved || status.is_terminal() => {
                        self.wakes("request-approval wakes its execution", At::Authorize);
                    }
                    _ => self.returns("request-approval: not ready", Outcome::Failed),
                }
            }
            _ => {
                let status = if row.status == Status::Approved { row.status } else { Status::AwaitingApproval };
                let asking = RunRow { status, token: self.process.token, ..row };
                self.writes("request-approval: asks", asking, Pc::Load);
            }
        }
    }

    pub(crate) fn authorize(&mut self) {
        let row = self.process.row;
        let late = self.process.late == Some(true) && !self.made(Mistake::NobodyLooksAtTheClock);
        match (self.process.pc, self.process.ending) {
            (Pc::Load, _) => {
                let loaded = self.load(false);
                let late = loaded.late == Some(true) && !self.made(Mistake::NobodyLooksAtTheClock);
                let held = self.state.lock.held_by(self.process.run, loaded.row.fence);
                match loaded.row.status {
                    Status::Applying => self.to("authorize finds the run applying", Pc::PutOrder),
                    Status::AwaitingApproval if late => {
                        self.finishing("authorize reads, too late", loaded, ended(Status::Expired));
                    }
                    Status::AwaitingApproval if self.made(Mistake::TokenIsAuthority) => {
                        self.commits("authorize was woken, and asks no more", loaded);
                    }
                    Status::AwaitingApproval => self.returns("authorize: not approved", Outcome::NotApproved),
                    Status::Approved if late => {
                        self.finishing("authorize reads, too late", loaded, failed(FailureReason::PlanExpired));
                    }
                    Status::Approved if !held => {
                        self.finishing("authorize: lock lost", loaded, failed(FailureReason::LockLost));
                    }
                    // `decided_on`: the recorded decision is an approval of the recorded projection.
                    Status::Approved if !self.made(Mistake::DecideIgnoresDigest) && !decided_on(&loaded.row) => {
                        self.returns("authorize: the record is not what it must be", Outcome::Failed);
                    }
                    Status::Approved if self.state.frozen() => self.returns("authorize: frozen", Outcome::Frozen),
                    Status::Approved if self.made(Mistake::AuthorizeIgnoresLockVersion) => {
                        self.commits("authorize reads", loaded);
                    }
                    Status::Approved => {
                        let loaded = self.load_checked(loaded);
                        self.commits("authorize reads", loaded);
                    }
                    _ => self.returns("authorize: ended", Outcome::Failed),
                }
            }
            (Pc::Commit, Some(_)) => self.finishes("authorize ends the run", Pc::Load),
            (Pc::Commit, None) => {
                debug_assert!(!late, "only an approval in time comes here");
                let applying = RunRow { status: Status::Applying, token: Token::None, ..row };
                self.writes("authorize: applying", applying, Pc::Load);
            }
            (Pc::PutOrder, _) => {
                let mut state = self.state.clone();
                state.objects[self.run()].order = true;
                let process = Process { pc: Pc::Sign, ..self.process };
                self.did("authorize writes the order", state, process);
            }
            _ => {
                let mut state = self.state.clone();
                state.objects[self.run()].signature = true;
                self.ends("authorize writes the signature", state, Outcome::Next(At::Apply));
            }
        }
    }
}

/// Whether a run's decision is an approval of its projection.
pub(crate) fn decided_on(row: &RunRow) -> bool {
    matches!(row.decision, Some(Decision { choice: Choice::Approve, digest_right: true, .. }))
}
