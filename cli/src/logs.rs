//! The log of a phase.

use std::time::Duration;

use plangate_wire::{LogAnswer, Reason};

use crate::api::Api;
use crate::args::{Log, PhaseName};
use crate::console::Console;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text::inert_line;

/// Shows a phase's log, as far as it goes; with `--follow` until the phase has ended.
///
/// # Errors
/// The gate refuses.
pub(crate) fn log(api: &Api<'_>, console: &Console, args: &Log) -> Result<Exit, CliError> {
    let phase = match args.phase {
        PhaseName::Plan => "plan",
        PhaseName::Apply => "apply",
    };
    let path = ["v1", "runs", args.run.as_str(), "log", phase];
    let mut cursor: Option<String> = None;
    let mut empty = 0;
    loop {
        let query: Vec<(&str, &str)> = cursor.iter().map(|cursor| ("cursor", cursor.as_str())).collect();
        let page: LogAnswer = match api.get(&path, &query) {
            Ok(page) => page,
            Err(error) if args.follow && error.is(Reason::NotThereYet) => {
                wait(console, args, "there is no log yet");
                continue;
            }
            Err(error) => return Err(error),
        };
        if console.json {
            // A line of JSON for each page.
            console.out_json(&page)?;
        } else {
            let text: String = page.lines.iter().map(|line| inert_line(line) + "\n").collect();
            if !text.is_empty() {
                console.out(&text)?;
            }
        }
        let moved = page.cursor != cursor;
        empty = if page.lines.is_empty() { empty + 1 } else { 0 };
        // A store may give empty pages before the next full one; it is not asked for ever.
        let at_end = page.cursor.is_none() || !moved || empty >= 5;
        if page.cursor.is_none() || (at_end && (page.complete || !args.follow)) {
            break;
        }
        if page.lines.is_empty() && args.follow && !page.complete {
            wait(console, args, "the phase goes on");
        }
        cursor = page.cursor;
    }
    Ok(Exit::Success)
}

fn wait(console: &Console, args: &Log, why: &str) {
    console.status(&format!("{} · {why}", args.run));
    std::thread::sleep(Duration::from_secs_f64(args.interval));
}
