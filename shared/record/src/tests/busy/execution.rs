//! The gate's own processes: the sweeper, a run's execution, and the tasks that it starts.

use std::time::Duration;

use plangate_gate::documents::LONGEST_PLAN_EXPIRY;
use plangate_gate::failure::FailureReason;
use plangate_gate::guardrails::NoRuleEngine;
use plangate_gate::ids::RunId;
use plangate_gate::order::Phase;
use plangate_gate::receipt::PlanExit;
use plangate_gate::run::{Choice, failure};

use super::super::schedule::{clock, draw, pause, sleep};
use super::super::world::{Always, CREATES};
use super::{Busy, now};
use crate::authorize::authorize;
use crate::conclude::conclude;
use crate::error::Error;
use crate::sweep::sweep;
use crate::workflow::Execution;
use crate::{admit, decide, guard, intake, prepare, project, review};

impl Busy {
    /// The sweeper, by its schedule, until so many runs have ended.
    pub(crate) async fn sweeper(&self, ends: usize) {
        while self.ends() < ends {
            sleep(Duration::from_secs(30 + draw(120))).await;
            self.sweep().await;
        }
    }

    /// One sweep.
    pub(crate) async fn sweep(&self) {
        sweep(self, self, self, self, now()).await.unwrap();
    }

    /// Conclude, as the state machine calls it: again where it says that something has to be waited for.
    pub(crate) async fn conclude(&self, run: &RunId, error: Option<&str>) {
        while let Err(failed) = conclude(self, self, self, self, run, error, "conclude", now()).await {
            assert!(matches!(failed.name(), "Unavailable" | "StillRunning"), "{failed}");
            pause(1000 + draw(1000)).await;
        }
    }

    /// An execution: begins when one is started, and is that one.
    pub(crate) async fn any_execution(&self) {
        let run = loop {
            let next = self.started.lock().unwrap().pop_front();
            match next {
                Some(run) => break run,
                None => pause(20 + draw(60)).await,
            }
        };
        self.execution(&run).await;
    }

    /// The execution of a run, from its start, as `statemachine/run.asl.json` has it.
    pub(crate) async fn execution(&self, run: &RunId) {
        let outcome = self.states(run).await;
        if self.aborted(run) {
            return;
        }
        self.conclude(run, outcome.err()).await;
        let mut executions = self.world.workflow.executions.lock().unwrap();
        executions.insert(run.clone(), Execution::Ended);
    }

    fn aborted(&self, run: &RunId) -> bool {
        self.world.workflow.executions.lock().unwrap().get(run) == Some(&Execution::Ended)
    }

    /// Calls a step as the state machine does: again while AWS does not answer, six times.
    async fn step<T>(&self, run: &RunId, call: impl AsyncFn() -> Result<T, Error>) -> Result<T, &'static str> {
        for tried in 0.. {
            if self.aborted(run) {
                return Err("aborted");
            }
            match call().await {
                Ok(done) => return Ok(done),
                Err(error) if error.name() == "Unavailable" && tried < 6 => pause(draw(2000 << tried)).await,
                Err(error) => return Err(error.name()),
            }
        }
        Err("aborted")
    }

    async fn states(&self, run: &RunId) -> Result<(), &'static str> {
        loop {
            let (token, from) = self.token(run, "admit");
            self.step(run, async || admit::admit(self, self, self, run, &token, now()).await).await?;
            if !self.woken(run, &token, from, 3600).await {
                continue;
            }
            match self.step(run, async || prepare::prepare(self, self, run, now()).await).await {
                Err("NotAdmitted") => {}
                prepared => break drop(prepared?),
            }
        }
        self.plan_task(run).await;
        self.step(run, async || intake::intake(self, self, run, LONGEST_PLAN_EXPIRY, now()).await).await?;
        self.step(run, async || project::project(self, self, run, now()).await).await?;
        let engine = NoRuleEngine;
        let mut guarded = self.step(run, async || guard::guard(self, self, &engine, run, now()).await).await?;
        if guarded.route == guard::Route::Review {
            guarded = self.step(run, async || review::review(self, self, &Always, run, now()).await).await?;
        }
        if guarded.route != guard::Route::Ask {
            return Ok(());
        }
        loop {
            let (token, from) = self.token(run, "ask");
            let ask = async || decide::request_approval(self, self, run, &token, now()).await;
            self.step(run, ask).await?;
            self.woken(run, &token, from, guarded.seconds_left.into()).await;
            match self.step(run, async || authorize(self, self, self, run, now()).await).await {
                Err("NotApproved") => {}
                authorized => break drop(authorized?),
            }
        }
        self.apply_task(run).await;
        Ok(())
    }

    /// A token of its own for each call, and how many wake-ups there have been before.
    fn token(&self, run: &RunId, state: &str) -> (String, usize) {
        (format!("{state} {run} {}", draw(1 << 40)), self.world.workflow.woken.lock().unwrap().len())
    }

    /// Waits until the token is completed, or its time is up; tells whether it was completed.
    async fn woken(&self, run: &RunId, token: &str, mut from: usize, seconds: u64) -> bool {
        let end = clock() + seconds * 1000;
        while clock() < end && !self.aborted(run) {
            {
                let woken = self.world.workflow.woken.lock().unwrap();
                if woken[from..].iter().any(|each| each == token) {
                    return true;
                }
                from = woken.len();
            }
            // As exact as a clock: who times out does so at the moment at which somebody may still decide.
            pause((end - clock()).min(20 + draw(60))).await;
        }
        false
    }

    /// A task begins.
    fn begins(&self, run: &RunId, phase: Phase) {
        self.tasks.lock().unwrap().insert((run.clone(), phase.as_str()), false);
    }

    /// A task ends.
    fn ends_task(&self, run: &RunId, phase: Phase) {
        self.tasks.lock().unwrap().remove(&(run.clone(), phase.as_str()));
    }

    /// Whether a task was asked to stop.
    fn asked(&self, run: &RunId, phase: Phase) -> bool {
        self.tasks.lock().unwrap()[&(run.clone(), phase.as_str())]
    }

    /// The plan's task: it may be stopped before it has left anything.
    pub(crate) async fn plan_task(&self, run: &RunId) {
        self.begins(run, Phase::Plan);
        pause(100 + draw(100)).await;
        let state = self.world.state(&self.world.of(run));
        pause(100 + draw(300)).await;
        if !self.asked(run, Phase::Plan) {
            self.world.runner_has_planned(run, CREATES, PlanExit::Changes, state);
        }
        self.ends_task(run, Phase::Plan);
    }

    /// The apply's task: it may be stopped at any point, and once it has the claim its engine runs.
    pub(crate) async fn apply_task(&self, run: &RunId) {
        self.begins(run, Phase::Apply);
        pause(100 + draw(200)).await;
        if !self.asked(run, Phase::Apply) {
            let record = self.world.run(run).await;
            if record.plan.as_ref().map(|plan| &plan.state) != Some(&self.world.state(&record.workspace)) {
                let mut receipt = self.world.receipt(run, Phase::Apply);
                receipt.failure = Some(failure(FailureReason::StateIdentityMismatch, "the state has moved"));
                self.world.write_receipt(&receipt);
            } else if self.world.runner_claims(run) {
                self.engine(run).await;
            }
        }
        self.ends_task(run, Phase::Apply);
    }

    /// The engine, and what the runner tells of it: nothing, if it was stopped before it had ended.
    async fn engine(&self, run: &RunId) {
        {
            let mut seen = self.seen.lock().unwrap();
            let record = &seen.runs[run];
            let decision = record.decision.as_ref().expect("an engine applies what somebody has decided on");
            assert_eq!(decision.choice, Choice::Approve);
            assert_eq!(Some(decision.projection), record.projection.as_ref().map(|made| made.object.digest));
            assert_eq!(seen.holders.get(&record.workspace), Some(run), "an engine applies under the lock");
            seen.running.insert(run.clone());
            *seen.engines.entry(run.clone()).or_default() += 1;
        }
        pause(draw(150)).await;
        let applied = self.world.engine(run, 0);
        pause(draw(150)).await;
        let stopped = self.asked(run, Phase::Apply);
        self.seen.lock().unwrap().running.remove(run);
        if stopped {
            return;
        }
        self.world.runner_tells(run, applied.clone());
        pause(draw(20)).await;
        if !self.asked(run, Phase::Apply) {
            let mut receipt = self.world.receipt(run, Phase::Apply);
            receipt.applied = Some(applied);
            self.world.write_receipt(&receipt);
        }
    }
}
