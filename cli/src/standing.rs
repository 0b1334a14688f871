//! A document laid out for people; of a workspace also how it stands: its lock, what is known of its state, its drift.

use plangate_gate::known::Sighting;
use plangate_gate::state::StateIdentity;
use plangate_wire::{Document, DriftView, KnownView, LockView, Step};

use crate::console::{Paint, Tone};
use crate::error::CliError;
use crate::freeze::told;
use crate::record::{moment, tone};
use crate::text::inert;

/// A document, with how it stands.
///
/// # Errors
/// Its spec cannot be written as JSON.
pub(crate) fn sheet(paint: Paint, document: &Document) -> Result<String, CliError> {
    let mut sheet = Sheet { text: String::new(), paint };
    let title = format!("{} {}", document.kind.as_str(), inert(&document.id));
    sheet.text += &format!("{}\n", paint.tone(Tone::Strong, &title));
    sheet.row("namespace", &inert(&document.namespace));
    sheet.row("owner", &inert(&document.owner));
    sheet.row("etag", &inert(&document.etag));
    if let Some(lock) = &document.lock {
        sheet.lock(lock);
    }
    if let Some(known) = &document.known {
        sheet.known(known);
    }
    if let Some(drift) = &document.drift {
        sheet.drift(drift);
    }
    let spec = serde_json::to_string_pretty(&document.spec).map_err(|error| CliError::Output(error.into()))?;
    for line in spec.lines() {
        sheet.text += &format!("  {}\n", inert(line));
    }
    Ok(sheet.text)
}

struct Sheet {
    text: String,
    paint: Paint,
}

impl Sheet {
    /// A row; an empty label goes on with the one above.
    fn row(&mut self, label: &str, value: &str) {
        let label = self.paint.tone(Tone::Dim, &format!("{label:<10}"));
        self.text += &format!("  {label} {value}\n");
    }

    /// What to do or to ask, one by one, each with its command on a line of its own.
    fn steps(&mut self, steps: &[Step]) {
        for (number, step) in (1..).zip(steps) {
            self.row("", &format!("{number}. {}:", inert(&step.what)));
            self.row("", &format!("   {}", inert(&step.command)));
        }
    }

    fn lock(&mut self, lock: &LockView) {
        let shut = lock.reason.is_some() || lock.state == "quarantined";
        let tone = if shut { Tone::Bad } else { Tone::Good };
        let holder = lock.run.as_ref().map_or(String::new(), |run| format!(" by {run}"));
        let waiting = if lock.waiting > 0 { format!(", {} waiting", lock.waiting) } else { String::new() };
        let state = self.paint.tone(tone, &inert(&lock.state));
        self.row("lock", &format!("{state}{holder}{waiting}, fence {}", lock.fence));
        for frozen in &lock.frozen {
            self.row("frozen", &self.paint.tone(Tone::Bad, &told(frozen)));
            if let Some(lift) = &frozen.lift {
                self.row("", &format!("lifted by `{}`", inert(lift)));
            }
        }
        if let Some(since) = lock.since {
            self.row("since", &moment(since));
        }
        if let Some(reason) = &lock.reason {
            let detail = lock.detail.as_ref().map_or(String::new(), |detail| format!(": {}", inert(detail)));
            self.row("why", &format!("{}{detail}", inert(reason)));
        }
        for each in &lock.evidence {
            self.row("known", &format!("{}: {}", inert(&each.what), inert(&each.value)));
        }
        if let Some(next) = &lock.next_step {
            self.row("next", &inert(next));
        }
        self.steps(&lock.steps);
    }

    fn known(&mut self, known: &KnownView) {
        if let Some(seen) = &known.seen {
            self.row("state", &state(seen));
            self.row("", &format!("as {} saw it last, at {}", seen.run, moment(seen.to)));
        }
        if let Some(run) = &known.unsettled {
            let text = format!("unsettled: nobody knows what {run} has applied");
            self.row("", &self.paint.tone(Tone::Bad, &text));
        }
        let Some(outside) = &known.outside else { return };
        self.row(
            "outside",
            &self.paint.tone(Tone::Bad, &format!("changed around the gate, noticed by {}", outside.after.run)),
        );
        self.row("", &format!("was {}", state(&outside.before)));
        self.row("", &format!("is  {}", state(&outside.after)));
        let (from, to) = (moment(outside.before.from), moment(outside.after.to));
        self.row("", &format!("between {from} and {to}; who did it:"));
        self.steps(&outside.who);
    }

    fn drift(&mut self, drift: &DriftView) {
        let often =
            drift.hours.map_or("not looked for any more".to_owned(), |hours| format!("looked for every {hours} h"));
        let due = drift.due.map_or(String::new(), |due| format!(", next due {}", moment(due)));
        self.row("drift", &format!("{often}{due}"));
        if let Some(note) = &drift.note {
            self.row("", &inert(note));
        }
        if let (Some(run), Some(status)) = (&drift.run, drift.status) {
            let why = drift.failure.as_ref().map_or(String::new(), |reason| format!(", {}", inert(reason)));
            self.row("", &format!("last by {run}: {}{why}", self.paint.tone(tone(status), status.as_str())));
        }
        match (&drift.finding, drift.looked_at) {
            (Some(found), _) => {
                let counts = found.counts;
                let (create, update, delete, replace) = (counts.create, counts.update, counts.delete, counts.replace);
                let text = format!(
                    "drifted since {}: +{create} ~{update} -{delete} -/+{replace}; `plangate show {}`",
                    moment(found.since),
                    found.run
                );
                self.row("", &self.paint.tone(Tone::Bad, &text));
            }
            (None, Some(at)) => self.row("", &format!("none at {}", moment(at))),
            (None, None) => {}
        }
    }
}

fn state(sighting: &Sighting) -> String {
    match &sighting.state {
        StateIdentity::None => "no state".to_owned(),
        present => inert(&present.to_string()),
    }
}
