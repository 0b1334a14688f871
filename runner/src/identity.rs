//! Whether the runner is who the order says (`R16`, `R18`).

use plangate_gate::failure::FailureReason;

use crate::error::{Result, RunnerError};

/// Checks that `caller`, as STS tells it, is a session of the role `role`.
///
/// # Errors
/// `identity-mismatch` for everybody else: another role, another account, a user, an assumed role's look-alike.
pub(crate) fn check(caller: &str, role: &str) -> Result<()> {
    let is_role = session_of(caller).is_some_and(|session| role_of(role) == Some(session));
    if is_role {
        Ok(())
    } else {
        let detail = format!("the task runs as `{caller}`, and the order is for `{role}`");
        Err(RunnerError::failed(FailureReason::IdentityMismatch, detail))
    }
}

/// Partition, account and role name.
type Role<'a> = (&'a str, &'a str, &'a str);

/// `arn:P:sts::A:assumed-role/NAME/SESSION`; the role's path does not show.
fn session_of(arn: &str) -> Option<Role<'_>> {
    let (partition, account, resource) = parts(arn, "sts")?;
    let (name, session) = resource.strip_prefix("assumed-role/")?.split_once('/')?;
    (!name.is_empty() && !session.is_empty() && !session.contains('/')).then_some((partition, account, name))
}

/// `arn:P:iam::A:role/PATH/NAME`.
fn role_of(arn: &str) -> Option<Role<'_>> {
    let (partition, account, resource) = parts(arn, "iam")?;
    let name = resource.strip_prefix("role/")?.rsplit('/').next()?;
    (!name.is_empty()).then_some((partition, account, name))
}

fn parts<'a>(arn: &'a str, service: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mut parts = arn.splitn(6, ':');
    let (prefix, partition, found, region) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (account, resource) = (parts.next()?, parts.next()?);
    let well_formed = prefix == "arn" && found == service && region.is_empty() && !account.is_empty();
    well_formed.then_some((partition, account, resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_of_the_very_role_is_it() {
        let role = "arn:aws:iam::123456789012:role/plangate/plan/ws-1-plan";
        check("arn:aws:sts::123456789012:assumed-role/ws-1-plan/8f2c", role).unwrap();
        for stranger in [
            "arn:aws:sts::123456789012:assumed-role/ws-1-apply/8f2c",
            "arn:aws:sts::210987654321:assumed-role/ws-1-plan/8f2c",
            "arn:aws-cn:sts::123456789012:assumed-role/ws-1-plan/8f2c",
            "arn:aws:sts::123456789012:assumed-role/ws-1-plan",
            "arn:aws:sts::123456789012:assumed-role/ws-1-plan/",
            "arn:aws:sts::123456789012:assumed-role/x/ws-1-plan",
            "arn:aws:iam::123456789012:role/plangate/plan/ws-1-plan",
            "arn:aws:iam::123456789012:user/ws-1-plan",
            "arn:aws:iam::123456789012:root",
            "arn:aws:sts::123456789012:federated-user/ws-1-plan",
            "",
        ] {
            let error = check(stranger, role).unwrap_err();
            assert!(
                matches!(error, RunnerError::Failed { reason: FailureReason::IdentityMismatch, .. }),
                "`{stranger}`"
            );
        }
    }
}
