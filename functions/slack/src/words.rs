//! What a person is told, who alone sees it.

use plangate_gate::documents::Action;
use plangate_gate::ids::RunId;
use plangate_record::access::{Caller, approvers};
use plangate_record::rows::RunRow;
use plangate_record::store::Store;
use plangate_record::{Error, Refusal};
use plangate_slack::Sender;
use plangate_wire::Reason;

/// How many of those who may approve are named.
const NAMED: usize = 10;

/// To somebody whose decision may or may not have been taken.
pub(crate) const UNAVAILABLE: &str =
    "The gate did not answer. See in the message whether it was decided; if it still waits, try again.";

/// To somebody whom configuration does not know. It tells nothing of any run.
pub(crate) fn unknown(sender: &Sender) -> String {
    format!(
        "plangate does not know you: no principal has the Slack user {} of team {}. Ask whoever administers plangate.",
        sender.user, sender.team
    )
}

/// To somebody for whom Slack did not open the form.
pub(crate) fn no_form(run: &RunId) -> String {
    format!("Slack did not open the form. Try again, or reject it with `plangate reject {run} --reason WHY`.")
}

/// To somebody whose decision was refused: why, and what to do. Who may approve, to those alone who may read the workspace.
pub(crate) async fn refused(
    store: &dyn Store,
    caller: &Caller,
    run: &RunId,
    refusal: &Refusal,
) -> Result<String, Error> {
    let mut text = match refusal.reason {
        Reason::NotPermitted => "You may not decide on this run, or there is no such run".to_owned(),
        _ => capital(&refusal.message),
    };
    let who = match refusal.reason {
        Reason::NotPermitted | Reason::DistinctApproverRequired => others(store, caller, run).await?,
        _ => None,
    };
    text.push_str(". ");
    text.push_str(&who.unwrap_or_else(|| format!("{}.", capital(refusal.reason.next_step()))));
    Ok(text)
}

/// Who else may approve a run, for somebody who may read its workspace.
async fn others(store: &dyn Store, caller: &Caller, run: &RunId) -> Result<Option<String>, Error> {
    let Some(RunRow { run, .. }) = RunRow::find(store, run).await? else { return Ok(None) };
    if !caller.may(Action::Read, Some(&run.workspace)) {
        return Ok(None);
    }
    let found = approvers(store, &run.workspace).await?;
    let names: Vec<&str> = found.iter().filter(|person| *person != caller.person()).map(|p| p.as_str()).collect();
    let more = names.len().saturating_sub(NAMED);
    let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    Ok(match (names.is_empty(), more) {
        (true, _) => {
            Some("Nobody else may approve in this workspace: ask whoever administers it for a grant.".to_owned())
        }
        (false, 0) => Some(format!("Who may approve: {named}.")),
        (false, more) => Some(format!("Who may approve: {named} and {more} more.")),
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
