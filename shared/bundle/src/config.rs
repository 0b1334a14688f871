//! What one configuration file says that matters before an engine may see it.

use std::collections::BTreeSet;

use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::structure::{Block, Body};

use crate::json::Json;
use crate::{BundleError, Limits};

/// Whose rules select the configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `.tf` and `.tf.json`.
    Terraform,
    /// These and `.tofu`, `.tofu.json`; a `.tofu` file takes the place of the `.tf` file of the same name.
    OpenTofu,
}

impl Dialect {
    /// The registry of providers named without a host.
    pub(crate) const fn default_registry(self) -> &'static str {
        match self {
            Self::Terraform => "registry.terraform.io",
            Self::OpenTofu => "registry.opentofu.org",
        }
    }

    /// The endings of its files, for people.
    pub(crate) const fn endings(self) -> &'static str {
        match self {
            Self::Terraform => "`*.tf` or `*.tf.json`",
            Self::OpenTofu => "`*.tofu`, `*.tofu.json`, `*.tf` or `*.tf.json`",
        }
    }

    /// Of the file names of one folder those that the engine reads, each with whether it is an override file, in the
    /// order in which the engine takes them: ordinary ones first.
    pub(crate) fn select<'a>(self, names: &[&'a str]) -> Vec<(&'a str, bool)> {
        let mut selected: Vec<(&str, bool)> = names
            .iter()
            .filter_map(|name| {
                let (stem, tofu) = split_name(name)?;
                let shadowed = || {
                    let json = if name.ends_with(".json") { ".json" } else { "" };
                    names.contains(&format!("{stem}.tofu{json}").as_str())
                };
                let read = match self {
                    Self::Terraform => !tofu,
                    Self::OpenTofu => tofu || !shadowed(),
                };
                read.then_some((*name, stem == "override" || stem.ends_with("_override")))
            })
            .collect();
        selected.sort_by_key(|(name, is_override)| (*is_override, *name));
        selected
    }
}

/// The stem of a configuration file's name, and whether it is OpenTofu's own kind. `None` for what engines pass over:
/// other endings, and the temporary files of editors.
fn split_name(name: &str) -> Option<(&str, bool)> {
    if name.starts_with('.') || name.starts_with('#') && name.ends_with('#') {
        return None;
    }
    [(".tf", false), (".tf.json", false), (".tofu", true), (".tofu.json", true)]
        .iter()
        .find_map(|(ending, tofu)| Some((name.strip_suffix(ending)?, *tofu)))
}

/// Whether a folder with this file has configuration of OpenTofu's own kind.
pub(crate) fn is_tofu_file(name: &str) -> bool {
    split_name(name).is_some_and(|(_, tofu)| tofu)
}

/// A module call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleCall {
    /// The module's local name.
    pub(crate) name: String,
    /// Its source: absent, a plain string, or something else.
    pub(crate) source: Option<Literal>,
    /// Its version constraint, if there is one.
    pub(crate) version: Option<Literal>,
}

/// An attribute that is to be a plain string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    /// It is.
    Text(String),
    /// It is an expression.
    Expression,
}

/// What a file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Module calls.
    pub(crate) modules: Vec<ModuleCall>,
    /// `required_providers`: local name and source.
    pub(crate) required: Vec<(String, Option<String>)>,
    /// Local names of providers that blocks use.
    pub(crate) uses: BTreeSet<String>,
    /// A block that says where the state is kept.
    pub(crate) state_block: Option<&'static str>,
}

/// Blocks inside `terraform` that say where the state is kept.
const STATE_BLOCKS: [&str; 3] = ["backend", "cloud", "state_store"];

/// Blocks whose first label is a type of some provider's.
const TYPED_BLOCKS: [&str; 4] = ["resource", "data", "ephemeral", "action"];

/// Parses one configuration file and gives nothing but the verdict. Any bytes may be given: this is the entry point
/// for fuzzing.
///
/// # Errors
///
/// `configuration-unparseable` or `bundle-too-large`.
pub fn check_configuration_file(name: &str, bytes: &[u8], limits: &Limits) -> Result<(), BundleError> {
    read_facts(name, bytes, limits).map(|_| ())
}

/// Reads one file.
pub(crate) fn read_facts(path: &str, bytes: &[u8], limits: &Limits) -> Result<Facts, BundleError> {
    if path.ends_with(".json") {
        let json: Json = serde_json::from_slice(without_mark(bytes)).map_err(|error| {
            let detail = format!("line {}, column {}", error.line(), error.column());
            BundleError::ConfigurationUnparseable { path: path.to_owned(), detail }
        })?;
        Ok(facts_of_json(&json))
    } else {
        Ok(facts_of_hcl(&parse_hcl(path, bytes, limits)?))
    }
}

/// Parses HCL; the parser itself bounds nesting.
pub(crate) fn parse_hcl(path: &str, bytes: &[u8], limits: &Limits) -> Result<Body, BundleError> {
    if bytes.len() as u64 > limits.configuration_file_bytes {
        return Err(BundleError::TooLarge { what: format!("file `{path}`"), limit: limits.configuration_file_bytes });
    }
    let unparseable = |detail: String| BundleError::ConfigurationUnparseable { path: path.to_owned(), detail };
    let text = std::str::from_utf8(without_mark(bytes)).map_err(|_| unparseable("it is not UTF-8".to_owned()))?;
    hcl_edit::parser::parse_body(text).map_err(|error| {
        let at = error.location();
        unparseable(format!("line {}, column {}", at.line(), at.column()))
    })
}

/// Engines pass over a byte order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn facts_of_hcl(body: &Body) -> Facts {
    let mut facts = Facts::default();
    for block in body.blocks() {
        let label = block.labels.first().map(|label| label.as_str());
        match (block.ident.as_str(), label) {
            ("terraform", _) => {
                for inner in block.body.blocks() {
                    if let Some(found) = STATE_BLOCKS.iter().find(|name| inner.has_ident(name)) {
                        facts.state_block = Some(found);
                    }
                    if inner.has_ident("required_providers") {
                        facts.required.extend(
                            inner.body.attributes().map(|attribute| {
                                (attribute.key.as_str().to_owned(), required_source(&attribute.value))
                            }),
                        );
                    }
                }
            }
            ("module", Some(name)) => facts.modules.push(ModuleCall {
                name: name.to_owned(),
                source: literal(block, "source"),
                version: literal(block, "version"),
            }),
            ("provider", Some(name)) => {
                facts.uses.insert(name.to_owned());
            }
            ("check", _) => {
                for inner in block.body.get_blocks("data") {
                    note_typed(inner, &mut facts);
                }
            }
            (kind, Some(_)) if TYPED_BLOCKS.contains(&kind) => note_typed(block, &mut facts),
            _ => {}
        }
    }
    facts
}

/// The provider of a resource: the one it names, else the one its type implies.
fn note_typed(block: &Block, facts: &mut Facts) {
    let named = block.body.get_attribute("provider").and_then(|attribute| match &attribute.value {
        Expression::Variable(name) => Some(name.as_str().to_owned()),
        Expression::String(text) => Some(before(text, '.')),
        Expression::Traversal(traversal) => match &traversal.expr {
            Expression::Variable(name) => Some(name.as_str().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let implied = || block.labels.first().map(|label| before(label.as_str(), '_'));
    facts.uses.extend(named.or_else(implied));
}

fn before(text: &str, end: char) -> String {
    text.split(end).next().unwrap_or(text).to_owned()
}

fn literal(block: &Block, name: &str) -> Option<Literal> {
    let attribute = block.body.get_attribute(name)?;
    Some(attribute.value.as_str().map_or(Literal::Expression, |text| Literal::Text(text.to_owned())))
}

fn required_source(value: &Expression) -> Option<String> {
    let object = value.as_object()?;
    let (_, source) = object.iter().find(|(key, _)| match key {
        ObjectKey::Ident(name) => name.as_str() == "source",
        ObjectKey::Expression(key) => key.as_str() == Some("source"),
    })?;
    source.expr().as_str().map(str::to_owned)
}

fn facts_of_json(json: &Json) -> Facts {
    let mut facts = Facts::default();
    for (kind, value) in json.members() {
        match kind {
            "terraform" => {
                for (name, inner) in value.members() {
                    if let Some(found) = STATE_BLOCKS.iter().find(|block| **block == name) {
                        facts.state_block = Some(found);
                    }
                    if name == "required_providers" {
                        facts.required.extend(inner.members().into_iter().map(|(name, entry)| {
                            (name.to_owned(), entry.all("source").find_map(Json::text).map(str::to_owned))
                        }));
                    }
                }
            }
            "module" => {
                for (name, body) in value.members() {
                    facts.modules.push(ModuleCall {
                        name: name.to_owned(),
                        source: json_literal(body, "source"),
                        version: json_literal(body, "version"),
                    });
                }
            }
            "provider" => facts.uses.extend(value.members().into_iter().map(|(name, _)| name.to_owned())),
            "check" => {
                for (_, check) in value.members() {
                    check.all("data").for_each(|data| note_json_types(data, &mut facts));
                }
            }
            _ if TYPED_BLOCKS.contains(&kind) => note_json_types(value, &mut facts),
            _ => {}
        }
    }
    facts
}

fn note_json_types(value: &Json, facts: &mut Facts) {
    for (kind, named) in value.members() {
        for (_, body) in named.members() {
            let provider = body.all("provider").find_map(Json::text).map(|text| {
                let text = text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).unwrap_or(text);
                before(text.trim(), '.')
            });
            facts.uses.insert(provider.unwrap_or_else(|| before(kind, '_')));
        }
    }
}

fn json_literal(body: &Json, name: &str) -> Option<Literal> {
    // The engine refuses a repeated attribute; here the last one stands.
    let value = body.all(name).last()?;
    Some(match value.text() {
        Some(text) if !text.contains("${") && !text.contains("%{") => Literal::Text(text.to_owned()),
        _ => Literal::Expression,
    })
}
