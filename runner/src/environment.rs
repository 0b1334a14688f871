//! What the runner takes from its environment: which phase of which run, and the task role's credentials (`R19`).
//! The environment of the engine is built from nothing.

use std::collections::BTreeMap;

use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::order::Phase;

use crate::error::{Result, RunnerError};

/// The variables by which a task gets the credentials of its role. They alone are passed on to the engine.
const CREDENTIALS: [&str; 7] = [
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// What a task was started for.
#[derive(Clone)]
pub struct Invocation {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The run.
    pub run: RunId,
    /// The phase.
    pub phase: Phase,
    credentials: BTreeMap<&'static str, String>,
}

impl Invocation {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`RunnerError::Unusable`] if one is missing or malformed, or if the credentials are long-lived ones (`R19`).
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        let credentials: BTreeMap<_, _> =
            CREDENTIALS.iter().filter_map(|name| Some((*name, variables.get(*name)?.clone()))).collect();
        if credentials.contains_key("AWS_ACCESS_KEY_ID") && !credentials.contains_key("AWS_SESSION_TOKEN") {
            return Err(RunnerError::unusable("the credentials are long-lived: a task has those of a role's session"));
        }
        Ok(Self {
            workspace: read(&variables, "PLANGATE_WORKSPACE")?,
            run: read(&variables, "PLANGATE_RUN")?,
            phase: read(&variables, "PLANGATE_PHASE")?,
            credentials,
        })
    }

    /// The credential variables that were there.
    #[must_use]
    pub const fn credentials(&self) -> &BTreeMap<&'static str, String> {
        &self.credentials
    }
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(variables: &BTreeMap<String, String>, name: &str) -> Result<T> {
    let text = variables.get(name).ok_or_else(|| RunnerError::unusable(format!("the variable `{name}` is missing")))?;
    text.parse().map_err(|error| RunnerError::unusable(format!("the variable `{name}` is {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(extra: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all = vec![
            ("PLANGATE_WORKSPACE", "ws-0000000000000001"),
            ("PLANGATE_RUN", "run-00000000000000000000000001"),
            ("PLANGATE_PHASE", "plan"),
            ("TF_CLI_ARGS_plan", "-target=x"),
            ("PATH", "/usr/bin"),
        ];
        all.extend_from_slice(extra);
        all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn only_the_run_and_the_roles_credentials_are_taken() {
        let session = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_SESSION_TOKEN", "c")];
        let invocation = Invocation::from_variables(variables(&session)).unwrap();
        assert_eq!(invocation.phase, Phase::Plan);
        assert_eq!(
            invocation.credentials().keys().copied().collect::<Vec<_>>(),
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
        );
    }

    #[test]
    fn long_lived_credentials_and_unknown_phases_are_refused() {
        assert!(Invocation::from_variables(variables(&[("AWS_ACCESS_KEY_ID", "a")])).is_err());
        assert!(Invocation::from_variables(variables(&[("PLANGATE_PHASE", "destroy")])).is_err());
        assert!(Invocation::from_variables(variables(&[("PLANGATE_RUN", "../../x")])).is_err());
        assert!(Invocation::from_variables([]).is_err());
    }
}
