//! What there is: the items of the table, the objects of the bucket, executions, tasks, messages and processes.

use std::hash::{Hash, Hasher};

use plangate_gate::failure::FailureReason;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Choice, Kind};

/// How many runs a model may have.
pub const RUNS: usize = 3;

/// A token, as seen from its run's execution: the one that it waits with now, or one of an earlier wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Token {
    /// None.
    #[default]
    None,
    /// The one that the execution waits with.
    Current,
    /// One that nobody waits with any more.
    Stale,
}

/// The one decision of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What.
    pub choice: Choice,
    /// Whether the digest that was seen is the one of the run's projection.
    pub digest_right: bool,
    /// Whether the plan had expired by the decider's clock.
    pub late: bool,
    /// Whether nobody took it: the gate did, after a review.
    pub automatic: bool,
}

/// A run's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunRow {
    /// Whether it was proposed at all.
    pub there: bool,
    /// Where it stands.
    pub status: Status,
    /// The fence under which it holds the lock.
    pub fence: u8,
    /// Its place in the line, from 1.
    pub queued_as: u8,
    /// The token with which its execution waits.
    pub token: Token,
    /// Whether somebody withdrew it while it was planned.
    pub cancel: bool,
    /// Whether the plan order is recorded.
    pub plan_order: bool,
    /// Whether there is a projection.
    pub projection: bool,
    /// Whether the guardrails have judged.
    pub guardrails: bool,
    /// Whether they found it eligible.
    pub eligible: bool,
    /// Whether the reviewer has spoken.
    pub review: bool,
    /// The decision.
    pub decision: Option<Decision>,
    /// Why it failed.
    pub failure: Option<FailureReason>,
    /// Whether it was proposed while the lock was quarantined.
    pub since_quarantine: bool,
}

impl RunRow {
    /// A run that nobody has proposed.
    pub const ABSENT: Self = Self {
        there: false,
        status: Status::Proposed,
        fence: 0,
        queued_as: 0,
        token: Token::None,
        cancel: false,
        plan_order: false,
        projection: false,
        guardrails: false,
        eligible: false,
        review: false,
        decision: None,
        failure: None,
        since_quarantine: false,
    };

    /// Whether it is there and has not ended.
    #[must_use]
    pub const fn open(&self) -> bool {
        self.there && !self.status.is_terminal()
    }
}

/// The fields side by side, for millions are hashed; what is left out here is still compared.
impl Hash for RunRow {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let flags =
            [self.there, self.cancel, self.plan_order, self.projection, self.guardrails, self.eligible, self.review];
        let flags = flags.iter().fold(0, |bits: u64, flag| bits << 1 | u64::from(*flag));
        let small = [self.status as u64, self.fence.into(), self.queued_as.into(), self.token as u64];
        let failure = self.failure.map_or(0, |failure| failure as u64 + 1);
        let decision = self.decision.map_or(0, |decision| decision.choice as u64 + 1);
        let packed = small.iter().fold(flags, |bits, field| bits << 4 | field);
        hasher.write_u64(packed << 16 | failure << 8 | decision);
    }
}

/// How the lock stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockState {
    /// Nobody holds it.
    Free,
    /// A run holds it.
    Held(u8),
    /// Nobody knows what a run has applied.
    Quarantined(u8),
}

/// The lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lock {
    /// How it stands.
    pub lock: LockState,
    /// How often it was taken.
    pub fence: u8,
    /// The last place that was given out.
    pub tail: u8,
    /// Whether the workspace is frozen.
    pub frozen: bool,
}

impl Lock {
    /// The lock of a workspace that never had a run.
    pub const FRESH: Self = Self { lock: LockState::Free, fence: 0, tail: 0, frozen: false };

    /// Gives the lock to a run and tells its fence.
    pub fn grant(&mut self, run: u8) -> u8 {
        self.fence += 1;
        self.lock = LockState::Held(run);
        self.fence
    }

    /// Whether a run holds it under a fence.
    #[must_use]
    pub fn held_by(&self, run: u8, fence: u8) -> bool {
        self.fence == fence && self.lock == LockState::Held(run)
    }
}

/// What a plan came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanReceipt {
    /// Something changes.
    Changes,
    /// Nothing changes.
    NoChanges,
    /// It failed.
    Failed,
}

/// Who holds the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimHolder {
    /// A runner, about to apply.
    Runner,
    /// The gate: a tombstone.
    Gate,
}

/// What an apply's receipt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApplyReceipt {
    /// The engine ran, and succeeded or not.
    Applied(bool),
    /// Nothing was done, and why.
    Refused(FailureReason),
}

/// The objects of a run, each written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Objects {
    /// The plan's receipt.
    pub plan_receipt: Option<PlanReceipt>,
    /// The apply order.
    pub order: bool,
    /// Its signature.
    pub signature: bool,
    /// The claim.
    pub claim: Option<ClaimHolder>,
    /// The result: whether the engine succeeded.
    pub result: Option<bool>,
    /// The apply's receipt.
    pub apply_receipt: Option<ApplyReceipt>,
}

/// A plan task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PlanTask {
    /// Never started.
    #[default]
    None,
    /// The engine may run.
    Running,
    /// It has stopped.
    Stopped,
}

/// An apply task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ApplyTask {
    /// Never started.
    #[default]
    None,
    /// Started; the order is not checked yet.
    Started,
    /// Order, signature and expiry were good; whether the plan had expired all the same.
    Checked {
        /// Only ever with a mistake.
        late: bool,
    },
    /// It has taken the claim.
    Claimed {
        /// See above.
        late: bool,
    },
    /// The engine applies.
    Engine,
    /// The engine has ended, well or not.
    Ended(bool),
    /// The result was written, or could not be.
    Told(bool),
    /// It does not apply, and has to say why.
    Refusing(FailureReason),
    /// It has stopped.
    Stopped,
}

impl ApplyTask {
    /// Whether it is there and not stopped.
    #[must_use]
    pub const fn alive(self) -> bool {
        !matches!(self, Self::None | Self::Stopped)
    }

    /// Whether its engine applies or is about to.
    #[must_use]
    pub const fn may_apply(self) -> bool {
        matches!(self, Self::Claimed { .. } | Self::Engine)
    }
}

/// The tasks of a run: the one that the workflow starts, and one that it should not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tasks {
    /// Of the plan.
    pub plan: [PlanTask; 2],
    /// Of the apply.
    pub apply: [ApplyTask; 2],
    /// How often an engine was started with the plan.
    pub engines: u8,
}

/// A state of the state machine, by its name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum At {
    /// There is no execution.
    Absent,
    /// `Admit`, a wait.
    Admit,
    /// `PreparePlan`.
    PreparePlan,
    /// `Plan`.
    Plan,
    /// `Intake`.
    Intake,
    /// `Project`.
    Project,
    /// `Guard`.
    Guard,
    /// `Review`.
    Review,
    /// `RequestApproval`, a wait.
    RequestApproval,
    /// `Authorize`.
    Authorize,
    /// `Apply`.
    Apply,
    /// `Conclude`.
    Conclude,
    /// It has ended.
    Ended,
}

/// An execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Execution {
    /// Where it is.
    pub at: At,
    /// Where a redrive would go on.
    pub failed_at: Option<At>,
    /// Whether it waits: for a token, or for a task that it has started.
    pub waiting: bool,
    /// The function that it has called.
    pub step: Option<Process>,
    /// Whether a wake-up is on its way with the token that it waits with.
    pub wake: bool,
}

impl Execution {
    /// None.
    pub const ABSENT: Self = Self { at: At::Absent, failed_at: None, waiting: false, step: None, wake: false };

    /// Whether it runs.
    #[must_use]
    pub const fn running(&self) -> bool {
        !matches!(self.at, At::Absent | At::Ended)
    }
}

/// What a freeze is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The workspace: it stands in its lock.
    Workspace,
    /// The gate as a whole: an item of its own, which is in no transaction's condition.
    Gate,
}

/// A step of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// `admit::admit`.
    Admit,
    /// `prepare::prepare`.
    Prepare,
    /// `intake::intake`.
    Intake,
    /// `project::project`.
    Project,
    /// `guard::guard`.
    Guard,
    /// `review::review`.
    Review,
    /// `decide::request_approval`.
    RequestApproval,
    /// `authorize::authorize`.
    Authorize,
    /// `conclude::conclude`.
    Conclude,
    /// `decide::decide`.
    Decide(Choice, bool),
    /// `cancel::cancel`.
    Cancel,
    /// `acknowledge::acknowledge`.
    Acknowledge,
    /// `freeze::freeze`, of what.
    Freeze(Scope),
    /// `freeze::lift`, of what.
    Lift(Scope),
    /// `freeze::resume`, and what `lift` does for each workspace once the gate's freeze is lifted.
    Resume,
}

/// Where in a step a process is: what it does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pc {
    /// Reads.
    Load,
    /// Does its transaction.
    Commit,
    /// Writes the apply order.
    PutOrder,
    /// Signs it.
    Sign,
    /// Stops the execution.
    StopExecution,
    /// Reads receipt and result.
    Told,
    /// Puts the tombstone.
    PutClaim,
    /// Stops the tasks.
    StopTasks,
    /// Reads receipt and result again.
    ToldAgain,
    /// Releases the lock again; only ever with a mistake.
    Release,
    /// Writes the lock as it is, as its next version.
    RewriteLock,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ending {
    /// The terminal status.
    pub status: Status,
    /// Why, if it failed.
    pub failure: Option<FailureReason>,
}

/// A process: one call of a step.
///
/// An item's version serves one question: is it still what this process read? So that is kept, and no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Which step.
    pub step: Step,
    /// Of which run.
    pub run: u8,
    /// What it does next.
    pub pc: Pc,
    /// The run as it was read.
    pub row: RunRow,
    /// Whether it has the version that was read.
    pub row_fresh: bool,
    /// The lock as it was read, if it was.
    pub lock: Option<Lock>,
    /// Whether it has the version that was read.
    pub lock_fresh: bool,
    /// Whether a freeze stood when the lock was read.
    pub frozen: bool,
    /// The head of the line as it was read.
    pub head: Option<u8>,
    /// Whether that run and its place have the versions that were read.
    pub head_fresh: bool,
    /// Whether the plan had expired when the step was called; known once it has first looked.
    pub late: Option<bool>,
    /// The token that it was called with.
    pub token: Token,
    /// How it ends the run, if it does.
    pub ending: Option<Ending>,
    /// Whether a runner has the claim.
    pub claimed: bool,
}

impl Hash for Process {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.row.hash(hasher);
        self.step.hash(hasher);
        let late = self.late == Some(true);
        let flags = [self.row_fresh, self.lock_fresh, self.head_fresh, self.claimed, self.frozen, late];
        let flags = flags.iter().fold(0, |bits: u64, flag| bits << 1 | u64::from(*flag));
        let ending = self.ending.map_or(0, |ending| ending.status as u64 + 1);
        let small = [self.pc as u64, self.run.into(), self.token as u64, ending, self.head.map_or(0, u64::from)];
        hasher.write_u64(small.iter().fold(flags, |bits, field| bits << 4 | field));
    }
}

impl Process {
    /// A step of a run, called with a token.
    #[must_use]
    pub const fn call(step: Step, run: u8, token: Token) -> Self {
        Self {
            step,
            run,
            pc: Pc::Load,
            row: RunRow::ABSENT,
            row_fresh: false,
            lock: None,
            lock_fresh: false,
            frozen: false,
            head: None,
            head_fresh: false,
            late: None,
            token,
            ending: None,
            claimed: false,
        }
    }

    /// The same, beginning again.
    #[must_use]
    pub const fn again(&self) -> Self {
        Self { late: self.late, ..Self::call(self.step, self.run, self.token) }
    }
}

/// How much may still go wrong, and how much people still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    /// Functions that die or time out.
    pub crashes: u8,
    /// Functions that were given up and go on all the same, beside their successor.
    pub zombies: u8,
    /// Executions that die.
    pub aborts: u8,
    /// Executions that are redriven.
    pub redrives: u8,
    /// Apply tasks that somebody starts by hand.
    pub strays: u8,
    /// Tokens that somebody else completes.
    pub stolen: u8,
    /// Decisions.
    pub decisions: u8,
    /// Withdrawals.
    pub cancels: u8,
    /// Freezes.
    pub freezes: u8,
}

/// All there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The runs.
    pub runs: [RunRow; RUNS],
    /// The workspace's lock.
    pub lock: Lock,
    /// Whether the gate as a whole is frozen.
    pub gate_frozen: bool,
    /// Whether a freeze has been answered, of the workspace and of the gate, and is not lifted.
    pub answered: [bool; 2],
    /// The line: who stands at each place.
    pub line: [Option<u8>; RUNS],
    /// The objects.
    pub objects: [Objects; RUNS],
    /// The tasks.
    pub tasks: [Tasks; RUNS],
    /// The executions.
    pub executions: [Execution; RUNS],
    /// Whether a StartExecution is on its way.
    pub start: [bool; RUNS],
    /// Whether the plan's life is over.
    pub expired: [bool; RUNS],
    /// A function that was given up and goes on.
    pub zombie: Option<Process>,
    /// The sweeper.
    pub sweeper: Option<Process>,
    /// What people have asked for.
    pub asked: [Option<Process>; 2],
    /// What may still happen.
    pub left: Left,
}

/// Where a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Called by a run's execution.
    Execution(u8),
    /// Given up.
    Zombie,
    /// The sweeper.
    Sweeper,
    /// Called by a person.
    Asked(u8),
}

impl Slot {
    /// Its name in a trace.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execution(_) => "execution",
            Self::Zombie => "given-up function",
            Self::Sweeper => "sweeper",
            Self::Asked(0) => "api",
            Self::Asked(_) => "api too",
        }
    }
}

impl State {
    /// The process in a slot.
    #[must_use]
    pub fn process(&mut self, slot: Slot) -> &mut Option<Process> {
        match slot {
            Slot::Execution(run) => &mut self.executions[run as usize].step,
            Slot::Zombie => &mut self.zombie,
            Slot::Sweeper => &mut self.sweeper,
            Slot::Asked(place) => &mut self.asked[place as usize],
        }
    }

    /// All processes.
    pub fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        let called = self.executions.iter_mut().map(|execution| &mut execution.step);
        let others = [&mut self.zombie, &mut self.sweeper];
        called.chain(others).chain(self.asked.iter_mut()).filter_map(Option::as_mut)
    }

    /// `freeze::stands`: whether a freeze stands over the workspace.
    #[must_use]
    pub const fn frozen(&self) -> bool {
        self.lock.frozen || self.gate_frozen
    }

    /// Who is first in the line.
    #[must_use]
    pub fn head(&self) -> Option<u8> {
        self.line.iter().flatten().next().copied()
    }

    /// Whether all tasks of a run's plan, or apply, have stopped.
    #[must_use]
    pub fn stopped(&self, run: u8, apply: bool) -> bool {
        let tasks = &self.tasks[run as usize];
        if apply { !tasks.apply.iter().any(|task| task.alive()) } else { !tasks.plan.contains(&PlanTask::Running) }
    }
}

/// What a run of the model is.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The runs' kinds, as many as there are runs.
    pub kinds: &'static [Kind],
    /// What may happen.
    pub left: Left,
    /// How many people may ask at once.
    pub surfaces: u8,
    /// Whether no task can be started, so that every run ends while planning: the line alone is looked at.
    pub line_only: bool,
    /// Whether the workspace allows automatic review.
    pub automatic: bool,
    /// Whether decisions may also reject, or name another digest.
    pub any_decision: bool,
}
