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
        bucket, key = quoted(key)
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
