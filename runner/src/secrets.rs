//! The workspace's secrets (`R21`): read under the workspace's role, hidden at once in all output, and handed to the
//! engine in a file, not in an argument or a variable of its environment.

use std::collections::BTreeMap;

use plangate_gate::documents::SecretReference;
use plangate_gate::failure::FailureReason;
use serde::Deserialize;
use serde_json::Value;

use crate::cloud::{Cloud, Secret};
use crate::error::{Result, RunnerError};
use crate::log::Log;

/// Values by the names of their variables.
pub(crate) type Secrets = BTreeMap<String, Secret>;

/// Reads the values of `references`; from here on `log` hides them.
///
/// # Errors
/// `secret-unavailable`, naming the parameters and never a value.
pub(crate) fn resolve(cloud: &dyn Cloud, references: &[SecretReference], log: &mut Log) -> Result<Secrets> {
    if references.is_empty() {
        return Ok(Secrets::new());
    }
    let mut names: Vec<String> = references.iter().map(|reference| reference.parameter.clone()).collect();
    names.sort();
    names.dedup();
    let values = cloud.parameters(&names).map_err(|error| error.because(FailureReason::SecretUnavailable))?;
    log.learn(values.values())?;
    references
        .iter()
        .map(|reference| match values.get(&reference.parameter) {
            Some(value) => Ok((reference.variable.clone(), value.clone())),
            None => {
                let detail = format!("the parameter `{}` does not exist or may not be read", reference.parameter);
                Err(RunnerError::failed(FailureReason::SecretUnavailable, detail))
            }
        })
        .collect()
}

/// The engine's variable file. In JSON a value is taken as it is; the engine's own syntax would look for templates.
#[must_use]
pub(crate) fn variable_file(secrets: &Secrets) -> Vec<u8> {
    let values: BTreeMap<&str, &str> =
        secrets.iter().map(|(variable, value)| (variable.as_str(), value.expose())).collect();
    serde_json::to_vec(&values).unwrap_or_default()
}

/// The variables that a plan carries with their values.
#[derive(Deserialize)]
struct Variables {
    #[serde(default)]
    variables: BTreeMap<String, Variable>,
}

#[derive(Deserialize)]
struct Variable {
    #[serde(default)]
    value: Value,
}

/// Those of `secrets` that an apply of the plan shown in `document` has to be given again: the ephemeral ones, which a
/// plan does not carry. `log` also hides what the plan carries under the names of secrets: since it was made, a secret
/// may have got another value.
///
/// # Errors
/// The document cannot be read.
pub(crate) fn not_in_plan(secrets: &Secrets, document: &[u8], log: &mut Log) -> Result<Secrets> {
    let carried: Variables = serde_json::from_slice(document)
        .map_err(|_| RunnerError::failed(FailureReason::PlanUnparseable, "the plan document cannot be read"))?;
    let old: Vec<Secret> = secrets
        .keys()
        .filter_map(|name| Some(Secret::new(carried.variables.get(name)?.value.as_str()?.to_owned())))
        .collect();
    log.learn(&old)?;
    Ok(secrets
        .iter()
        .filter(|(name, _)| !carried.variables.contains_key(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        [("kept", "new-value"), ("passing", "ephemeral")]
            .map(|(name, value)| (name.to_owned(), Secret::new(value.to_owned())))
            .into()
    }

    #[test]
    fn an_apply_is_given_only_what_the_plan_does_not_carry() {
        let mut log = Log::new(Box::new(std::io::sink()), 1000);
        let document = br#"{"variables":{"kept":{"value":"old-value"}},"resource_changes":[]}"#;
        let given = not_in_plan(&secrets(), document, &mut log).unwrap();
        assert_eq!(given.keys().collect::<Vec<_>>(), ["passing"]);
        log.text("it was old-value");
        assert_eq!(log.finish(), b"it was (secret)\n");
    }

    #[test]
    fn the_variable_file_holds_values_as_they_are() {
        let odd = [("v".to_owned(), Secret::new("${a} %{b} \"\n".to_owned()))].into();
        assert_eq!(variable_file(&odd), br#"{"v":"${a} %{b} \"\n"}"#);
        assert!(!format!("{:?}", secrets()).contains("value"));
    }
}
