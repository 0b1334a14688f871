//! The command line of `break-glass`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plangate_gate::ids::{RunId, WorkspaceId};

/// Ways to plan and apply by hand while the gate cannot. All of them work without network and without the gate.
#[derive(Debug, Subcommand)]
pub(crate) enum BreakGlass {
    /// Print the shell commands that plan and apply a workspace by hand, under its break-glass role
    Print(Box<Print>),
    /// Unpack the bundle that an order names, checked, and ready for the engine (a step of what `print` prints)
    Unpack(Unpack),
    /// Print what an order says of one thing (a step of what `print` prints)
    Read(Read),
    /// Print the variables that a plan does not carry, to be given again to its apply (a step of what `print` prints)
    Ephemeral(Ephemeral),
}

/// `break-glass print`
#[derive(Debug, Args)]
pub(crate) struct Print {
    /// The workspace's id, or a file with what `plangate workspace get --json` once printed; `-` is standard input
    pub(crate) workspace: String,
    /// The AWS account of the gate; from the file, if there is one
    #[arg(long, value_name = "ID")]
    pub(crate) account: Option<String>,
    /// The region of the gate; from the file, if there is one
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// The gate's name, from which its exchange bucket has its own
    #[arg(long, default_value = "plangate", conflicts_with = "exchange_bucket")]
    pub(crate) gate: String,
    /// The exchange bucket, if its name does not follow from gate, account and region
    #[arg(long, value_name = "BUCKET")]
    pub(crate) exchange_bucket: Option<String>,
    /// The run whose bundle is taken; otherwise the last that was ordered to be applied
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// The serial number (ARN) of your MFA device; otherwise the script asks for it
    #[arg(long, value_name = "SERIAL", conflicts_with = "identity_center")]
    pub(crate) mfa_serial: Option<String>,
    /// You come from IAM Identity Center, which has asked for the second factor: the script asks for none
    #[arg(long)]
    pub(crate) identity_center: bool,
    /// The session's name, as CloudTrail shows it; otherwise made from your user's name
    #[arg(long, value_name = "NAME")]
    pub(crate) session_name: Option<String>,
}

/// An order, as it was fetched.
#[derive(Debug, Args)]
pub(crate) struct OrderOf {
    /// The workspace that the order has to be for
    #[arg(long, value_name = "ID")]
    pub(crate) workspace: WorkspaceId,
}

/// `break-glass unpack`
#[derive(Debug, Args)]
pub(crate) struct Unpack {
    /// The bundle
    pub(crate) bundle: PathBuf,
    /// The folder to make: `source` for the engine to work in, `data` for its TF_DATA_DIR
    pub(crate) folder: PathBuf,
    /// The apply order of the bundle's run
    #[arg(long, value_name = "FILE")]
    pub(crate) order: PathBuf,
    #[command(flatten)]
    pub(crate) of: OrderOf,
}

/// `break-glass read`
#[derive(Debug, Args)]
pub(crate) struct Read {
    /// The apply order
    pub(crate) order: PathBuf,
    /// Of what
    #[arg(value_enum)]
    pub(crate) field: Field,
    #[command(flatten)]
    pub(crate) of: OrderOf,
}

/// What can be read from an order. Where a line has two parts, a tab stands between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Field {
    /// What a person wants to know, in lines
    Summary,
    /// The bundle's key in the exchange bucket
    Bundle,
    /// The engine's binary, and the first line of what it says of its version
    Engine,
    /// The settings of the state's backend, `name=value` each
    Backend,
    /// The state's bucket and key
    State,
    /// The variables with secrets, each with its parameter
    Secrets,
}

/// `break-glass ephemeral`
#[derive(Debug, Args)]
pub(crate) struct Ephemeral {
    /// The plan's document, as `show -json` of the engine writes it
    pub(crate) document: PathBuf,
    /// The variable file that the plan was made with
    pub(crate) variables: PathBuf,
}
