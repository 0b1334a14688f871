//! What only reads: runs, projections, logs, audit chains.

use plangate_gate::audit::Chain;
use plangate_gate::digest::Digest;
use plangate_gate::documents::{Action, DocumentKind};
use plangate_gate::ids::WorkspaceId;
use plangate_gate::lifecycle::Status;
use plangate_gate::order::Phase;
use plangate_gate::run::Run;
use plangate_record::access::{Caller, not_permitted};
use plangate_record::logs::LOG_LIMIT;
use plangate_record::objects::log_key;
use plangate_record::rows::{RunRow, runs_list};
use plangate_record::{Error, Refusal, documents};
use plangate_wire::{AuditAnswer, EventView, LogAnswer, ProjectionAnswer, Reason, RunAnswer, RunsAnswer};
use serde_json::value::RawValue;

use crate::decode::{Answer, Event};
use crate::freezes;
use crate::gate::Gate;
use crate::runs::id;

/// The largest projection that is answered in place, in bytes; a larger one by a presigned address.
const INLINE_LIMIT: u64 = 5_000_000;
/// How many lines of an archived log one page has.
const LOG_LINES: usize = 2_000;
/// How many bytes of lines one page has at most: an answer has its limit.
const LOG_BYTES: usize = 2_000_000;
/// How many bytes of records one page has: Lambda answers with at most six megabytes.
const ANSWER_BYTES: usize = 4_000_000;
/// How many events one page has.
const EVENTS: usize = 100;
/// How many runs one page has, if nothing else is asked.
const RUNS: usize = 20;

/// A run that the caller may do `action` on.
async fn readable(gate: &Gate<'_>, caller: &Caller, run: &str, action: Action) -> Result<Run, Error> {
    let row = match RunRow::load(gate.store, &id(run)?).await {
        Err(Error::NoSuchRun) => return Err(not_permitted().into()),
        other => other?,
    };
    caller.require(action, Some(&row.run.workspace))?;
    Ok(row.run)
}

/// `GET /v1/runs`: a page of runs, newest first, of one workspace or of all that the caller may read.
pub(crate) async fn runs(gate: &Gate<'_>, event: &Event, caller: &Caller) -> Result<Answer, Error> {
    let query = event.query(&["workspace", "cursor", "limit"])?;
    let invalid = |message: &str| Error::from(Refusal::new(Reason::InvalidRequest, message));
    let limit = match query.get("limit").map(|text| text.parse::<usize>()) {
        None => RUNS,
        Some(Ok(limit)) if (1..=100).contains(&limit) => limit,
        Some(_) => return Err(invalid("`limit` is between 1 and 100")),
    };
    let cursor = match query.get("cursor") {
        None => None,
        Some(text) => {
            Some(text.parse::<plangate_gate::ids::RunId>().map_err(|_| invalid("`cursor` is not one of ours"))?)
        }
    };
    let workspaces = match query.get("workspace") {
        Some(text) => {
            let workspace: WorkspaceId = text.parse().map_err(|_| Error::from(not_permitted()))?;
            caller.require(Action::Read, Some(&workspace))?;
            vec![workspace]
        }
        None => readable_workspaces(gate, caller).await?,
    };
    let before = cursor.as_ref().map(plangate_gate::ids::RunId::as_str);
    let mut found = Vec::new();
    for workspace in &workspaces {
        for item in gate.store.list(&runs_list(workspace), before, true, limit + 1).await? {
            found.push(RunRow::from_item(&item)?.run);
        }
    }
    // Ids sort by age, so the pages of several workspaces merge.
    found.sort_by(|a, b| b.id.cmp(&a.id));
    let fits = within(&found, limit);
    let more = found.len() > fits;
    found.truncate(fits);
    let cursor = found.last().filter(|_| more).map(|run| run.id.to_string());
    Ok(Answer::of(200, &RunsAnswer { runs: found.into_iter().map(Into::into).collect(), cursor })?)
}

/// How many of `items`, at most `limit` and at least one, fit into an answer.
pub(crate) fn within<T: serde::Serialize>(items: &[T], limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |item: &&T| {
        bytes += serde_json::to_string(item).map_or(0, |text| text.len());
        bytes <= ANSWER_BYTES
    };
    items.iter().take(limit).take_while(fits).count().max(1).min(items.len())
}

/// The workspaces that the caller may read.
async fn readable_workspaces(gate: &Gate<'_>, caller: &Caller) -> Result<Vec<WorkspaceId>, Error> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = documents::page(gate.store, DocumentKind::Workspace, after.as_deref(), 100).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id.clone());
        let ids = page.iter().filter_map(|document| document.id.parse().ok());
        found.extend(ids.filter(|id| caller.may(Action::Read, Some(id))));
    }
}

/// `GET /v1/runs/{id}`.
pub(crate) async fn run(gate: &Gate<'_>, caller: &Caller, run: &str) -> Result<Answer, Error> {
    let mut run = readable(gate, caller, run, Action::Read).await?.into();
    freezes::shown(gate, &mut run).await?;
    Ok(Answer::of(200, &RunAnswer { run })?)
}

/// `GET /v1/runs/{id}/projection`: the exact bytes, which everyone gets (`R28`).
pub(crate) async fn projection(gate: &Gate<'_>, caller: &Caller, run: &str) -> Result<Answer, Error> {
    let run = readable(gate, caller, run, Action::Read).await?;
    let Some(record) = run.projection else {
        return Err(
            Refusal::new(Reason::NotThereYet, format!("the run is `{}` and has no projection", run.status)).into()
        );
    };
    let (digest, bytes) = (record.object.digest, record.object.bytes);
    if bytes > INLINE_LIMIT {
        let url = Some(gate.presigner.get(&record.object.key).await?.url);
        return Ok(Answer::of(200, &ProjectionAnswer { digest, bytes, projection: None, url })?);
    }
    let invalid = |error: &str| Error::RecordInvalid { what: "a projection", error: error.to_owned() };
    let object = gate.objects.get(&record.object.key, None, INLINE_LIMIT).await?;
    let object = object.ok_or_else(|| invalid("it is not there"))?;
    if Digest::of(&object.bytes) != digest {
        return Err(invalid("it is not the one that was recorded"));
    }
    let text = String::from_utf8(object.bytes).map_err(|_| invalid("it is not text"))?;
    let projection = RawValue::from_string(text).map_err(|_| invalid("it is not JSON"))?;
    Ok(Answer::of(200, &ProjectionAnswer { digest, bytes, projection: Some(projection), url: None })?)
}

/// `GET /v1/runs/{id}/log/{phase}`: the archived log if there is one, else what there is so far (`R53`).
pub(crate) async fn log(
    gate: &Gate<'_>,
    event: &Event,
    caller: &Caller,
    run: &str,
    phase: &str,
) -> Result<Answer, Error> {
    let query = event.query(&["cursor"])?;
    let phase: Phase = phase.parse().map_err(|error| Refusal::new(Reason::InvalidRequest, format!("{error}")))?;
    let run = readable(gate, caller, run, Action::ReadLogs).await?;
    let cursor = query.get("cursor").map(String::as_str);
    // A cursor says which of the two it belongs to: what was read live goes on live.
    let (archived, live) = match cursor.map(|text| text.split_once(':')) {
        None => (Some(0), None),
        Some(Some(("line", place))) => (place.parse().ok(), None),
        Some(Some(("live", token))) => (None, Some(token)),
        Some(_) => return Err(Refusal::new(Reason::InvalidRequest, "`cursor` is not one of ours").into()),
    };
    if let Some(from) = archived {
        let key = log_key(&run.workspace, &run.id, phase);
        if let Some(object) = gate.objects.get(&key, None, LOG_LIMIT).await? {
            return Ok(Answer::of(200, &archived_page(&String::from_utf8_lossy(&object.bytes), from))?);
        }
    }
    let page = gate.logs.page(&run.id, phase, live).await?;
    let still = page.next.as_deref() == live || page.next.is_none();
    let over = match phase {
        Phase::Plan => !matches!(run.status, Status::Proposed | Status::Queued | Status::Planning),
        Phase::Apply => run.status.is_terminal(),
    };
    let complete = still && over;
    let cursor = page.next.filter(|_| !complete).map(|token| format!("live:{token}"));
    let cursor = cursor.or_else(|| (!complete).then(|| "line:0".to_owned()));
    Ok(Answer::of(200, &LogAnswer { lines: page.lines, cursor, complete })?)
}

fn archived_page(text: &str, from: usize) -> LogAnswer {
    let mut lines = Vec::new();
    let mut bytes = 0;
    let mut rest = text.lines().skip(from).peekable();
    while let Some(line) = rest.next_if(|_| lines.len() < LOG_LINES && bytes < LOG_BYTES) {
        bytes += line.len();
        lines.push(line.to_owned());
    }
    let complete = rest.peek().is_none();
    let cursor = (!complete).then(|| format!("line:{}", from + lines.len()));
    LogAnswer { lines, cursor, complete }
}

/// `GET /v1/runs/{id}/audit`: the run's chain of events, from the first on.
pub(crate) async fn audit(gate: &Gate<'_>, event: &Event, caller: &Caller, run: &str) -> Result<Answer, Error> {
    let query = event.query(&["cursor"])?;
    let invalid = || Refusal::new(Reason::InvalidRequest, "`cursor` is not one of ours");
    let from = match query.get("cursor") {
        None => 1,
        Some(text) => text.parse::<u64>().map_err(|_| invalid())?,
    };
    let run = readable(gate, caller, run, Action::Read).await?;
    let mut stored = gate.store.events(&Chain::Run(run.id), from, EVENTS).await?;
    let texts: Vec<&str> = stored.iter().map(|event| event.bytes.as_str()).collect();
    let fits = within(&texts, EVENTS);
    let more = fits < stored.len() || stored.len() == EVENTS;
    stored.truncate(fits);
    let cursor = stored.last().filter(|_| more).map(|event| (event.seq + 1).to_string());
    let mut events = Vec::with_capacity(stored.len());
    for each in stored {
        let event = RawValue::from_string(each.bytes)
            .map_err(|error| Error::RecordInvalid { what: "an event", error: error.to_string() })?;
        events.push(EventView { event, digest: each.digest });
    }
    Ok(Answer::of(200, &AuditAnswer { events, cursor })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_log_is_read_page_by_page_and_nothing_is_lost() {
        let text: String = (0..LOG_LINES + 5).map(|n| format!("line {n}\n")).collect();
        let first = archived_page(&text, 0);
        assert_eq!((first.lines.len(), first.complete), (LOG_LINES, false));
        let from = first.cursor.unwrap().strip_prefix("line:").unwrap().parse().unwrap();
        let last = archived_page(&text, from);
        assert_eq!((last.lines.len(), last.complete, last.cursor), (5, true, None));
        assert_eq!(last.lines[4], format!("line {}", LOG_LINES + 4));
    }
}
