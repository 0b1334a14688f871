//! What is done about an interaction.

use plangate_gate::documents::Action;
use plangate_gate::measure::{Doubt, Measurement};
use plangate_gate::run::{Choice, Surface};
use plangate_gate::time::Timestamp;
use plangate_record::access::{Caller, identify_slack, not_permitted};
use plangate_record::callbacks::{self, Word, decide_once, heard_first, leave_word};
use plangate_record::rows::RunRow;
use plangate_record::store::Store;
use plangate_record::watched::tell;
use plangate_record::workflow::Workflow;
use plangate_record::{Error, Refusal};
use plangate_slack::signature::REMEMBERED_SECONDS;
use plangate_slack::{About, Button, Interaction, Pressed, Sender, Submitted, Verified, modal};
use plangate_wire::DecisionRequest;

use crate::event::Answer;
use crate::open::Forms;
use crate::words;

/// Where interactions are heard.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) workflow: &'a dyn Workflow,
    pub(crate) forms: &'a dyn Forms,
    pub(crate) now: Timestamp,
}

impl Desk<'_> {
    /// Does what a verified request asks for, if it was not heard before.
    pub(crate) async fn hear(&self, message: &Verified<'_>, request: &str) -> Answer {
        match heard_first(self.store, message.mac(), request, REMEMBERED_SECONDS, self.now).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!("heard before: refused");
                tell(&Measurement::doubt(Doubt::Replayed));
                return Answer::status(409);
            }
            Err(error) => {
                tracing::error!(%error, "not known whether it was heard before");
                return Answer::status(503);
            }
        }
        let (done, which) = match Interaction::parse(message) {
            Ok(Interaction::Pressed(pressed)) => (self.pressed(&pressed).await, "a press"),
            Ok(Interaction::Submitted(submitted)) => (self.submitted(&submitted).await, "a submission"),
            Err(error) => {
                tracing::warn!(%error, "not understood");
                tell(&Measurement::doubt(Doubt::Malformed));
                return Answer::status(400);
            }
        };
        done.unwrap_or_else(|error| {
            tracing::error!(%error, which, "not done");
            Answer::status(503)
        })
    }

    async fn pressed(&self, pressed: &Pressed) -> Result<Answer, Error> {
        let about = &pressed.about;
        let said = match (self.who(&pressed.sender).await?, pressed.button) {
            (None, _) => Some(words::unknown(&pressed.sender)),
            (Some(caller), Button::Approve) => {
                let request = DecisionRequest { decision: Choice::Approve, projection: about.projection, reason: None };
                self.decide(&caller, &pressed.action, about, &request).await?
            }
            (Some(caller), Button::Reject) => self.ask_why(&caller, pressed).await?,
        };
        if let Some(text) = said {
            let word = Word {
                run: about.run.clone(),
                channel: pressed.channel.clone(),
                user: pressed.sender.user.clone(),
                text,
            };
            leave_word(self.store, &pressed.action, &word, self.now).await?;
        }
        Ok(Answer::status(200))
    }

    async fn submitted(&self, submitted: &Submitted) -> Result<Answer, Error> {
        let said = match self.who(&submitted.sender).await? {
            None => Some(words::unknown(&submitted.sender)),
            Some(caller) => {
                let about = &submitted.about;
                let reason = Some(submitted.reason.clone());
                let request = DecisionRequest { decision: Choice::Reject, projection: about.projection, reason };
                match self.decide(&caller, &submitted.action, about, &request).await {
                    Ok(said) => said,
                    Err(error) => {
                        tracing::error!(run = %about.run, %error, "not done");
                        Some(words::UNAVAILABLE.to_owned())
                    }
                }
            }
        };
        // Without a word the modal closes.
        Ok(said.map_or_else(|| Answer::status(200), |text| Answer::modal(&modal::refused(&text))))
    }

    /// Who somebody is, if configuration knows them.
    async fn who(&self, sender: &Sender) -> Result<Option<Caller>, Error> {
        match identify_slack(self.store, &sender.team, &sender.user).await {
            Ok(caller) => Ok(Some(caller)),
            Err(Error::Refused(_)) => {
                tracing::warn!(team = sender.team, user = sender.user, "nobody whom configuration knows");
                tell(&Measurement::doubt(Doubt::Stranger));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Decides; gives what to tell the person, if it was refused.
    async fn decide(
        &self,
        caller: &Caller,
        action: &plangate_gate::digest::Digest,
        about: &About,
        request: &DecisionRequest,
    ) -> Result<Option<String>, Error> {
        let Self { store, workflow, now, .. } = *self;
        match decide_once(store, workflow, caller, action, &about.run, request, Surface::Slack, now).await? {
            callbacks::Answer::Decided { decision } => {
                tracing::info!(run = %about.run, choice = ?decision.choice, person = %caller.person(), "decided");
                Ok(None)
            }
            callbacks::Answer::Refused(refusal) => {
                tracing::info!(run = %about.run, reason = %refusal.reason, person = %caller.person(), "refused");
                tell(&Measurement::refusal(refusal.reason.code()));
                Ok(Some(words::refused(store, caller, &about.run, &refusal).await?))
            }
        }
    }

    /// Opens the form for the reason, for somebody who may decide; gives what to tell them, if it does not open.
    async fn ask_why(&self, caller: &Caller, pressed: &Pressed) -> Result<Option<String>, Error> {
        let about = &pressed.about;
        let row = RunRow::find(self.store, &about.run).await?;
        if !row.is_some_and(|row| caller.may(Action::Approve, Some(&row.run.workspace))) {
            let refusal: Refusal = not_permitted();
            return Ok(Some(words::refused(self.store, caller, &about.run, &refusal).await?));
        }
        match self.forms.open(&pressed.trigger, modal::reason(about)).await {
            Ok(()) => Ok(None),
            Err(error) => {
                tracing::warn!(run = %about.run, %error, "the form was not opened");
                Ok(Some(words::no_form(&about.run)))
            }
        }
    }
}
