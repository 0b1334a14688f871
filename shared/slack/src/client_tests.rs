//! Calls against a small server that says what it is told to.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

const PATIENCE: Duration = Duration::from_millis(300);

/// An answer over HTTP.
fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A server that answers one request with `answer`, and gives what it was asked. Without an answer it is silent.
fn server(answer: String) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}/api", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut piece = [0; 4096];
        let whole = |asked: &[u8]| {
            let text = String::from_utf8_lossy(asked).to_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            length.is_some_and(|length: usize| body.len() >= length)
        };
        while !whole(&asked) {
            let read = stream.read(&mut piece).unwrap();
            asked.extend_from_slice(&piece[..read]);
        }
        if answer.is_empty() {
            // Until the client has had enough.
            let _ = stream.read(&mut piece);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (api, asked)
}

fn client(api: &str) -> Client {
    Client::new(api, Token::new("xoxb-secret").unwrap(), PATIENCE).unwrap()
}

fn message() -> Message {
    Message { text: "A change waits".to_owned(), blocks: vec![section("all of it")] }
}

#[tokio::test]
async fn a_message_is_posted_as_json_under_the_token_and_markup_is_off() {
    let (api, asked) = server(answer("200 OK", "", r#"{"ok": true, "ts": "1548261231.0002", "channel": "C0CHANGES"}"#));
    assert_eq!(client(&api).post("C0CHANGES", &message()).await.unwrap(), "1548261231.0002");
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /api/chat.postMessage HTTP/1.1\r\n"), "{asked}");
    assert!(asked.to_lowercase().contains("authorization: bearer xoxb-secret\r\n"), "{asked}");
    assert!(asked.contains(r#""parse":"none""#) && asked.contains(r#""unfurl_links":false"#), "{asked}");
    let (api, _asked) = server(answer("200 OK", "", r#"{"ok": true}"#));
    assert_eq!(client(&api).post("C0CHANGES", &message()).await.unwrap_err().code(), "no_timestamp");
}

#[tokio::test]
async fn what_a_person_is_told_is_shown_as_it_is() {
    let (api, asked) = server(answer("200 OK", "", r#"{"ok": true}"#));
    client(&api).tell("C0CHANGES", "U0BOB0000", "<!channel> & more").await.unwrap();
    let asked = asked.join().unwrap();
    assert!(asked.contains(r#""text":"&lt;!channel&gt; &amp; more""#), "{asked}");
}

#[tokio::test]
async fn each_failure_is_one_that_may_pass_or_one_that_will_not() {
    let error = |code: &str| answer("200 OK", "", &format!(r#"{{"ok": false, "error": "{code}"}}"#));
    for (answer, expected) in [
        (answer("429 Too Many Requests", "retry-after: 7\r\n", ""), ("ratelimited", Some(Some(7)))),
        (answer("503 Service Unavailable", "", ""), ("http_503", Some(None))),
        (answer("302 Found", "location: http://127.0.0.1:1/\r\n", ""), ("http_302", Some(None))),
        (answer("200 OK", "", "<ok>"), ("no_answer", Some(None))),
        (String::new(), ("timeout", Some(None))),
        (error("internal_error"), ("internal_error", Some(None))),
        (error("token_revoked"), ("token_revoked", Some(None))),
        (error("channel_not_found"), ("channel_not_found", None)),
        (error("<a secret?>"), ("unknown", None)),
        (answer("200 OK", "", r#"{"ok": false}"#), ("unknown", None)),
    ] {
        let (api, _asked) = server(answer.clone());
        let error = client(&api).update("C0CHANGES", "1.2", &message()).await.unwrap_err();
        let found = match &error {
            CallError::Later { code, after } => (code.as_str(), Some(*after)),
            CallError::Never { code } => (code.as_str(), None),
        };
        assert_eq!(found, expected, "{answer}");
    }
    assert_eq!(client("http://127.0.0.1:1/api").open("1.2", &json!({})).await.unwrap_err().code(), "no_answer");
}

#[test]
fn a_token_goes_to_no_other_machine_unprotected_and_is_shown_nowhere() {
    let token = || Token::new(" xoxb-secret\n").unwrap();
    for api in ["http://slack.com/api", "slack.com", "ftp://slack.com/api", "https://slack.com/api?x=1", ""] {
        assert!(Client::new(api, token(), PATIENCE).is_err(), "`{api}`");
    }
    let client = Client::new("https://slack.com/api", token(), PATIENCE).unwrap();
    assert!(!format!("{client:?}").contains("xoxb"));
    assert!(Token::new("").is_none() && Token::new("two words").is_none());
}
