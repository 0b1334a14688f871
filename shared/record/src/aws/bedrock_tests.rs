//! Converse through the SDK against a scripted server: what is sent, and what becomes of whatever comes back.

use std::time::Duration;

use aws_sdk_bedrockruntime::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_bedrockruntime::{Client, Config};
use plangate_gate::review::{Cause, Tokens};
use plangate_reviewer::{Answer, Model, Prompt, Submission};
use serde_json::{Value, json};

use super::bedrock::Bedrock;
use crate::tests::model_server::{Says, Server};

const VERDICT: &str = r#"{"decision":"approve","findings":[],"reasoning":"Tags only."}"#;

fn call(name: &str) -> Value {
    json!({"toolUse": {"toolUseId": "t-1", "name": name, "input": serde_json::from_str::<Value>(VERDICT).unwrap()}})
}

fn said(content: Value, stop: &str) -> Says {
    let body = json!({
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop,
        "usage": {"inputTokens": 1200, "outputTokens": 80, "totalTokens": 1280}, "metrics": {"latencyMs": 9},
    });
    Says::Body(200, body.to_string())
}

async fn asked(says: Says) -> (Result<Answer, Cause>, Server) {
    let server = Server::new(&[says]);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("AKIA", "secret", None, None, "test"))
        .endpoint_url(&server.address)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let model = Bedrock::new(Client::from_conf(config), "anthropic.model-1:0");
    let submission = Submission { projection: b"{}", policy: "prose" };
    let prompt = Prompt::new(&submission, &|| Some([7; 16])).unwrap();
    (model.call(&prompt, 900, Duration::from_secs(1)).await, server)
}

#[tokio::test]
async fn the_tool_is_forced_and_its_call_is_the_answer() {
    let (answer, server) = asked(said(json!([call("verdict")]), "tool_use")).await;
    let answer = answer.unwrap();
    assert_eq!((answer.verdict, answer.model), (Ok(VERDICT.to_owned()), None));
    assert_eq!(answer.tokens, Some(Tokens { input: 1200, output: 80 }));
    let [request] = server.got().try_into().unwrap();
    assert!(request.head.starts_with("POST /model/anthropic.model-1%3A0/converse"), "{}", request.head);
    assert!(request.head.contains("AWS4-HMAC-SHA256"), "signed under the function's own role");
    let fields: Vec<&String> = request.body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["inferenceConfig", "messages", "system", "toolConfig"]);
    assert_eq!(request.body["toolConfig"]["toolChoice"], json!({"tool": {"name": "verdict"}}));
    assert_eq!(request.body["toolConfig"]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(
        request.body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"],
        plangate_reviewer::tool_schema()
    );
    assert_eq!(request.body["inferenceConfig"], json!({"maxTokens": 900}));
    let text = request.body["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("prose") && text.contains("BEGIN projection"));
}

#[tokio::test]
async fn whatever_is_no_verdict_is_a_cause() {
    let text = json!({"text": "I approve."});
    let mut cases = vec![
        (said(json!([]), "end_turn"), Cause::NoCall),
        (said(json!([text]), "end_turn"), Cause::NoCall),
        (said(json!([text, call("verdict")]), "tool_use"), Cause::TextBesideCall),
        (said(json!([call("verdict"), call("verdict")]), "tool_use"), Cause::SeveralCalls),
        (said(json!([call("approve")]), "tool_use"), Cause::OtherCall),
        (said(json!([call("verdict")]), "end_turn"), Cause::AnswerMalformed),
        (said(json!([call("verdict")]), "max_tokens"), Cause::CutOff),
        (said(json!([call("verdict")]), "model_context_window_exceeded"), Cause::CutOff),
        (said(json!([call("verdict")]), "guardrail_intervened"), Cause::Refused),
        (said(json!([call("verdict")]), "content_filtered"), Cause::Refused),
        (said(json!([call("verdict")]), "refusal"), Cause::Refused),
        (said(json!([call("verdict")]), "something_new"), Cause::AnswerMalformed),
        (Says::Body(200, "{}".into()), Cause::AnswerMalformed),
        (Says::Body(200, "no JSON".into()), Cause::AnswerMalformed),
        (Says::Huge(4 << 20), Cause::AnswerMalformed),
        (Says::Bytes(Vec::new()), Cause::Unavailable),
        (Says::Silence, Cause::TimedOut),
        (Says::Trickle, Cause::TimedOut),
    ];
    cases.push((Says::Body(503, "{}".into()), Cause::Unavailable));
    cases.push((Says::Body(429, "{}".into()), Cause::Throttled));
    cases.push((Says::Body(403, "{}".into()), Cause::RequestRefused));
    let errors = [
        ("ThrottlingException", 429, Cause::Throttled),
        ("ModelTimeoutException", 408, Cause::TimedOut),
        ("InternalServerException", 500, Cause::Unavailable),
        ("ServiceUnavailableException", 503, Cause::Unavailable),
        ("ModelNotReadyException", 429, Cause::Unavailable),
        ("ModelErrorException", 424, Cause::Unavailable),
        ("AccessDeniedException", 403, Cause::RequestRefused),
        ("ResourceNotFoundException", 404, Cause::RequestRefused),
        ("ValidationException", 400, Cause::RequestRefused),
    ];
    for (name, status, cause) in errors {
        cases.push((Says::Body(status, json!({"__type": name, "message": "no"}).to_string()), cause));
    }
    for (says, cause) in cases {
        let (answer, server) = asked(says.clone()).await;
        assert_eq!(answer.and_then(|answer| answer.verdict).unwrap_err(), cause, "{says:?}");
        assert_eq!(server.got().len(), 1, "attempts are counted elsewhere: {says:?}");
    }
}

#[tokio::test]
async fn a_large_answer_is_no_verdict_for_whoever_reads_it() {
    let mut large = call("verdict");
    large["toolUse"]["input"]["reasoning"] = "x".repeat(1 << 20).into();
    let (answer, _) = asked(said(json!([large]), "tool_use")).await;
    let read = plangate_gate::verdict::Verdict::parse_untrusted(answer.unwrap().verdict.unwrap().as_bytes(), []);
    assert!(read.is_err());
}
