//! The binding for Amazon Bedrock: Converse, with the verdict's tool forced, under the function's own role. No key is kept.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_bedrockruntime::Client;
use aws_sdk_bedrockruntime::config::retry::RetryConfig;
use aws_sdk_bedrockruntime::config::timeout::TimeoutConfig;
use aws_sdk_bedrockruntime::error::SdkError;
use aws_sdk_bedrockruntime::operation::converse::{ConverseError, ConverseOutput};
use aws_sdk_bedrockruntime::types::{
    ContentBlock, ConversationRole, InferenceConfiguration, Message, SpecificToolChoice, StopReason,
    SystemContentBlock, Tool, ToolChoice, ToolConfiguration, ToolInputSchema, ToolSpecification, ToolUseBlock,
};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::{Document, Number};
use plangate_gate::review::{Cause, Tokens};
use plangate_reviewer::{Answer, Model, Prompt, TOOL_NAME, only_call, tool_description, tool_schema};
use serde_json::Value;

/// A model on Bedrock.
#[derive(Debug)]
pub struct Bedrock {
    client: Client,
    model: String,
}

impl Bedrock {
    /// The model with this id or ARN.
    #[must_use]
    pub fn new(client: Client, model: &str) -> Self {
        Self { client, model: model.to_owned() }
    }
}

#[async_trait]
impl Model for Bedrock {
    fn binding(&self) -> &'static str {
        "bedrock"
    }

    fn id(&self) -> &str {
        &self.model
    }

    async fn call(&self, prompt: &Prompt, tokens: u64, within: Duration) -> Result<Answer, Cause> {
        let unmade = |_| Cause::RequestRefused;
        let message = Message::builder()
            .role(ConversationRole::User)
            .content(ContentBlock::Text(prompt.user().to_owned()))
            .build()
            .map_err(unmade)?;
        let tool = ToolSpecification::builder()
            .name(TOOL_NAME)
            .description(tool_description())
            .input_schema(ToolInputSchema::Json(document(&tool_schema())))
            .build()
            .map_err(unmade)?;
        let forced = SpecificToolChoice::builder().name(TOOL_NAME).build().map_err(unmade)?;
        let tools = ToolConfiguration::builder().tools(Tool::ToolSpec(tool)).tool_choice(ToolChoice::Tool(forced));
        let tools = tools.build().map_err(unmade)?;
        let most = InferenceConfiguration::builder().max_tokens(i32::try_from(tokens).unwrap_or(i32::MAX)).build();
        // Attempts are counted by whoever calls.
        let config = aws_sdk_bedrockruntime::config::Config::builder()
            .timeout_config(TimeoutConfig::builder().operation_timeout(within).build())
            .retry_config(RetryConfig::disabled());
        let call = self
            .client
            .converse()
            .model_id(&self.model)
            .system(SystemContentBlock::Text(prompt.system().to_owned()))
            .messages(message)
            .tool_config(tools)
            .inference_config(most);
        match call.customize().config_override(config).send().await {
            Ok(answer) => Ok(read(&answer)),
            Err(error) => {
                tracing::warn!(model = self.model, error = super::kind(&error), "the model did not answer");
                Err(cause(&error))
            }
        }
    }
}

/// What an error of the SDK says of the model: by its name, and by its status where it has no name that is known here.
fn cause(error: &SdkError<ConverseError, HttpResponse>) -> Cause {
    match error {
        SdkError::TimeoutError(_) => Cause::TimedOut,
        SdkError::DispatchFailure(_) => Cause::Unavailable,
        SdkError::ResponseError(_) => Cause::AnswerMalformed,
        SdkError::ServiceError(error) => match (error.err(), error.raw().status().as_u16()) {
            (ConverseError::ThrottlingException(_), _) => Cause::Throttled,
            (ConverseError::ModelTimeoutException(_), _) => Cause::TimedOut,
            (
                ConverseError::InternalServerException(_)
                | ConverseError::ServiceUnavailableException(_)
                | ConverseError::ModelErrorException(_)
                | ConverseError::ModelNotReadyException(_),
                _,
            ) => Cause::Unavailable,
            (_, 429) => Cause::Throttled,
            (_, 500..=599) => Cause::Unavailable,
            // A success that cannot be read.
            (_, 200..=299) => Cause::AnswerMalformed,
            _ => Cause::RequestRefused,
        },
        _ => Cause::RequestRefused,
    }
}

fn read(answer: &ConverseOutput) -> Answer {
    let count = |tokens: i32| u64::try_from(tokens).unwrap_or_default();
    // What a cache answered was read all the same.
    let tokens = answer.usage().map(|usage| Tokens {
        input: count(usage.input_tokens())
            + count(usage.cache_read_input_tokens().unwrap_or_default())
            + count(usage.cache_write_input_tokens().unwrap_or_default()),
        output: count(usage.output_tokens()),
    });
    Answer { verdict: verdict(answer), model: None, tokens }
}

fn verdict(answer: &ConverseOutput) -> Result<String, Cause> {
    match answer.stop_reason() {
        StopReason::ToolUse | StopReason::EndTurn | StopReason::StopSequence => {}
        StopReason::MaxTokens | StopReason::ModelContextWindowExceeded => return Err(Cause::CutOff),
        StopReason::ContentFiltered | StopReason::GuardrailIntervened => return Err(Cause::Refused),
        // A model of the Messages API that refuses, by the word of its own interface.
        other if other.as_str() == "refusal" => return Err(Cause::Refused),
        _ => return Err(Cause::AnswerMalformed),
    }
    let message = answer.output().and_then(|output| output.as_message().ok()).ok_or(Cause::AnswerMalformed)?;
    let calls: Vec<&ToolUseBlock> = message.content().iter().filter_map(|block| block.as_tool_use().ok()).collect();
    let call = only_call(&calls, message.content().len(), |call| Some(call.name()))?;
    if *answer.stop_reason() != StopReason::ToolUse {
        return Err(Cause::AnswerMalformed);
    }
    json(call.input()).map(|input| input.to_string()).ok_or(Cause::AnswerMalformed)
}

/// JSON as the SDK has it.
fn document(value: &Value) -> Document {
    match value {
        Value::Null => Document::Null,
        Value::Bool(flag) => Document::Bool(*flag),
        Value::Number(number) => Document::Number(match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Number::PosInt(number),
            (None, Some(number)) => Number::NegInt(number),
            (None, None) => Number::Float(number.as_f64().unwrap_or_default()),
        }),
        Value::String(text) => Document::String(text.clone()),
        Value::Array(items) => Document::Array(items.iter().map(document).collect()),
        Value::Object(fields) => Document::Object(
            fields.iter().map(|(key, value)| (key.clone(), document(value))).collect::<HashMap<_, _>>(),
        ),
    }
}

/// The SDK's document as JSON; none for a number that JSON does not have.
fn json(document: &Document) -> Option<Value> {
    Some(match document {
        Document::Null => Value::Null,
        Document::Bool(flag) => Value::Bool(*flag),
        Document::Number(Number::PosInt(number)) => (*number).into(),
        Document::Number(Number::NegInt(number)) => (*number).into(),
        Document::Number(Number::Float(number)) => Value::Number(serde_json::Number::from_f64(*number)?),
        Document::String(text) => Value::String(text.clone()),
        Document::Array(items) => Value::Array(items.iter().map(json).collect::<Option<_>>()?),
        Document::Object(fields) => {
            let field = |(key, value): (&String, &Document)| Some((key.clone(), json(value)?));
            Value::Object(fields.iter().map(field).collect::<Option<_>>()?)
        }
    })
}
