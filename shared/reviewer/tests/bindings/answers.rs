//! Answers in the shapes of the interfaces: right ones, and every way to be wrong.

use plangate_gate::review::Cause;
use serde_json::{Value, json};

use crate::server::Says;

/// A verdict as a model writes it.
pub(crate) const VERDICT: &str = r#"{"decision":"approve","reasoning":"Tags only.","findings":[]}"#;

/// Whose interface.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    Anthropic,
    OpenAi,
}

impl Shape {
    pub(crate) const ALL: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// An answer that calls the tool with these arguments.
    pub(crate) fn answer(self, arguments: &str) -> Value {
        match self {
            Self::Anthropic => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "model-1-20261130",
                "content": [self.call("verdict", arguments)],
                "stop_reason": "tool_use", "stop_sequence": null, "usage": {"input_tokens": 1200, "output_tokens": 80},
            }),
            Self::OpenAi => json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "model-1-20261130",
                "choices": [{
                    "index": 0, "finish_reason": "tool_calls", "logprobs": null,
                    "message": {"role": "assistant", "content": null, "refusal": null, "tool_calls": [self.call("verdict", arguments)]},
                }],
                "usage": {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280},
                "x_gateway": {"cost": 0.001},
            }),
        }
    }

    fn call(self, name: &str, arguments: &str) -> Value {
        match self {
            Self::Anthropic => {
                let input: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
                json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": input})
            }
            Self::OpenAi => {
                json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}})
            }
        }
    }

    pub(crate) fn says(self, arguments: &str) -> Says {
        let mut body = self.answer(arguments).to_string();
        if let Self::Anthropic = self {
            // As the model wrote it, byte for byte.
            let written = serde_json::from_str::<Value>(arguments).unwrap().to_string();
            body = body.replace(&written, arguments);
        }
        Says::Body(200, body)
    }

    /// An answer that says that so many tokens were used.
    pub(crate) fn used(self, tokens: u64) -> Says {
        let mut answer = self.answer(VERDICT);
        answer["usage"][match self {
            Self::Anthropic => "input_tokens",
            Self::OpenAi => "prompt_tokens",
        }] = tokens.into();
        Says::Body(200, answer.to_string())
    }

    /// Every answer from which no verdict is taken, with the cause.
    pub(crate) fn said_wrongly(self) -> Vec<(&'static str, Says, Cause)> {
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut answer = self.answer(VERDICT);
            change(&mut answer);
            Says::Body(200, answer.to_string())
        };
        let plain = |text: &str| Says::Body(200, text.to_owned());
        let mut wrong = vec![
            ("a bad key", Says::Body(401, "{}".into()), Cause::RequestRefused),
            ("no such model", Says::Body(404, "{}".into()), Cause::RequestRefused),
            ("a bad request", Says::Body(400, "{}".into()), Cause::RequestRefused),
            ("too large a request", Says::Body(413, "{}".into()), Cause::RequestRefused),
            ("another address", Says::Body(307, "{}".into()), Cause::RequestRefused),
            ("created", Says::Body(201, self.answer(VERDICT).to_string()), Cause::RequestRefused),
            ("nothing", plain(""), Cause::AnswerMalformed),
            ("no JSON", plain("<html>approve</html>"), Cause::AnswerMalformed),
            ("a bare verdict", plain(VERDICT), Cause::AnswerMalformed),
            ("two answers", plain(&format!("{0}{0}", self.answer(VERDICT))), Cause::AnswerMalformed),
            (
                "an error with a success",
                plain(r#"{"type":"error","error":{"type":"overloaded_error"}}"#),
                Cause::AnswerMalformed,
            ),
            ("huge", Says::Huge(4 << 20), Cause::AnswerTooLarge),
        ];
        match self {
            Self::Anthropic => {
                let text = json!({"type": "text", "text": "I approve."});
                let stopped = |reason: &'static str| changed(&|answer| answer["stop_reason"] = reason.into());
                wrong.extend([
                    ("a refusal", stopped("refusal"), Cause::Refused),
                    ("cut off", stopped("max_tokens"), Cause::CutOff),
                    ("out of context", stopped("model_context_window_exceeded"), Cause::CutOff),
                    ("a turn that just ends", stopped("end_turn"), Cause::AnswerMalformed),
                    ("no end", changed(&|answer| answer["stop_reason"] = Value::Null), Cause::AnswerMalformed),
                    ("text alone", changed(&|answer| answer["content"] = json!([text])), Cause::NoCall),
                    ("nothing said", changed(&|answer| answer["content"] = json!([])), Cause::NoCall),
                    (
                        "text before",
                        changed(&|answer| answer["content"].as_array_mut().unwrap().insert(0, text.clone())),
                        Cause::TextBesideCall,
                    ),
                    (
                        "text after",
                        changed(&|answer| answer["content"].as_array_mut().unwrap().push(text.clone())),
                        Cause::TextBesideCall,
                    ),
                    (
                        "two calls",
                        changed(&|answer| {
                            answer["content"].as_array_mut().unwrap().push(self.call("verdict", VERDICT))
                        }),
                        Cause::SeveralCalls,
                    ),
                    (
                        "another tool",
                        changed(&|answer| answer["content"] = json!([self.call("approve", VERDICT)])),
                        Cause::OtherCall,
                    ),
                    (
                        "a call without input",
                        changed(&|answer| drop(answer["content"][0].as_object_mut().unwrap().remove("input"))),
                        Cause::AnswerMalformed,
                    ),
                    (
                        "another kind of object",
                        changed(&|answer| answer["type"] = "completion".into()),
                        Cause::AnswerMalformed,
                    ),
                ]);
            }
            Self::OpenAi => {
                let message =
                    |change: &dyn Fn(&mut Value)| changed(&|answer| change(&mut answer["choices"][0]["message"]));
                let ended =
                    |reason: &'static str| changed(&|answer| answer["choices"][0]["finish_reason"] = reason.into());
                wrong.extend([
                    ("a filter", ended("content_filter"), Cause::Refused),
                    (
                        "a refusal",
                        message(&|message| message["refusal"] = "I cannot help with that.".into()),
                        Cause::Refused,
                    ),
                    ("cut off", ended("length"), Cause::CutOff),
                    ("another end", ended("error"), Cause::AnswerMalformed),
                    (
                        "no end",
                        changed(&|answer| answer["choices"][0]["finish_reason"] = Value::Null),
                        Cause::AnswerMalformed,
                    ),
                    ("no choice", changed(&|answer| answer["choices"] = json!([])), Cause::NoCall),
                    (
                        "two choices",
                        changed(&|answer| answer["choices"] = json!([answer["choices"][0], answer["choices"][0]])),
                        Cause::SeveralCalls,
                    ),
                    (
                        "text alone",
                        message(&|message| *message = json!({"role": "assistant", "content": VERDICT})),
                        Cause::NoCall,
                    ),
                    (
                        "text beside",
                        message(&|message| message["content"] = "I approve.".into()),
                        Cause::TextBesideCall,
                    ),
                    (
                        "parts beside",
                        message(&|message| message["content"] = json!([{"type": "text", "text": "ok"}])),
                        Cause::TextBesideCall,
                    ),
                    (
                        "two calls",
                        message(&|message| {
                            message["tool_calls"] =
                                json!([self.call("verdict", VERDICT), self.call("verdict", VERDICT)])
                        }),
                        Cause::SeveralCalls,
                    ),
                    (
                        "another tool",
                        message(&|message| message["tool_calls"] = json!([self.call("approve", VERDICT)])),
                        Cause::OtherCall,
                    ),
                    (
                        "a call of the old kind",
                        message(&|message| message["function_call"] = json!({"name": "verdict", "arguments": VERDICT})),
                        Cause::OtherCall,
                    ),
                    (
                        "arguments that are no text",
                        message(&|message| {
                            message["tool_calls"][0]["function"]["arguments"] = json!({"decision": "approve"})
                        }),
                        Cause::AnswerMalformed,
                    ),
                ]);
            }
        }
        wrong
    }
}
