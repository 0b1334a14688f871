//! What the model calls by a name is called so in the code and in the state machine.

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| format!("{path}: {error}"))
}

/// The words that a model's file has between `enum NAME {` and its end, one to a line.
fn variants(text: &str, name: &str) -> BTreeSet<String> {
    let begin = text.split(&format!("pub enum {name} {{")).nth(1).unwrap_or_default();
    let body = begin.split("\n}").next().unwrap_or_default();
    let line = |line: &str| line.trim().trim_end_matches(',').split('(').next().unwrap_or_default().to_owned();
    body.lines().filter(|text| !text.trim().starts_with("//")).map(line).filter(|word| !word.is_empty()).collect()
}

#[test]
fn the_execution_is_in_the_states_of_the_state_machine() {
    let machine = read("statemachine/run.asl.json");
    let named = |line: &str| line.strip_prefix("    \"")?.split_once("\": {").map(|(name, _)| name.to_owned());
    let mut states: BTreeSet<String> = machine.lines().filter_map(named).collect();
    // Choices take no time and call nobody: in the model the step before tells where it goes on.
    for choice in ["HasChanges", "Route", "Verdict"] {
        assert!(states.remove(choice), "the state machine has no `{choice}` any more");
    }
    let mut modelled = variants(&read("tests/model/src/state.rs"), "At");
    assert!(modelled.remove("Absent") && modelled.remove("Ended"), "{modelled:?}");
    assert_eq!(states, modelled);
}

#[test]
fn the_steps_are_functions_of_the_code() {
    let steps = [
        ("Admit", "admit.rs", "admit"),
        ("Prepare", "prepare.rs", "prepare"),
        ("Intake", "intake.rs", "intake"),
        ("Project", "project.rs", "project"),
        ("Guard", "guard.rs", "guard"),
        ("Review", "review.rs", "review"),
        ("RequestApproval", "decide.rs", "request_approval"),
        ("Authorize", "authorize.rs", "authorize"),
        ("Conclude", "conclude.rs", "conclude"),
        ("Decide", "decide.rs", "decide"),
        ("Cancel", "cancel.rs", "cancel"),
        ("Acknowledge", "acknowledge.rs", "acknowledge"),
        ("Freeze", "freeze.rs", "freeze"),
        ("Lift", "freeze.rs", "lift"),
        ("Resume", "freeze.rs", "resume"),
    ];
    let modelled = variants(&read("tests/model/src/state.rs"), "Step");
    assert_eq!(modelled, steps.iter().map(|(step, ..)| (*step).to_owned()).collect());
    let parts = [
        ("", "finish.rs", "finish"),
        ("", "finish.rs", "pass_on"),
        ("", "finish.rs", "wake_holder"),
        ("", "sweep.rs", "see_to"),
        ("", "freeze.rs", "stands"),
        ("", "freeze.rs", "line_goes_on"),
        ("", "freeze.rs", "wake_waiting"),
    ];
    for (_, file, function) in steps.iter().chain(&parts) {
        let text = read(&format!("shared/record/src/{file}"));
        assert!(text.contains(&format!("fn {function}(")), "`{file}` has no function `{function}`");
    }
}

#[test]
fn no_step_of_a_run_is_left_out() {
    // Whatever writes a run does it through `RunRow::put`, in one of the files that are modelled.
    let modelled = [
        "acknowledge",
        "admit",
        "authorize",
        "cancel",
        "conclude",
        "decide",
        "finish",
        "freeze",
        "guard",
        "intake",
        "prepare",
    ];
    let modelled: BTreeSet<String> =
        modelled.iter().chain(&["project", "propose", "review"]).map(|f| format!("{f}.rs")).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/record/src");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let writes = [".run.step(", "finish(store,", "pass_on(store,"].iter().any(|call| text.contains(call));
        assert!(!writes || modelled.contains(&name), "`{name}` moves runs, and the model does not know it");
    }
}
