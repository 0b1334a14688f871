//! How to find in CloudTrail who has changed a state around the gate: the gate sees that it was changed, AWS sees by whom.

use plangate_gate::documents::WorkspaceSpec;
use plangate_gate::ids::WorkspaceId;
use plangate_gate::time::Timestamp;
use plangate_wire::Step;

/// How long before a change somebody may have taken the role that made it, in seconds: the longest session that IAM gives.
const SESSION: u32 = 12 * 3600;

/// What to ask CloudTrail about a change that happened `from` then `to` then.
pub(crate) fn who(workspace: &WorkspaceId, spec: &WorkspaceSpec, from: Timestamp, to: Timestamp) -> Vec<Step> {
    let taken = from.minus_seconds(SESSION);
    let role = format!("role/plangate/break-glass/{workspace}-break-glass");
    let (region, bucket, key) = (&spec.state.region, &spec.state.bucket, &spec.state.key);
    let events = format!(
        "aws cloudtrail lookup-events --region {region} --start-time {taken} --end-time {to} \
         --lookup-attributes AttributeKey=EventName,AttributeValue=AssumeRole \
         --query \"Events[?contains(CloudTrailEvent, '{role}')].[EventTime, Username, CloudTrailEvent]\" --output text"
    );
    let query = format!(
        "SELECT eventtime, useridentity.arn AS who, eventname, requestparameters, sourceipaddress FROM cloudtrail_logs \
         WHERE (eventname = 'AssumeRole' AND eventtime BETWEEN '{taken}' AND '{to}' \
         AND json_extract_scalar(requestparameters, '$.roleArn') LIKE '%:{role}') \
         OR (eventname IN ('PutObject', 'CopyObject', 'CompleteMultipartUpload', 'DeleteObject', 'DeleteObjects') \
         AND eventtime BETWEEN '{from}' AND '{to}' \
         AND json_extract_scalar(requestparameters, '$.bucketName') = '{}' \
         AND coalesce(json_extract_scalar(requestparameters, '$.key'), '{key}') = '{key}') ORDER BY eventtime",
        quoted(bucket),
        key = quoted(key)
    );
    vec![
        Step {
            what: "who took the workspace's break-glass role (the last 90 days; also in the region of the STS endpoint that \
                   people use, us-east-1 for the global one)"
                .to_owned(),
            command: events,
        },
        Step {
            what: "the same in Athena, with the writes of the state object, whoever made them (a trail with S3 data events \
                   has those)"
                .to_owned(),
            command: query,
        },
    ]
}

/// Text inside quotes of SQL.
fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_reaches_back_a_session_for_who_took_the_role_and_no_further_for_who_wrote() {
        let id = WorkspaceId::new([5; 10]);
        let spec = serde_json::from_value(serde_json::json!({
            "name": "payments", "engine": {"name": "opentofu", "version": "1.11.6"},
            "state": {"bucket": "plangate-ws-x", "key": "state/it's.tfstate", "region": "eu-central-1"},
            "plan_role": "p", "apply_role": "a", "sealed_bucket": "b", "sealed_key": "k", "policy": "default"
        }));
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let asked = who(&id, &spec.unwrap(), at("2026-11-30T05:00:00Z"), at("2026-11-30T06:00:00Z"));
        let [events, query] = asked.as_slice() else { panic!("{asked:?}") };
        for part in
            ["--start-time 2026-11-29T17:00:00Z", "--end-time 2026-11-30T06:00:00Z", &format!("{id}-break-glass")]
        {
            assert!(events.command.contains(part), "{part}: {}", events.command);
        }
        let written = "BETWEEN '2026-11-30T05:00:00Z' AND '2026-11-30T06:00:00Z'";
        for part in [written, "'$.bucketName') = 'plangate-ws-x'", "'state/it''s.tfstate'"] {
            assert!(query.command.contains(part), "{part}: {}", query.command);
        }
    }
}
