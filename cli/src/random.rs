//! Randomness: for ids of requests and workspaces.

use plangate_gate::ids::{RequestId, WorkspaceId};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::error::CliError;

fn bytes<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| CliError::Machine("this machine gives no randomness".to_owned()))?;
    Ok(bytes)
}

/// A request id that nobody has used: 128 random bits.
///
/// # Errors
/// The machine gives no randomness.
pub(crate) fn request_id() -> Result<RequestId, CliError> {
    let text = bytes::<16>()?.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    text.parse().map_err(|error| CliError::Machine(format!("{error}")))
}

/// A workspace id that nobody has used.
///
/// # Errors
/// The machine gives no randomness.
pub(crate) fn workspace_id() -> Result<WorkspaceId, CliError> {
    Ok(WorkspaceId::new(bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ids_are_two() {
        assert_ne!(request_id().unwrap(), request_id().unwrap());
        assert_ne!(workspace_id().unwrap(), workspace_id().unwrap());
    }
}
