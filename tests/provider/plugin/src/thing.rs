//! `sample_thing`: a resource that a test can make slow, failing or visible.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tf_provider::schema::{Attribute, AttributeConstraint, AttributeType, Block, Description, Schema};
use tf_provider::value::{Value, ValueBool, ValueEmpty, ValueNumber, ValueString};
use tf_provider::{AttributePath, Diagnostics, Resource};

/// The resource.
#[derive(Debug)]
pub(crate) struct Thing;

/// Its attributes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State<'a> {
    #[serde(borrow)]
    id: ValueString<'a>,
    #[serde(borrow)]
    name: ValueString<'a>,
    size: ValueNumber,
    #[serde(borrow)]
    token: ValueString<'a>,
    #[serde(borrow)]
    file: ValueString<'a>,
    #[serde(borrow)]
    hold_until: ValueString<'a>,
    #[serde(borrow)]
    hold_apply_until: ValueString<'a>,
    fail: ValueBool,
}

impl State<'_> {
    /// Gives the computed attributes their values.
    fn compute(&mut self) -> std::io::Result<()> {
        self.id = Value::Value(Cow::Owned(unique()?));
        self.token = Value::Value(Cow::Owned(format!("token-{}", unique()?)));
        Ok(())
    }

    /// What `apply` does to the outside, if it was asked to.
    async fn act(&self, verb: &str, diags: &mut Diagnostics) -> Option<()> {
        hold(&self.hold_until).await;
        hold(&self.hold_apply_until).await;
        if self.fail == Value::Value(true) {
            diags.root_error("the thing fails", "its attribute `fail` is true");
            return None;
        }
        if let (Value::Value(file), Value::Value(name)) = (&self.file, &self.name)
            && let Err(error) = note(file, &format!("{verb} {name}\n"))
        {
            diags.root_error("the file cannot be written", error.to_string());
            return None;
        }
        Some(())
    }
}

/// Adds a line to a file.
fn note(file: &str, line: &str) -> std::io::Result<()> {
    std::fs::File::options().append(true).create(true).open(file)?.write_all(line.as_bytes())
}

/// A value that no other thing has.
fn unique() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Waits until the file exists. Beside it, `<file>.waiting` tells the test that the engine has come here.
async fn hold(until: &ValueString<'_>) {
    let Value::Value(until) = until else { return };
    let until = PathBuf::from(until.as_ref());
    let mut waiting = until.clone().into_os_string();
    waiting.push(".waiting");
    if until.exists() || std::fs::write(waiting, "").is_err() {
        return;
    }
    while !until.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

type Planned<'a> = Option<(State<'a>, ValueEmpty)>;

#[async_trait]
impl Resource for Thing {
    type State<'a> = State<'a>;
    type PrivateState<'a> = ValueEmpty;
    type ProviderMetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        use AttributeConstraint::{Computed, Optional, Required};
        let attribute = |attr_type, constraint, text: &str| Attribute {
            attr_type,
            constraint,
            description: Description::plain(text),
            ..Attribute::default()
        };
        let text = |constraint, about| attribute(AttributeType::String, constraint, about);
        let mut token = text(Computed, "A secret that the provider makes.");
        token.sensitive = true;
        let attributes = HashMap::from([
            ("id".to_owned(), text(Computed, "Made at creation.")),
            ("name".to_owned(), text(Required, "Another name is another thing.")),
            ("size".to_owned(), attribute(AttributeType::Number, Optional, "Changed in place.")),
            ("token".to_owned(), token),
            ("file".to_owned(), text(Optional, "A file to which each apply adds a line.")),
            ("hold_until".to_owned(), text(Optional, "A file for which plan and apply wait.")),
            ("hold_apply_until".to_owned(), text(Optional, "A file for which apply waits.")),
            ("fail".to_owned(), attribute(AttributeType::Bool, Optional, "Whether apply fails.")),
        ]);
        let description = Description::plain("A thing that lives in the state.");
        Some(Schema { version: 1, block: Block { attributes, description, ..Block::default() } })
    }

    async fn read<'a>(&self, _: &mut Diagnostics, state: State<'a>, private: ValueEmpty, _: ValueEmpty) -> Planned<'a> {
        Some((state, private))
    }

    async fn plan_create<'a>(
        &self,
        _: &mut Diagnostics,
        mut proposed: State<'a>,
        _: State<'a>,
        _: ValueEmpty,
    ) -> Planned<'a> {
        hold(&proposed.hold_until).await;
        proposed.id = Value::Unknown;
        proposed.token = Value::Unknown;
        Some((proposed, ValueEmpty::default()))
    }

    async fn plan_update<'a>(
        &self,
        _: &mut Diagnostics,
        prior: State<'a>,
        mut proposed: State<'a>,
        _: State<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(State<'a>, ValueEmpty, Vec<AttributePath>)> {
        hold(&proposed.hold_until).await;
        if proposed.name == prior.name {
            return Some((proposed, private, Vec::new()));
        }
        proposed.id = Value::Unknown;
        proposed.token = Value::Unknown;
        Some((proposed, private, vec![AttributePath::new("name")]))
    }

    async fn plan_destroy<'a>(
        &self,
        _: &mut Diagnostics,
        _: State<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<ValueEmpty> {
        Some(private)
    }

    async fn create<'a>(
        &self,
        diags: &mut Diagnostics,
        mut planned: State<'a>,
        _: State<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Planned<'a> {
        planned.act("created", diags).await?;
        if let Err(error) = planned.compute() {
            diags.root_error("no random value", error.to_string());
            return None;
        }
        Some((planned, private))
    }

    async fn update<'a>(
        &self,
        diags: &mut Diagnostics,
        _: State<'a>,
        planned: State<'a>,
        _: State<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Planned<'a> {
        planned.act("updated", diags).await?;
        Some((planned, private))
    }

    async fn destroy<'a>(&self, diags: &mut Diagnostics, prior: State<'a>, _: ValueEmpty, _: ValueEmpty) -> Option<()> {
        prior.act("destroyed", diags).await
    }
}
