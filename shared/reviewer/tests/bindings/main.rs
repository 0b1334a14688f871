//! The bindings against a scripted server: what is sent, and what becomes of whatever comes back (`R38`-`R41`).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails in the shortest way")]

mod answers;
mod server;

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use plangate_gate::documents::Budgets;
use plangate_gate::review::{Cause, Tokens};
use plangate_reviewer::{Anthropic, Key, Model, OpenAi, Report, Submission, Surroundings, ask, prompt_record};
use serde_json::json;

use answers::{Shape, VERDICT};
use server::{Says, Server};

const SUBMISSION: Submission<'static> =
    Submission { projection: br#"{"format":1,"resources":[]}"#, policy: "Tags may change." };
const KEY: &str = "sk-hunter2";

/// Surroundings whose clock is moved by pauses alone.
#[derive(Default)]
struct Still {
    paused: Mutex<Vec<Duration>>,
}

#[async_trait]
impl Surroundings for Still {
    fn elapsed(&self) -> Duration {
        self.paused.lock().unwrap().iter().sum()
    }
    async fn pause(&self, length: Duration) {
        self.paused.lock().unwrap().push(length);
    }
    fn random(&self) -> Option<[u8; 16]> {
        Some([7; 16])
    }
}

fn model(shape: Shape, address: &str) -> Box<dyn Model> {
    let key = Key::new(KEY).unwrap();
    match shape {
        Shape::Anthropic => Box::new(Anthropic::new("model-1", Some(address), key)),
        Shape::OpenAi => Box::new(OpenAi::new("model-1", &format!("{address}/v1/"), Some(key))),
    }
}

const BUDGETS: Budgets = Budgets { seconds: 30, attempts: 2, tokens: 50_000 };

async fn asked(shape: Shape, script: &[Says], budgets: Budgets) -> (Report, Server) {
    let server = Server::new(script);
    let report = ask(&*model(shape, &server.address), &SUBMISSION, &budgets, &Still::default()).await;
    (report, server)
}

#[tokio::test]
async fn a_verdict_comes_back_as_it_was_said_with_all_that_is_recorded() {
    for shape in Shape::ALL {
        let (report, server) = asked(shape, &[shape.says(VERDICT)], BUDGETS).await;
        assert_eq!(report.answer.as_deref(), Ok(VERDICT), "{shape:?}");
        let told = report.model.unwrap();
        assert_eq!((told.requested.as_str(), told.answered.as_deref()), ("model-1", Some("model-1-20261130")));
        assert_eq!(report.tokens, Some(Tokens { input: 1200, output: 80 }));
        assert_eq!((report.attempts, report.prompt), (1, Some(prompt_record())));
        let [request] = server.got().try_into().unwrap();
        let secret = request.head.matches(KEY).count();
        assert_eq!(secret, 1, "the key is in its header: {}", request.head);
        assert!(!request.body.to_string().contains(KEY));
    }
}

/// What a model is given: two texts, one tool that it must call, and a bound; no document, no outcome, no threshold.
#[tokio::test]
async fn a_model_is_given_the_prompt_and_the_one_tool_and_nothing_else() {
    let (_, server) = asked(Shape::Anthropic, &[Shape::Anthropic.says(VERDICT)], BUDGETS).await;
    let [request] = server.got().try_into().unwrap();
    assert!(request.head.starts_with("POST /v1/messages HTTP/1.1"));
    assert!(request.head.contains("anthropic-version: 2023-06-01"));
    let fields: Vec<&String> = request.body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["max_tokens", "messages", "model", "system", "tool_choice", "tools"]);
    let choice = json!({"type": "tool", "name": "verdict", "disable_parallel_tool_use": true});
    assert_eq!(request.body["tool_choice"], choice);
    assert_eq!(request.body["tools"].as_array().unwrap().len(), 1);
    let text = request.body["messages"][0]["content"].as_str().unwrap();
    assert!(text.contains(r#"{"format":1,"resources":[]}"#) && text.contains("Tags may change."));

    let (_, server) = asked(Shape::OpenAi, &[Shape::OpenAi.says(VERDICT)], BUDGETS).await;
    let [request] = server.got().try_into().unwrap();
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", request.head);
    let fields: Vec<&String> = request.body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["max_tokens", "messages", "model", "parallel_tool_calls", "tool_choice", "tools"]);
    assert_eq!(request.body["tool_choice"], json!({"type": "function", "function": {"name": "verdict"}}));
    assert_eq!(request.body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(request.body["messages"][1]["content"].as_str().unwrap(), text, "every binding sends the same text");
}

#[tokio::test]
async fn a_local_model_without_a_key_is_sent_none() {
    let server = Server::new(&[Shape::OpenAi.says(VERDICT)]);
    let model = OpenAi::new("local", &server.address, None);
    ask(&model, &SUBMISSION, &BUDGETS, &Still::default()).await.answer.unwrap();
    assert!(!server.got()[0].head.to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn whatever_is_no_verdict_is_a_cause_and_is_not_asked_for_again() {
    for shape in Shape::ALL {
        for (name, says, cause) in shape.said_wrongly() {
            let (report, server) = asked(shape, &[says], BUDGETS).await;
            assert_eq!(report.answer, Err(cause), "{shape:?}: {name}");
            assert_eq!((report.attempts, server.got().len()), (1, 1), "{shape:?}: {name}");
        }
    }
}

#[tokio::test]
async fn a_model_that_is_away_is_asked_again_as_often_as_the_budget_says() {
    for shape in Shape::ALL {
        let error = |status| Says::Body(status, r#"{"type":"error","error":{"type":"x"}}"#.to_owned());
        let away = [
            (error(500), Cause::Unavailable),
            (error(529), Cause::Unavailable),
            (error(503), Cause::Unavailable),
            (error(408), Cause::Unavailable),
            (error(429), Cause::Throttled),
            (Says::Bytes(Vec::new()), Cause::Unavailable),
            (Says::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"cut".to_vec()), Cause::Unavailable),
            (Says::Bytes(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()), Cause::Unavailable),
        ];
        for (says, cause) in away {
            let budgets = Budgets { attempts: 3, tokens: 500_000, ..BUDGETS };
            let (report, server) = asked(shape, std::slice::from_ref(&says), budgets).await;
            assert_eq!(report.answer, Err(cause), "{shape:?}: {says:?}");
            assert_eq!((report.attempts, server.got().len()), (3, 3), "{shape:?}: {says:?}");
            let (report, _) = asked(shape, &[says, shape.says(VERDICT)], budgets).await;
            assert_eq!((report.answer.as_deref(), report.attempts), (Ok(VERDICT), 2), "{shape:?}");
        }
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_a_model_that_is_away() {
    for shape in Shape::ALL {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let report = ask(&*model(shape, &format!("http://{free}")), &SUBMISSION, &BUDGETS, &Still::default()).await;
        assert_eq!((report.answer, report.attempts), (Err(Cause::Unavailable), 2), "{shape:?}");
    }
}

#[tokio::test]
async fn a_model_that_does_not_come_to_the_end_is_left() {
    for shape in Shape::ALL {
        for says in [Says::Silence, Says::Trickle] {
            let budgets = Budgets { seconds: 1, attempts: 1, ..BUDGETS };
            let (report, _) = asked(shape, std::slice::from_ref(&says), budgets).await;
            assert_eq!(report.answer, Err(Cause::TimedOut), "{shape:?}: {says:?}");
        }
    }
}

#[tokio::test]
async fn pauses_and_attempts_end_with_the_time_budget() {
    let unavailable = Says::Body(503, String::new());
    let budgets = Budgets { seconds: 2, attempts: 5, tokens: 1_000_000 };
    let (report, server) = asked(Shape::OpenAi, &[unavailable], budgets).await;
    // Half a second, one second; then there is less time left than an attempt gets.
    assert_eq!((report.answer, server.got().len()), (Err(Cause::TimedOut), 2));
    assert_eq!(report.milliseconds, 1500);
}

#[tokio::test]
async fn tokens_are_bounded_before_a_call_and_counted_after_it() {
    for shape in Shape::ALL {
        let few = Budgets { tokens: 1000, ..BUDGETS };
        let (report, server) = asked(shape, &[shape.says(VERDICT)], few).await;
        assert_eq!((report.answer, server.got().len()), (Err(Cause::TokenBudget), 0), "{shape:?}: not even asked");
        let (_, server) = asked(shape, &[shape.says(VERDICT)], Budgets { tokens: 4000, ..BUDGETS }).await;
        let most = server.got()[0].body["max_tokens"].as_u64().unwrap();
        assert!((512..4000).contains(&most), "{shape:?}: {most}");
        let (report, _) = asked(shape, &[shape.used(60_000)], BUDGETS).await;
        assert_eq!(report.answer, Err(Cause::TokenBudget), "{shape:?}: it says that it used more");
        // What nobody counted counts as used.
        let (report, server) =
            asked(shape, &[Says::Body(503, String::new())], Budgets { tokens: 10_000, attempts: 5, ..BUDGETS }).await;
        assert_eq!((report.answer, server.got().len()), (Err(Cause::TokenBudget), 1), "{shape:?}");
    }
}

#[test]
fn a_key_that_could_break_out_of_its_header_is_none_and_no_key_is_shown() {
    for bad in ["", " ", "a b", "a\r\nx-admin: 1", "schlüssel", "a\u{0}b"] {
        assert!(Key::new(bad).is_none(), "{bad:?}");
    }
    let key = Key::new(" sk-hunter2\n").unwrap();
    assert!(!format!("{key:?}").contains("hunter2"));
    let model = Anthropic::new("m", None, key);
    assert!(!format!("{model:?}").contains("hunter2"));
}
