//! What people do in Slack: believed once it is signed, heard once, and decided by the one function that decides.

use std::time::Duration;

use plangate_gate::measure::{Doubt, Measurement};
use plangate_gate::time::Timestamp;
use plangate_lambda::{Clients, FunctionError, named};
use plangate_record::watched::tell;

mod event;
mod hear;
mod keys;
mod open;
#[cfg(test)]
mod tests;
mod words;

use event::{Answer, Event};
use hear::Desk;
use keys::Keys;
use open::SlackForms;

/// What this function works on besides what all do.
const NEEDS: &[&str] = &["PLANGATE_SLACK_SIGNING_SECRET", "PLANGATE_SLACK_BOT_TOKEN", "PLANGATE_SLACK_API"];

/// How long an answer may take: Slack waits for three seconds, a start and the ways there and back among them.
const ANSWER_WITHIN: Duration = Duration::from_millis(2_300);

static KEYS: Keys = Keys::new();
static FORMS: SlackForms = SlackForms::new();

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    plangate_lambda::serve(NEEDS, handle).await
}

async fn handle(clients: &'static Clients, event: Event, now: Timestamp) -> Result<Answer, FunctionError> {
    plangate_lambda::requested(event.request_id());
    let answered = tokio::time::timeout(ANSWER_WITHIN, answer(clients, &event, now)).await;
    Ok(answered.unwrap_or_else(|_| {
        // Whatever was decided stands; the message will show it.
        tracing::error!("no answer in time");
        Answer::status(503)
    }))
}

async fn answer(clients: &'static Clients, event: &Event, now: Timestamp) -> Answer {
    let Clients { store, workflow, .. } = clients;
    let parameters = &clients.parameters();
    let request = event.request_id();
    let Some(body) = event.body() else { return Answer::status(400) };
    let names = (named("PLANGATE_SLACK_SIGNING_SECRET"), named("PLANGATE_SLACK_PREVIOUS_SECRET"));
    let verified = match KEYS.check(parameters, (&names.0, &names.1), event.signed(&body), now).await {
        Ok(Ok(verified)) => verified,
        Ok(Err(error)) => {
            tracing::warn!(%error, "not taken for Slack's");
            tell(&Measurement::doubt(Doubt::Signature));
            return Answer::status(401);
        }
        Err(error) => {
            tracing::error!(%error, "the signing secret cannot be read");
            return Answer::status(503);
        }
    };
    let desk = Desk { store, workflow, forms: &FORMS.with(parameters), now };
    desk.hear(&verified, request).await
}
