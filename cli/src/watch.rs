//! Following a run: a line that lives on a terminal, a line for each change elsewhere.

use std::time::{Duration, Instant, SystemTime};

use plangate_gate::ids::RunId;
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Kind, Run};
use plangate_gate::state::StateIdentity;
use plangate_gate::time::Timestamp;
use plangate_wire::{RunAnswer, RunView};

use crate::api::Api;
use crate::console::{Console, Paint, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::record::{self, moment};
use crate::text::{finding, inert, span};
use crate::{freeze, projection};

/// Now, to the second.
///
/// # Errors
/// The clock is before 1970 or after 9999.
pub(crate) fn now() -> Result<Timestamp, CliError> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_unix_seconds(seconds)
        .map_err(|_| CliError::Machine("this machine's clock shows no usable time".to_owned()))
}

/// Reads a run.
///
/// # Errors
/// The gate refuses or does not answer.
pub(crate) fn read(api: &Api<'_>, run: &RunId) -> Result<RunView, CliError> {
    api.get::<RunAnswer>(&["v1", "runs", run.as_str()], &[]).map(|answer| answer.run)
}

/// Follows a run from `view` on until it ends, or waits for approval unless `to_end`, looking every `interval` seconds.
///
/// # Errors
/// The gate refuses or does not answer, for longer than a few attempts.
pub(crate) fn follow(
    api: &Api<'_>,
    console: &Console,
    view: RunView,
    to_end: bool,
    interval: f64,
) -> Result<RunView, CliError> {
    let mut view = view;
    let mut told = None;
    let began = Instant::now();
    loop {
        let run = &view.run;
        let frozen = view.frozen.first();
        if told != Some((run.status, frozen.is_some())) {
            told = Some((run.status, frozen.is_some()));
            let status = console.err_paint.tone(record::tone(run.status), run.status.as_str());
            let time = console.err_paint.tone(Tone::Dim, &clock(run.updated_at));
            let frozen = frozen.map_or(String::new(), |frozen| format!("  frozen: {}", freeze::told(frozen)));
            console.note(&format!("{time}  {status}{}{frozen}", remark(run)));
        }
        if run.status.is_terminal() || (run.status == Status::AwaitingApproval && !to_end) {
            console.clear_status();
            return Ok(view);
        }
        pause(console, run, began, Duration::from_secs_f64(interval));
        view = read(api, &view.run.id.clone())?;
    }
}

/// Waits for `interval`, the status line alive.
fn pause(console: &Console, run: &Run, began: Instant, interval: Duration) {
    let until = Instant::now() + interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if !console.live() {
            std::thread::sleep(left);
            return;
        }
        let passed = u32::try_from(began.elapsed().as_secs()).unwrap_or(u32::MAX);
        console.status(&format!("{} · {} · {}", run.id, run.status, span(passed)));
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// The time of day.
fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(11..19).unwrap_or(&text).to_owned()
}

/// What a status wants to say besides its name.
fn remark(run: &Run) -> String {
    let text = match run.status {
        Status::Queued => run
            .queued_as
            .map_or_else(|| "behind other runs".to_owned(), |place| format!("place {place} of the workspace's line")),
        Status::Planning => match run.kind {
            Kind::Applicable => "holds the workspace's lock".to_owned(),
            Kind::PlanOnly => "needs no lock".to_owned(),
        },
        Status::AwaitingApproval => {
            run.plan.as_ref().map_or(String::new(), |plan| format!("until {}", moment(plan.expires_at)))
        }
        Status::Failed => run.failure.as_ref().map_or(String::new(), |failure| failure.reason.code().to_owned()),
        _ => String::new(),
    };
    if text.is_empty() { text } else { format!("  {text}") }
}

/// Shows what a run that was followed has come to, and gives its exit code.
///
/// # Errors
/// The projection cannot be had, or the output is gone.
pub(crate) fn conclude(api: &Api<'_>, console: &Console, view: &RunView) -> Result<Exit, CliError> {
    let exit = Exit::of(view.run.status);
    if console.json {
        console.out_json(&RunAnswer { run: view.clone() })?;
        return Ok(exit);
    }
    let run = &view.run;
    match run.status {
        Status::AwaitingApproval | Status::Planned => {
            if let Some(seen) = projection::fetch_if_there(api, view)? {
                console.out(&format!("\n{}\n", seen.text(console.paint)?))?;
                let digest = console.paint.tone(Tone::Dim, &format!("projection {}", seen.digest()));
                console.out(&format!("{digest}\n"))?;
                if run.status == Status::AwaitingApproval {
                    console.out(&reasons(run))?;
                    console.out(&projection::how_to_decide(&run.id, seen.digest()))?;
                }
            }
        }
        _ => {
            if let Some(line) = ending(run, console.paint) {
                console.out(&format!("{line}\n"))?;
            }
        }
    }
    if let Some(next) = &view.next_step {
        console.out(&format!("next: {}\n", inert(next)))?;
    }
    Ok(exit)
}

/// How a run has ended, in one line.
fn ending(run: &Run, paint: Paint) -> Option<String> {
    let word = paint.tone(record::tone(run.status), run.status.as_str());
    Some(match run.status {
        Status::Applied => {
            let apply = run.apply.as_ref()?;
            let serial = |state: &Option<StateIdentity>| match state {
                Some(StateIdentity::Present { serial, .. }) => format!("serial {serial}"),
                _ => "none".to_owned(),
            };
            format!("{word}: state {} -> {}", serial(&apply.state_before), serial(&apply.state_after))
        }
        Status::NoChanges => format!("{word}: the estate is as the configuration says"),
        Status::Failed => {
            let failure = run.failure.as_ref()?;
            format!("{}: {}", paint.tone(Tone::Bad, failure.reason.code()), inert(&failure.detail))
        }
        Status::Rejected => {
            let decision = run.decision.as_ref()?;
            format!("{word} by {}{}", record::actor(&decision.by), why(decision.reason.as_deref()))
        }
        Status::Canceled => match &run.cancel {
            Some(cancel) => format!("{word} by {}{}", record::actor(&cancel.by), why(cancel.reason.as_deref())),
            None => word,
        },
        Status::Expired => {
            let plan = run.plan.as_ref()?;
            format!("{word}: nobody decided until {}; propose again", moment(plan.expires_at))
        }
        _ => return None,
    })
}

fn why(reason: Option<&str>) -> String {
    reason.map_or(String::new(), |reason| format!(": {}", inert(reason)))
}

/// Why a person is asked, where guardrails or a reviewer had something to say.
fn reasons(run: &Run) -> String {
    let Some(outcome) = run.guardrails.as_ref().filter(|outcome| !outcome.eligible) else { return advice(run) };
    let lines: Vec<_> = outcome.findings.iter().take(10).map(|each| format!("  {}\n", finding(each))).collect();
    let more = outcome.findings_total.saturating_sub(lines.len() as u64);
    let more = if more > 0 { format!("  and {more} more; see `plangate show {}`\n", run.id) } else { String::new() };
    format!("Guardrails ask for a person's decision:\n{}{more}", lines.concat())
}

/// What a reviewer has to say to whoever decides.
fn advice(run: &Run) -> String {
    let Some((review, cause)) = run.review.as_ref().and_then(|review| Some((review, review.cause?))) else {
        return String::new();
    };
    let lines: Vec<_> = review.findings.iter().take(10).map(|each| format!("  {}\n", record::remark(each))).collect();
    let more = review.findings.len() - lines.len();
    let more = if more > 0 { format!("  and {more} more; see `plangate show {}`\n", run.id) } else { String::new() };
    let advice = if lines.is_empty() { "" } else { " Its advice:" };
    format!("Reviewed: {}{advice}\n{}{more}", cause.meaning().trim(), lines.concat())
}
