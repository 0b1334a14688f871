//! The binding for Anthropic's Messages API.

use std::time::Duration;

use async_trait::async_trait;
use http::HeaderValue;
use plangate_gate::review::{Cause, Tokens};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::ask::{Answer, Model, only_call};
use crate::http::{Key, join, post};
use crate::prompt::{Prompt, TOOL_NAME, tool_description, tool_schema};

const ADDRESS: &str = "https://api.anthropic.com";
/// The version of the interface that is spoken here.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A model behind the Messages API.
#[derive(Debug)]
pub struct Anthropic {
    model: String,
    address: String,
    key: Key,
}

impl Anthropic {
    /// The model with this id, at Anthropic's own address or at another.
    #[must_use]
    pub fn new(model: &str, address: Option<&str>, key: Key) -> Self {
        Self { model: model.to_owned(), address: address.unwrap_or(ADDRESS).to_owned(), key }
    }
}

#[async_trait]
impl Model for Anthropic {
    fn binding(&self) -> &'static str {
        "anthropic"
    }

    fn id(&self) -> &str {
        &self.model
    }

    async fn call(&self, prompt: &Prompt, tokens: u64, within: Duration) -> Result<Answer, Cause> {
        let body = json!({
            "model": self.model,
            "max_tokens": tokens,
            "system": prompt.system(),
            "messages": [{ "role": "user", "content": prompt.user() }],
            "tools": [{ "name": TOOL_NAME, "description": tool_description(), "input_schema": tool_schema() }],
            "tool_choice": { "type": "tool", "name": TOOL_NAME, "disable_parallel_tool_use": true },
        });
        let headers = vec![("x-api-key", self.key.header("")?), ("anthropic-version", VERSION)];
        let answer = post(join(&self.address, "/v1/messages"), headers, body.to_string().into_bytes(), within).await?;
        read(&answer)
    }
}

/// A message, as far as it is of interest. The interface may grow fields; a verdict may not.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: String,
    model: Option<String>,
    stop_reason: Option<String>,
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
}

fn read(bytes: &[u8]) -> Result<Answer, Cause> {
    let message: Message<'_> = serde_json::from_slice(bytes).map_err(|_| Cause::AnswerMalformed)?;
    let tokens = message.usage.as_ref().map(|usage| {
        let cached =
            usage.cache_creation_input_tokens.unwrap_or(0).saturating_add(usage.cache_read_input_tokens.unwrap_or(0));
        Tokens { input: usage.input_tokens.saturating_add(cached), output: usage.output_tokens }
    });
    Ok(Answer { verdict: verdict(&message), model: message.model, tokens })
}

fn verdict(message: &Message<'_>) -> Result<String, Cause> {
    match (message.kind.as_str(), message.stop_reason.as_deref()) {
        ("message", Some("refusal")) => return Err(Cause::Refused),
        ("message", Some("max_tokens" | "model_context_window_exceeded")) => return Err(Cause::CutOff),
        ("message", Some(_)) => {}
        _ => return Err(Cause::AnswerMalformed),
    }
    let calls: Vec<&Block<'_>> = message.content.iter().filter(|block| block.kind == "tool_use").collect();
    let call = only_call(&calls, message.content.len(), |call| call.name.as_deref())?;
    // Nobody else ends with a call that is meant.
    if message.stop_reason.as_deref() != Some("tool_use") {
        return Err(Cause::AnswerMalformed);
    }
    call.input.map(|input| input.get().to_owned()).ok_or(Cause::AnswerMalformed)
}
