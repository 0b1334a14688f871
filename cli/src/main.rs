//! `plangate`: for those who propose, approve, operate and audit changes of infrastructure.

mod address;
mod annotate;
mod api;
mod args;
mod audit;
mod auditor;
mod break_glass;
mod conformance;
mod console;
mod decide;
mod documents;
mod engine;
mod error;
mod exit;
mod freeze;
mod http_client;
mod logs;
mod manual;
mod markdown;
mod offline;
mod projection;
mod propose;
mod random;
mod record;
mod runs;
mod sign;
mod standing;
mod text;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;
use plangate_gate::documents::DocumentKind;

use crate::address::Base;
use crate::api::Api;
use crate::args::{Cli, Command, DocumentCommand, SlackCommand, WorkspaceCommand};
use crate::console::{Console, Tone};
use crate::error::CliError;
use crate::exit::Exit;

fn main() -> ExitCode {
    // Rules of a workspace's own are evaluated by this program, started again.
    if let Some(exit) = plangate_rules::serve() {
        return exit;
    }
    let cli = Cli::parse();
    let console = Console::of_process(cli.json);
    let exit = match dispatch(cli, &console) {
        Ok(exit) => exit,
        Err(error) => fail(&console, &error),
    };
    console.clear_status();
    exit.into()
}

/// Tells what went wrong: people on standard error, programs besides on standard output.
fn fail(console: &Console, error: &CliError) -> Exit {
    if error.reader_left() {
        return error.exit();
    }
    console.note(&format!("{} {error}", console.err_paint.tone(Tone::Bad, "error:")));
    if console.json {
        let details = match error {
            CliError::Refused(body) => body.details.clone(),
            _ => serde_json::Value::Null,
        };
        let told = serde_json::json!({
            "error": {"reason": error.reason(), "message": error.to_string(), "details": details}
        });
        // The error that is being told matters more than that it cannot be told.
        let _ = console.out_json(&told);
    }
    error.exit()
}

fn dispatch(cli: Cli, console: &Console) -> Result<Exit, CliError> {
    let address = cli.api;
    let base = || -> Result<Base, CliError> {
        let address = address.as_deref().filter(|text| !text.is_empty()).ok_or_else(|| {
            CliError::Usage(
                "no gate: set PLANGATE_API, or --api, to the gate's address (output ApiUrl of its stack)".to_owned(),
            )
        })?;
        Base::parse(address)
    };
    let api = || -> Result<Api<'_>, CliError> { Api::new(base()?, console) };
    match cli.command {
        Command::Propose(args) => propose::propose(&api()?, console, args),
        Command::Runs(args) => runs::list(&api()?, console, &args),
        Command::Show(args) => runs::show(&api()?, console, &args),
        Command::Watch(args) => runs::watch(&api()?, console, &args),
        Command::Approve(args) => decide::approve(&api()?, console, args),
        Command::Reject(args) => decide::reject(&api()?, console, args),
        Command::Cancel(args) => decide::cancel(&api()?, console, args),
        Command::Annotate(args) => annotate::annotate(&api()?, console, args),
        Command::Log(args) => logs::log(&api()?, console, &args),
        Command::Audit(args) => match (&args.command, &args.run) {
            (Some(command), _) => auditor::auditor(console, command),
            (None, Some(run)) => audit::audit(&api()?, console, run),
            (None, None) => Err(CliError::Usage("`audit` takes a run, or `verify` or `export`".to_owned())),
        },
        Command::Workspace(WorkspaceCommand::NewId) => offline::new_id(console),
        Command::Workspace(command) => workspace(&api()?, console, command),
        Command::Policy(command) => documents::documents(&api()?, console, DocumentKind::Policy, &command),
        Command::Grant(command) => documents::documents(&api()?, console, DocumentKind::Grant, &command),
        Command::Principal(command) => documents::documents(&api()?, console, DocumentKind::Principal, &command),
        Command::Freeze(args) => freeze::freeze(&api()?, console, args, false),
        Command::Unfreeze(args) => freeze::freeze(&api()?, console, args, true),
        Command::Gate => freeze::gate(&api()?, console),
        Command::Slack(SlackCommand::Manifest) => offline::slack_manifest(console, &base()?),
        Command::BreakGlass(command) => break_glass::break_glass(console, &command),
        Command::Completions { shell } => manual::completions(console, shell),
        Command::Man { folder } => manual::pages(console, &folder),
        Command::Project(args) => offline::project(console, &args),
        Command::Guard(args) => offline::guard(console, &args),
        Command::Bundle(args) => offline::bundle(console, &args),
        Command::Conformance(args) => conformance::conformance(console, &args),
    }
}

fn workspace(api: &Api<'_>, console: &Console, command: WorkspaceCommand) -> Result<Exit, CliError> {
    const KIND: DocumentKind = DocumentKind::Workspace;
    match command {
        WorkspaceCommand::Get { workspace } => {
            let id = documents::resolve(api, &workspace)?;
            documents::documents(api, console, KIND, &DocumentCommand::of_workspace(&id))
        }
        WorkspaceCommand::Put(put) => documents::documents(api, console, KIND, &DocumentCommand::Put(put)),
        WorkspaceCommand::List => documents::documents(api, console, KIND, &DocumentCommand::List),
        WorkspaceCommand::NewId => offline::new_id(console),
        WorkspaceCommand::Acknowledge { workspace, run, note } => {
            documents::acknowledge(api, console, &workspace, run, note)
        }
    }
}
