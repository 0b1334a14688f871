//! Who somebody is, by the ARN that STS tells (`R16`, `R18`).

/// Whether `caller` is a session of the role `role`, both as ARNs: the same partition, account and role name. The role's
/// path does not show in a session.
///
/// Nobody else is: no other role or account, no user, not the role itself, no look-alike.
#[must_use]
pub fn is_session_of(caller: &str, role: &str) -> bool {
    session(caller).is_some_and(|session| self::role(role) == Some(session))
}

/// Partition, account and role name.
type Role<'a> = (&'a str, &'a str, &'a str);

/// `arn:P:sts::A:assumed-role/NAME/SESSION`.
fn session(arn: &str) -> Option<Role<'_>> {
    let (partition, account, resource) = parts(arn, "sts")?;
    let (name, session) = resource.strip_prefix("assumed-role/")?.split_once('/')?;
    (!name.is_empty() && !session.is_empty() && !session.contains('/')).then_some((partition, account, name))
}

/// `arn:P:iam::A:role/PATH/NAME`.
fn role(arn: &str) -> Option<Role<'_>> {
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
        assert!(is_session_of("arn:aws:sts::123456789012:assumed-role/ws-1-plan/8f2c", role));
        for stranger in [
            "arn:aws:sts::123456789012:assumed-role/ws-1-apply/8f2c",
            "arn:aws:sts::210987654321:assumed-role/ws-1-plan/8f2c",
            "arn:aws-cn:sts::123456789012:assumed-role/ws-1-plan/8f2c",
            "arn:aws:sts::123456789012:assumed-role/ws-1-plan",
            "arn:aws:sts::123456789012:assumed-role/ws-1-plan/",
            "arn:aws:sts::123456789012:assumed-role/x/ws-1-plan",
            "x:assumed-role/ws-1-plan/8f2c:sts:123456789012:assumed-role/ws-1-plan/8f2c",
            "arn:aws:iam::123456789012:role/plangate/plan/ws-1-plan",
            "arn:aws:iam::123456789012:user/ws-1-plan",
            "arn:aws:iam::123456789012:root",
            "arn:aws:sts::123456789012:federated-user/ws-1-plan",
            "",
        ] {
            assert!(!is_session_of(stranger, role), "`{stranger}`");
        }
        for no_role in ["arn:aws:iam::123456789012:user/ws-1-plan", "ws-1-plan", ""] {
            assert!(!is_session_of("arn:aws:sts::123456789012:assumed-role/ws-1-plan/8f2c", no_role), "`{no_role}`");
        }
    }
}
