//! Evaluates rules in this process. Deterministic: the same modules and input give the same answer, limits included.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use plangate_gate::guardrails::Denial;
use plangate_gate::policy::OwnRules;
use regorus::utils::limits::{ExecutionTimerConfig, TimeSource, set_time_source};
use regorus::{Engine, Value};

/// The rule that is asked.
const RULE: &str = "data.main.deny";
/// The most looks at the count of steps; with [`STEPS`] the most steps that an evaluation may take: five million.
const LOOKS: u64 = 5_000;
/// So many steps pass between two looks.
const STEPS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();
/// A key by which the JSON library tells a number from an object. Where it stands in an input, an object could be taken
/// for a number.
const NUMBER_KEY: &[u8] = b"$serde_json::private";

/// Why rules gave no answer. Carries nothing of the rules' or the input's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A module is no Rego of version 1, or uses a function that is not there.
    #[error("a module cannot be read")]
    Module,
    /// The input is no JSON text that the engine can take.
    #[error("the input cannot be read")]
    Input,
    /// An error, or a limit was exceeded.
    #[error("the evaluation failed")]
    Evaluation,
    /// There is no `deny` in `package main`, or it is not defined for this input, or no set.
    #[error("`data.main.deny` is no set")]
    Undefined,
}

thread_local! {
    static LOOKED: Cell<u64> = const { Cell::new(0) };
}

/// A clock that moves by one with every look at it, so that what the engine takes for a limit of time is one of steps.
struct Steps;

impl TimeSource for Steps {
    fn now(&self) -> Option<Duration> {
        LOOKED.with(|looked| {
            looked.set(looked.get().saturating_add(1));
            Some(Duration::from_nanos(looked.get()))
        })
    }
}

/// Evaluates `rules` over `input`, a JSON text: what `deny` holds.
///
/// # Errors
/// [`RuleError`]; the caller holds that against the plan.
pub fn evaluate(rules: &OwnRules, input: &[u8]) -> Result<Vec<Denial>, RuleError> {
    // The first caller sets it for the process; later ones find the same there.
    let _ = set_time_source(&Steps);
    let input = std::str::from_utf8(input).map_err(|_| RuleError::Input)?;
    if input.as_bytes().windows(NUMBER_KEY.len()).any(|window| window == NUMBER_KEY) {
        return Err(RuleError::Input);
    }
    let mut engine = Engine::new();
    let limit = Duration::from_nanos(LOOKS);
    engine.set_execution_timer_config(ExecutionTimerConfig { limit, check_interval: STEPS });
    engine.set_strict_builtin_errors(true);
    for (name, text) in &rules.modules {
        engine.add_policy(name.clone(), text.clone()).map_err(|_| RuleError::Module)?;
    }
    engine.set_input_json(input).map_err(|_| RuleError::Input)?;
    let answer = engine.eval_rule(RULE.to_owned()).map_err(|error| {
        // A rule that nobody wrote is told apart for those who write rules; the engine has no type for it.
        if error.to_string() == "not a valid rule path" { RuleError::Undefined } else { RuleError::Evaluation }
    })?;
    match answer {
        Value::Set(said) => Ok(said.iter().map(denial).collect()),
        Value::Array(said) => Ok(said.iter().map(denial).collect()),
        _ => Err(RuleError::Undefined),
    }
}

/// One thing that a rule says: a text, or an object with `id` and `address`. Its words are dropped.
fn denial(said: &Value) -> Denial {
    let text = |key: &str| said.as_object().ok()?.get(&Value::from(key))?.as_string().ok().map(|text| text.to_string());
    Denial { rule: text("id").unwrap_or_else(|| "deny".to_owned()), address: text("address") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: &str = r#"{"resource_changes":[{"address":"a.b","type":"a","change":{"after":{"size":3,"big":12345678901234567890}}}]}"#;

    fn run(module: &str) -> Result<Vec<Denial>, RuleError> {
        let modules = [("own.rego".to_owned(), format!("package main\nimport rego.v1\n{module}"))].into();
        evaluate(&OwnRules { modules }, INPUT.as_bytes())
    }

    #[test]
    fn a_denial_has_the_rule_s_id_and_address_and_none_of_its_words() {
        let plain = run(
            r#"deny contains msg if { some r in input.resource_changes; r.change.after.size > 2; msg := sprintf("%s is %d", [r.address, r.change.after.size]) }"#,
        );
        assert_eq!(plain, Ok(vec![Denial { rule: "deny".to_owned(), address: None }]));
        let told = run(
            r#"deny contains {"id": "size", "msg": "too large", "address": r.address} if { some r in input.resource_changes; r.change.after.size > 2 }"#,
        );
        assert_eq!(told, Ok(vec![Denial { rule: "size".to_owned(), address: Some("a.b".to_owned()) }]));
        assert_eq!(
            run("deny contains msg if { input.resource_changes[0].change.after.size > 3; msg := 1 }"),
            Ok(Vec::new())
        );
        assert_eq!(
            run("deny contains 1 if { input.resource_changes[0].change.after.big != 12345678901234567890 }"),
            Ok(Vec::new())
        );
    }

    #[test]
    fn what_gives_no_answer_is_an_error() {
        assert_eq!(run("allow := true"), Err(RuleError::Undefined));
        assert_eq!(run("deny if { 1 == 2 }"), Err(RuleError::Undefined), "not defined for this input");
        assert_eq!(run("deny := true"), Err(RuleError::Undefined), "no set");
        assert_eq!(run("deny contains 1 if { to_number(\"x\") == 1 }"), Err(RuleError::Evaluation));
        assert_eq!(run("deny contains"), Err(RuleError::Module));
        let magic =
            OwnRules { modules: [("a.rego".to_owned(), "package main\ndeny contains 1 if false".to_owned())].into() };
        assert_eq!(evaluate(&magic, br#"{"a":{"$serde_json::private::Number":"7"}}"#), Err(RuleError::Input));
        assert_eq!(evaluate(&magic, b"{"), Err(RuleError::Input));
        assert_eq!(evaluate(&magic, b"{}"), Ok(Vec::new()));
    }

    #[test]
    fn there_is_no_network_no_time_and_no_randomness() {
        for call in [
            "http.send({})",
            "time.now_ns()",
            "rand.intn(\"a\", 5)",
            "opa.runtime()",
            "uuid.rfc4122(\"a\")",
            "net.lookup_ip_addr(\"a\")",
        ] {
            assert!(run(&format!("deny contains x if {{ x := {call} }}")).is_err(), "{call}");
        }
    }

    #[test]
    fn steps_are_bounded_and_counted_alike_every_time() {
        let products = |n: u32| {
            run(&format!(
                "deny contains 1 if {{ some a in numbers.range(1, {n}); some b in numbers.range(1, {n}); a * b == -1 }}"
            ))
        };
        for _ in 0..2 {
            assert_eq!(products(50), Ok(Vec::new()));
            assert_eq!(products(20_000), Err(RuleError::Evaluation));
        }
    }
}
