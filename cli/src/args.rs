//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use plangate_gate::digest::Digest;
use plangate_gate::ids::{Person, RunId, WorkspaceId};
use plangate_gate::run::Origin;

use crate::break_glass::args::BreakGlass;
use crate::exit;

/// plangate: what is applied is byte for byte the plan that was decided on.
#[derive(Debug, Parser)]
#[command(name = "plangate", version = plangate_release::told(), about, after_help = exit::HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The gate's address; PLANGATE_API otherwise
    #[arg(long, global = true, value_name = "URL", env = "PLANGATE_API", hide_env_values = true)]
    pub(crate) api: Option<String>,
    /// Print JSON on standard output, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Propose the configuration in a folder
    Propose(Propose),
    /// List runs, newest first
    Runs(Runs),
    /// Show a run's record and its projection
    Show(Show),
    /// Follow a run until it ends or waits for approval
    Watch(Watch),
    /// Approve a run, having seen its projection
    Approve(Approve),
    /// Reject a run
    Reject(Reject),
    /// Withdraw a run that is not being applied yet
    Cancel(Cancel),
    /// Add a note to what is recorded of a run, ended or not; nothing of the record is changed
    Annotate(Annotate),
    /// Show the log of a run's phase
    Log(Log),
    /// List a run's audit events and verify their chain; or verify or export the whole audit
    Audit(Audit),
    /// Workspaces
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Guardrail policies
    #[command(subcommand)]
    Policy(DocumentCommand),
    /// Grants: what a person may do where
    #[command(subcommand)]
    Grant(DocumentCommand),
    /// Principals: which IAM identities are which person
    #[command(subcommand)]
    Principal(DocumentCommand),
    /// Admit, approve and start nothing any more, in a workspace or in the whole gate; what runs ends
    Freeze(FreezeArgs),
    /// Lift a freeze; whoever waits goes on, in their order
    Unfreeze(FreezeArgs),
    /// Show whether the gate as a whole is frozen
    Gate,
    /// Slack: the app to install, as a manifest to paste there
    #[command(subcommand)]
    Slack(SlackCommand),
    /// Plan and apply by hand, with no part of the gate running (docs/break-glass.md)
    #[command(subcommand)]
    BreakGlass(BreakGlass),
    /// Print the completions of a shell, to be stored where it looks for them
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual: a page for each command
    Man {
        /// The folder, which is there
        folder: PathBuf,
    },
    /// Project a plan document, on this machine alone
    Project(Project),
    /// Judge a plan document by a policy, on this machine alone
    Guard(Guard),
    /// Build a folder's bundle, on this machine alone
    Bundle(BundleFolder),
    /// Run the vectors of a folder on this program's decision core
    Conformance(Conformance),
}

/// `propose`
#[derive(Debug, Args)]
pub(crate) struct Propose {
    /// The folder with the configuration
    pub(crate) folder: PathBuf,
    /// The workspace, by id or by name
    #[arg(long, short)]
    pub(crate) workspace: String,
    /// Only look: the run can never be applied
    #[arg(long)]
    pub(crate) plan_only: bool,
    /// What the run comes from
    #[arg(long, value_enum, default_value_t = From::Person)]
    pub(crate) origin: From,
    /// The run that this one is derived from
    #[arg(long, value_name = "RUN")]
    pub(crate) derived_from: Option<RunId>,
    /// The person behind a bot's proposal
    #[arg(long, value_name = "PERSON")]
    pub(crate) on_behalf_of: Option<Person>,
    /// Follow the run until it ends or waits for approval
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) follow: Follow,
}

/// Where a proposal comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    /// A person at a terminal
    Person,
    /// A pipeline
    Ci,
    /// Another run put together anew
    Reassembly,
}

impl std::convert::From<From> for Origin {
    fn from(from: From) -> Self {
        match from {
            From::Person => Self::Person,
            From::Ci => Self::Ci,
            From::Reassembly => Self::Reassembly,
        }
    }
}

/// How a run is followed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Follow {
    /// Go on following while the run waits for approval
    #[arg(long)]
    pub(crate) to_end: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = interval)]
    pub(crate) interval: f64,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.01 to 3600".to_owned()),
    }
}

/// `runs`
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only those of this workspace, by id or by name
    #[arg(long, short)]
    pub(crate) workspace: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

/// `audit`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Audit {
    /// The run's id
    #[arg(required = true)]
    pub(crate) run: Option<RunId>,
    #[command(subcommand)]
    pub(crate) command: Option<AuditCommand>,
}

/// What an auditor does without the gate.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Hold table, archive and witnesses against each other, and name the first event that does not fit
    Verify(AuditVerify),
    /// Copy table, archive and witnesses to a folder of plain files
    Export(AuditExport),
}

/// `audit verify`
#[derive(Debug, Args)]
pub(crate) struct AuditVerify {
    /// The folder of an export; otherwise the stores themselves are read
    pub(crate) folder: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) stores: Stores,
    /// Seconds that an event may take on its way to the archive
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub(crate) lag: u32,
}

/// `audit export`
#[derive(Debug, Args)]
pub(crate) struct AuditExport {
    /// The folder to make
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) stores: Stores,
}

/// The stores of the audit, read with your own credentials.
#[derive(Debug, Args)]
pub(crate) struct Stores {
    /// The gate's name, from which its tables have theirs
    #[arg(long, default_value = "plangate")]
    pub(crate) gate: String,
    /// The locked bucket; PLANGATE_ARCHIVE otherwise
    #[arg(long, value_name = "BUCKET", env = "PLANGATE_ARCHIVE", hide_env_values = true)]
    pub(crate) archive: Option<String>,
}

/// `show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The run's id
    pub(crate) run: RunId,
    /// Leave the projection out
    #[arg(long)]
    pub(crate) no_projection: bool,
    /// As a comment on a pull or merge request: Markdown, at most 65,536 characters
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
}

/// `watch`
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The run's id
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) follow: Follow,
}

/// `approve`
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// The run's id
    pub(crate) run: RunId,
    /// The digest of the projection that you saw; without it the projection is shown and you are asked
    #[arg(long, value_name = "DIGEST", conflicts_with = "yes")]
    pub(crate) projection: Option<Digest>,
    /// Approve the projection as it is shown, without being asked
    #[arg(long)]
    pub(crate) yes: bool,
    /// Why
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Follow the run to its end
    #[arg(long)]
    pub(crate) watch: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = interval)]
    pub(crate) interval: f64,
}

/// `reject`
#[derive(Debug, Args)]
pub(crate) struct Reject {
    /// The run's id
    pub(crate) run: RunId,
    /// Why
    #[arg(long)]
    pub(crate) reason: String,
    /// The digest of the projection that you saw; the run's otherwise
    #[arg(long, value_name = "DIGEST")]
    pub(crate) projection: Option<Digest>,
}

/// `cancel`
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The run's id
    pub(crate) run: RunId,
    /// Why
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

/// `annotate`
#[derive(Debug, Args)]
pub(crate) struct Annotate {
    /// The run's id
    pub(crate) run: RunId,
    /// What there is to say, in one line; it is recorded for good
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: String,
    /// The event that it corrects, by its number in `plangate audit RUN`
    #[arg(long, value_name = "EVENT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) corrects: Option<u64>,
}

/// `log`
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The run's id
    pub(crate) run: RunId,
    /// Which phase
    #[arg(value_enum)]
    pub(crate) phase: PhaseName,
    /// Go on until the phase has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = interval)]
    pub(crate) interval: f64,
}

/// A phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PhaseName {
    /// Planning
    Plan,
    /// Applying
    Apply,
}

/// `freeze` and `unfreeze`
#[derive(Debug, Args)]
pub(crate) struct FreezeArgs {
    /// The workspace, by id or by name
    #[arg(required_unless_present = "gate", conflicts_with = "gate")]
    pub(crate) workspace: Option<String>,
    /// The gate as a whole
    #[arg(long)]
    pub(crate) gate: bool,
    /// Why; it is recorded
    #[arg(long)]
    pub(crate) reason: String,
}

/// What can be done with documents of any kind.
#[derive(Debug, Subcommand)]
pub(crate) enum DocumentCommand {
    /// Show one
    Get {
        /// Its id
        id: String,
    },
    /// Write one from a JSON file
    Put(Put),
    /// List them
    List,
}

/// `put`
#[derive(Debug, Args)]
pub(crate) struct Put {
    /// A file with {"id", "namespace", "owner", "spec"}; `-` is standard input
    pub(crate) file: PathBuf,
    /// The etag of what is replaced, or `none` for a new document; otherwise that of the file, or what is there now
    #[arg(long)]
    pub(crate) etag: Option<String>,
    /// Check everything and write nothing
    #[arg(long)]
    pub(crate) validate_only: bool,
}

/// What can be done with workspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Show one, with its lock
    Get {
        /// Its id or its name
        workspace: String,
    },
    /// Write one from a JSON file
    Put(Put),
    /// List them
    List,
    /// Make up an id for a new workspace
    NewId,
    /// Lift a quarantine, having looked at the estate
    Acknowledge {
        /// Its id or its name
        workspace: String,
        /// A plan-only run made since, which has recorded the state's identity
        #[arg(long)]
        run: RunId,
        /// What you found
        #[arg(long)]
        note: String,
    },
}

/// What there is for Slack.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum SlackCommand {
    /// Print the manifest of the app to create in Slack, for the gate at PLANGATE_API or --api
    Manifest,
}

impl DocumentCommand {
    /// The same for a workspace whose name has become an id.
    pub(crate) fn of_workspace(id: &WorkspaceId) -> Self {
        Self::Get { id: id.to_string() }
    }
}

/// `project`
#[derive(Debug, Args)]
pub(crate) struct Project {
    /// A plan document, as `show -json` of the engine writes it; `-` is standard input
    pub(crate) file: PathBuf,
    /// A policy whose withheld attributes are hidden besides
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
}

/// `guard`
#[derive(Debug, Args)]
pub(crate) struct Guard {
    /// The policy
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// A plan document, as `show -json` of the engine writes it; `-` is standard input
    pub(crate) file: PathBuf,
}

/// `conformance`
#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The folder with the cases, one folder each
    #[arg(default_value = "vectors")]
    pub(crate) folder: PathBuf,
}

/// `bundle`
#[derive(Debug, Args)]
pub(crate) struct BundleFolder {
    /// The folder with the configuration
    pub(crate) folder: PathBuf,
    /// Where to write the archive
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
