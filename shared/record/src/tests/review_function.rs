//! A workspace's own review function: its model, its key, its projections, and nothing else (`R21`, `R39`).

use std::sync::Mutex;

use async_trait::async_trait;
use plangate_gate::digest::Digest;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::review::Cause;
use plangate_reviewer::function::{RequestSchema, ReviewAnswer, ReviewRequest};
use plangate_reviewer::{Key, Live, Submission, prompt_record};
use serde_json::json;

use super::model_server::{Says, Server};
use super::world::at;
use crate::memory::MemoryObjects;
use crate::objects::projection_key;
use crate::review_function::{Keys, answer};

const PROJECTION: &[u8] =
    br#"{"counts":{"create":0,"delete":0,"replace":0,"update":0},"format":1,"outputs":[],"resources":[]}"#;
const VERDICT: &str = r#"{"decision":"approve","reasoning":"","findings":[]}"#;

#[derive(Default)]
struct Cupboard(Mutex<Vec<String>>);

#[async_trait]
impl Keys for Cupboard {
    async fn key(&self, parameter: &str) -> Result<Key, Cause> {
        self.0.lock().unwrap().push(parameter.to_owned());
        if parameter.ends_with("/key") {
            Key::new("sk-1").ok_or(Cause::KeyUnavailable)
        } else {
            Err(Cause::KeyUnavailable)
        }
    }
}

async fn asked(reviewer: serde_json::Value, projection: &[u8], of: &WorkspaceId) -> (ReviewAnswer, Cupboard) {
    let (workspace, run) = (WorkspaceId::new([5; 10]), RunId::new(at(0), [1; 10]));
    let (objects, keys) = (MemoryObjects::default(), Cupboard::default());
    objects.replace(&projection_key(of, &run), projection);
    let request = ReviewRequest {
        schema: RequestSchema::V1,
        run,
        projection: Digest::of(PROJECTION),
        policy: "prose".into(),
        reviewer: serde_json::from_value(reviewer).unwrap(),
    };
    let surroundings = Live::new(|| Some([9; 16]));
    (answer(&objects, &keys, &surroundings, &workspace, &request).await, keys)
}

fn server() -> Server {
    let call = json!({"type": "tool_use", "id": "t", "name": "verdict", "input": {"decision": "approve", "reasoning": "", "findings": []}});
    let anthropic = json!({"type": "message", "model": "m", "stop_reason": "tool_use", "content": [call], "usage": {"input_tokens": 9, "output_tokens": 9}});
    Server::new(&[Says::Body(200, anthropic.to_string())])
}

#[tokio::test]
async fn it_asks_its_model_with_its_key_and_tells_what_was_said() {
    let (server, ours) = (server(), WorkspaceId::new([5; 10]));
    let parameter = format!("/plangate/reviewer/{ours}/key");
    let reviewer =
        json!({"binding": "anthropic", "model": "m", "key_parameter": parameter, "base_url": server.address});
    let (answer, keys) = asked(reviewer, PROJECTION, &ours).await;
    let read = ReviewAnswer::read_untrusted(
        &serde_json::to_vec(&answer).unwrap(),
        &Submission { projection: PROJECTION, policy: "prose" },
    );
    let verdict: serde_json::Value = serde_json::from_str(&read.answer.unwrap()).unwrap();
    assert_eq!(verdict, serde_json::from_str::<serde_json::Value>(VERDICT).unwrap());
    assert_eq!((read.prompt, read.attempts), (Some(prompt_record()), 1));
    assert_eq!(keys.0.into_inner().unwrap(), [parameter]);
    assert!(!serde_json::to_string(&answer).unwrap().contains("sk-1"));
    assert!(server.got()[0].body.to_string().contains("prose"));
}

#[tokio::test]
async fn another_projection_than_the_named_one_is_not_sent() {
    let (ours, theirs) = (WorkspaceId::new([5; 10]), WorkspaceId::new([6; 10]));
    for (projection, of) in [(&b"{}"[..], &ours), (PROJECTION, &theirs)] {
        let server = server();
        let reviewer = json!({"binding": "openai-compatible", "model": "m", "base_url": server.address});
        let (answer, _) = asked(reviewer, projection, of).await;
        assert_eq!((answer.cause, answer.verdict), (Some(Cause::ProjectionDiffers), None));
        assert!(server.got().is_empty());
    }
}

#[tokio::test]
async fn without_its_key_nothing_is_sent() {
    let (server, ours) = (server(), WorkspaceId::new([5; 10]));
    let reviewer =
        json!({"binding": "anthropic", "model": "m", "key_parameter": "/elsewhere", "base_url": server.address});
    let (answer, _) = asked(reviewer, PROJECTION, &ours).await;
    assert_eq!((answer.cause, server.got().len()), (Some(Cause::KeyUnavailable), 0));
}

#[tokio::test]
async fn a_binding_that_is_not_its_own_is_not_asked() {
    let ours = WorkspaceId::new([5; 10]);
    for binding in [json!({"binding": "bedrock", "model": "m"}), json!({"binding": "always-escalate"})] {
        assert_eq!(asked(binding, PROJECTION, &ours).await.0.cause, Some(Cause::FunctionFailed));
    }
}
