//! The binding for the chat API that OpenAI made common, and that gateways and local models speak.

use std::time::Duration;

use async_trait::async_trait;
use plangate_gate::review::{Cause, Tokens};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::ask::{Answer, Model};
use crate::http::{Key, join, post};
use crate::prompt::{Prompt, TOOL_NAME, tool_description, tool_schema};

/// A model behind the chat API.
#[derive(Debug)]
pub struct OpenAi {
    model: String,
    address: String,
    key: Option<Key>,
}

impl OpenAi {
    /// The model with this id at this base address, with a key where it asks for one.
    #[must_use]
    pub fn new(model: &str, address: &str, key: Option<Key>) -> Self {
        Self { model: model.to_owned(), address: address.to_owned(), key }
    }
}

#[async_trait]
impl Model for OpenAi {
    fn binding(&self) -> &'static str {
        "openai-compatible"
    }

    fn id(&self) -> &str {
        &self.model
    }

    async fn call(&self, prompt: &Prompt, tokens: u64, within: Duration) -> Result<Answer, Cause> {
        let function = json!({ "name": TOOL_NAME, "description": tool_description(), "parameters": tool_schema() });
        let body = json!({
            "model": self.model,
            "max_tokens": tokens,
            "messages": [
                { "role": "system", "content": prompt.system() },
                { "role": "user", "content": prompt.user() },
            ],
            "tools": [{ "type": "function", "function": function }],
            "tool_choice": { "type": "function", "function": { "name": TOOL_NAME } },
            "parallel_tool_calls": false,
        });
        let key = self.key.as_ref().map(|key| key.header("Bearer ")).transpose()?;
        let headers = key.map(|key| ("authorization", key)).into_iter().collect();
        let address = join(&self.address, "/chat/completions");
        read(&post(address, headers, body.to_string().into_bytes(), within).await?)
    }
}

/// A completion, as far as it is of interest. Each server adds fields of its own; a verdict may not.
#[derive(Deserialize)]
struct Completion {
    model: Option<String>,
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    finish_reason: Option<String>,
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    function_call: Value,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

fn read(bytes: &[u8]) -> Result<Answer, Cause> {
    let completion: Completion = serde_json::from_slice(bytes).map_err(|_| Cause::AnswerMalformed)?;
    let Completion { model, choices, usage } = completion;
    let tokens = usage.map(|usage| Tokens { input: usage.prompt_tokens, output: usage.completion_tokens });
    let verdict = match <[Choice; 1]>::try_from(choices) {
        Ok([choice]) => verdict(choice),
        Err(choices) if choices.is_empty() => Err(Cause::NoCall),
        Err(_) => Err(Cause::SeveralCalls),
    };
    Ok(Answer { verdict, model, tokens })
}

fn verdict(choice: Choice) -> Result<String, Cause> {
    let said = |value: &Value| !(value.is_null() || value.as_str().is_some_and(str::is_empty));
    let Message { content, refusal, function_call, tool_calls } = choice.message;
    match choice.finish_reason.as_deref() {
        Some("content_filter") => return Err(Cause::Refused),
        Some("length") => return Err(Cause::CutOff),
        // A forced call ends with the one or the other, by server.
        Some("tool_calls" | "stop") => {}
        _ => return Err(Cause::AnswerMalformed),
    }
    if said(&refusal) {
        return Err(Cause::Refused);
    }
    if said(&function_call) {
        return Err(Cause::OtherCall);
    }
    let mut calls = tool_calls.unwrap_or_default();
    let call = match (calls.pop(), calls.is_empty()) {
        (None, _) => return Err(Cause::NoCall),
        (Some(call), true) => call,
        (Some(_), false) => return Err(Cause::SeveralCalls),
    };
    if said(&content) {
        return Err(Cause::TextBesideCall);
    }
    match call.function {
        Some(Function { name, arguments }) if name == TOOL_NAME => Ok(arguments),
        _ => Err(Cause::OtherCall),
    }
}
