//! What a run has noticed, as messages of their own (`R54`): that the state was changed outside of the gate, and drift. Both are
//! made of identifiers, counts and the projection.

use plangate_gate::drift::DriftWord;
use plangate_gate::known::Sighting;
use plangate_gate::state::StateIdentity;
use serde_json::{Value, json};

use crate::message::{BLOCKS, CHARACTERS, Message, Subject, counts, footer, view, whole};
use crate::text::{field, length, plain, section};

impl Message {
    /// Tells that the state was changed outside of the gate, if the run has noticed that.
    #[must_use]
    pub fn outside(subject: &Subject<'_>) -> Option<Self> {
        let run = subject.run;
        let change = run.outside()?;
        let (before, after) = (&change.before, &change.after);
        let fields = [
            workspace(subject),
            field("Noticed by", run.id.as_str()),
            field("Was", &state(before)),
            field("Is", &state(after)),
            field("Seen as it was", &format!("{}, by {}", before.from, before.run)),
            field("Seen as it is", &after.to.to_string()),
        ];
        let text = format!(
            "No apply of the gate has left this state: somebody has written it around the gate. Whether resources have drifted \
             is another matter. `plangate workspace get {}` prints what to ask CloudTrail.",
            run.workspace
        );
        Some(Self {
            text: format!("State changed outside of the gate: {}, noticed by {}", run.workspace, run.id),
            blocks: vec![
                header("State changed outside of the gate"),
                json!({ "type": "section", "fields": fields }),
                section(&text),
            ],
        })
    }

    /// Tells what is new of drift, if the run has found something new.
    #[must_use]
    pub fn drift(subject: &Subject<'_>) -> Option<Self> {
        let run = subject.run;
        let headline = match run.drift.as_ref()? {
            DriftWord::Found { previous: None } => "Drift: the estate is not as it was applied",
            DriftWord::Found { previous: Some(_) } => "Drift: something else has drifted than before",
            DriftWord::Gone { .. } => "Drift is gone: the estate is as it was applied",
            DriftWord::Failing => "Drift cannot be looked for any more",
            DriftWord::Nothing | DriftWord::Standing { .. } | DriftWord::StillFailing { .. } | DriftWord::Unclear => {
                return None;
            }
        };
        if let (Some(DriftWord::Failing), Some(failure)) = (&run.drift, &run.failure) {
            let why = field("Why", &format!("{}. Next: {}", failure.reason.code(), failure.reason.next_step()));
            let fields = [workspace(subject), field("Run", run.id.as_str()), why];
            let blocks = vec![header(headline), json!({ "type": "section", "fields": fields })];
            return Some(Self { text: format!("{headline}: {}, {}", run.workspace, run.id), blocks });
        }
        let gone = matches!(run.drift, Some(DriftWord::Gone { .. }));
        let view = view(subject);
        let counts = if gone { "No changes.".to_owned() } else { counts(run, view.as_ref()) };
        let mut fields = vec![workspace(subject), field("Run", run.id.as_str())];
        fields.extend(run.derived_from.as_ref().map(|applied| field("Applied by", applied.as_str())));
        fields.push(field("Applying that again", &counts));
        let mut blocks = vec![header(headline), json!({ "type": "section", "fields": fields })];
        if !gone {
            let listed = view.as_ref().and_then(|view| whole(run, view)).and_then(|shown| {
                let blocks = [blocks.clone(), shown, vec![footer(run)]].concat();
                let characters = serde_json::to_string(&blocks).map_or(usize::MAX, |text| length(&text));
                (blocks.len() < BLOCKS && characters <= CHARACTERS - 500).then_some(blocks)
            });
            let whole = listed.is_some();
            blocks = listed.unwrap_or_else(|| [blocks.clone(), vec![footer(run)]].concat());
            let see = if whole { "" } else { "It does not fit into a message. " };
            blocks.push(section(&format!(
                "{see}See all of it: `plangate show {}`. This is told once, until it is another: apply the configuration to undo \
                 it, or change the configuration to keep it.",
                run.id
            )));
        }
        Some(Self { text: format!("{headline}: {}, {}. {counts}", run.workspace, run.id), blocks })
    }
}

fn header(text: &str) -> Value {
    json!({ "type": "header", "text": plain(text) })
}

fn workspace(subject: &Subject<'_>) -> Value {
    field("Workspace", &format!("{} ({})", subject.workspace, subject.run.workspace))
}

/// A state in a line, as long as a field may be.
fn state(sighting: &Sighting) -> String {
    match &sighting.state {
        StateIdentity::None => "no state".to_owned(),
        StateIdentity::Present { lineage, serial, version_id, digest } => {
            format!("serial {serial}, lineage {lineage}, version {version_id}, {digest}")
        }
    }
}
