//! The way around the gate (`R56`): what plans and applies a workspace by hand while no part of the gate runs. Nothing here asks
//! AWS or the gate anything: `print` writes what a person runs, and the others are steps of that, over files at hand.

pub(crate) mod args;
mod place;
mod script;

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use plangate_bundle::{Dialect, Limits, unpack_verified};
use plangate_gate::documents::{EngineName, plain};
use plangate_gate::ids::WorkspaceId;
use plangate_gate::keys::bundle_key;
use plangate_gate::order::{ORDER_LIMIT, Phase, WorkOrder};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::args::{BreakGlass, Ephemeral, Field, Print, Read, Unpack};
use self::place::{ELSEWHERE, Place};
use crate::console::Console;
use crate::documents::read_file;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text::inert;

/// The most bytes of a plan document.
const DOCUMENT_LIMIT: u64 = 256 * 1024 * 1024;

/// The most bytes of a variable file.
const VARIABLES_LIMIT: u64 = 4 * 1024 * 1024;

/// Does what is asked, offline.
///
/// # Errors
/// A name that cannot be one; an order that is none, or another workspace's; a bundle that is not the order's.
pub(crate) fn break_glass(console: &Console, command: &BreakGlass) -> Result<Exit, CliError> {
    match command {
        BreakGlass::Print(args) => print(console, args),
        BreakGlass::Unpack(args) => unpack(console, args),
        BreakGlass::Read(args) => read(console, args),
        BreakGlass::Ephemeral(args) => ephemeral(console, args),
    }
}

fn print(console: &Console, args: &Print) -> Result<Exit, CliError> {
    let place = Place::of(args)?;
    let text = script::script(&place);
    if console.json {
        console.out_json(&serde_json::json!({
            "workspace": place.workspace, "role": place.role, "exchange_bucket": place.exchange, "script": text
        }))?;
    } else {
        console.out(&text)?;
    }
    Ok(Exit::Success)
}

/// An apply order at hand that is this workspace's, and says nothing that a line of text could not hold.
struct Order(WorkOrder);

impl Order {
    fn of(path: &Path, workspace: &WorkspaceId) -> Result<Self, CliError> {
        let invalid = |detail: String| CliError::File { path: inert(&path.to_string_lossy()), detail };
        let bytes = read_file(path, ORDER_LIMIT as u64)?;
        let order = WorkOrder::parse_untrusted(&bytes).map_err(|error| invalid(error.to_string()))?;
        if order.workspace != *workspace {
            return Err(invalid(format!("the order is for {}, not for {workspace}", order.workspace)));
        }
        if order.phase != Phase::Apply {
            return Err(invalid("the order is none to apply".to_owned()));
        }
        if order.estate.is_some() {
            return Err(invalid(ELSEWHERE.to_owned()));
        }
        if order.bundle.key != bundle_key(workspace, &order.bundle.digest) {
            return Err(invalid("the bundle's key does not follow from workspace and digest".to_owned()));
        }
        let state = [&order.state.bucket, &order.state.key, &order.state.region];
        let lines = state.into_iter().chain([&order.sealed.key_arn, &order.engine.version]);
        let secrets = order.secrets.iter().flat_map(|secret| [&secret.variable, &secret.parameter]);
        let name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        let prefix = format!("/plangate/{workspace}/");
        let own = order.secrets.iter().all(|secret| name(&secret.variable) && secret.parameter.starts_with(&prefix));
        if !lines.chain(secrets).all(|text| plain(text, 512)) || !own {
            return Err(invalid("a name in the order is none".to_owned()));
        }
        Ok(Self(order))
    }

    const fn dialect(&self) -> Dialect {
        match self.0.engine.name {
            EngineName::Terraform => Dialect::Terraform,
            EngineName::Opentofu => Dialect::OpenTofu,
        }
    }

    fn field(&self, field: Field) -> Vec<String> {
        let order = &self.0;
        match field {
            Field::Summary => vec![
                format!("run {}, ordered to be applied at {}", order.run, order.issued_at),
                format!("bundle {}, engine {}", order.bundle.digest, order.engine),
                format!("state s3://{}/{} in {}", order.state.bucket, order.state.key, order.state.region),
            ],
            Field::Bundle => vec![order.bundle.key.clone()],
            Field::Engine => {
                let (binary, name) = match order.engine.name {
                    EngineName::Terraform => ("terraform", "Terraform"),
                    EngineName::Opentofu => ("tofu", "OpenTofu"),
                };
                vec![format!("{binary}\t{name} v{}", order.engine.version)]
            }
            Field::Backend => order.backend_arguments().collect(),
            Field::State => vec![format!("{}\t{}", order.state.bucket, order.state.key)],
            Field::Secrets => {
                order.secrets.iter().map(|secret| format!("{}\t{}", secret.variable, secret.parameter)).collect()
            }
        }
    }
}

fn read(console: &Console, args: &Read) -> Result<Exit, CliError> {
    let lines = Order::of(&args.order, &args.of.workspace)?.field(args.field);
    if console.json {
        console.out_json(&lines)?;
    } else {
        console.out(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    }
    Ok(Exit::Success)
}

fn unpack(console: &Console, args: &Unpack) -> Result<Exit, CliError> {
    let order = Order::of(&args.order, &args.of.workspace)?;
    let shown = inert(&args.bundle.to_string_lossy());
    let archive = File::open(&args.bundle).map_err(|source| CliError::read(shown, source))?;
    let make = |folder: &Path| {
        let mut builder = DirBuilder::new();
        let made = builder.mode(0o700).create(folder);
        made.map_err(|source| CliError::Write { path: inert(&folder.to_string_lossy()), source })
    };
    make(&args.folder)?;
    let (source, data) = (args.folder.join("source"), args.folder.join("data"));
    make(&data)?;
    let made = unpack_verified(archive, &order.0.bundle.digest, &source, &Limits::default())
        .and_then(|bundle| bundle.make_ready(order.dialect(), &data).map(|_| bundle));
    let bundle = made.inspect_err(|_| {
        // A folder that is not ready must not be taken for one that is. The refusal says more than a failure to clean up would.
        let _ = std::fs::remove_dir_all(&args.folder);
    })?;
    if console.json {
        console.out_json(&serde_json::json!({"digest": bundle.digest(), "source": source, "data": data}))?;
    } else {
        console.note(&format!("unpacked {} into {}", bundle.digest(), inert(&source.to_string_lossy())));
    }
    Ok(Exit::Success)
}

/// The variables of a plan document, by name alone: their values are passed over unread.
#[derive(Deserialize)]
struct Carried<'d> {
    #[serde(borrow, default)]
    variables: BTreeMap<String, &'d RawValue>,
}

/// Prints the variable file of those that the plan does not carry; nothing if it carries all.
fn ephemeral(console: &Console, args: &Ephemeral) -> Result<Exit, CliError> {
    let unreadable =
        |path: &Path, what: &str| CliError::File { path: inert(&path.to_string_lossy()), detail: what.to_owned() };
    let document = read_file(&args.document, DOCUMENT_LIMIT)?;
    let carried: Carried<'_> =
        serde_json::from_slice(&document).map_err(|_| unreadable(&args.document, "this is no plan document"))?;
    let variables = read_file(&args.variables, VARIABLES_LIMIT)?;
    let mut variables: BTreeMap<String, &RawValue> =
        serde_json::from_slice(&variables).map_err(|_| unreadable(&args.variables, "this is no variable file"))?;
    variables.retain(|name, _| !carried.variables.contains_key(name));
    if !variables.is_empty() {
        console.out_json(&variables)?;
    }
    Ok(Exit::Success)
}
