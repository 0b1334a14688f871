//! What an auditor does without asking the gate: exports the stores with credentials of their own, and holds them against
//! each other on this machine, from the stores or from an export (`R52`).

mod export;
mod folder;

use plangate_gate::audit::history::{Report, Verifier};

use crate::args::{AuditCommand, AuditVerify};
use crate::console::{Console, Tone};
use crate::error::CliError;
use crate::exit::Exit;
use crate::record::moment;
use crate::text::{count, inert};
use folder::Folder;

/// `audit verify` and `audit export`.
///
/// # Errors
/// A store does not answer, or a file cannot be read or written.
pub(crate) fn auditor(console: &Console, command: &AuditCommand) -> Result<Exit, CliError> {
    match command {
        AuditCommand::Export(args) => {
            let folder = Folder::create(&args.folder)?;
            let summary = export::export(&args.stores, &folder, console)?;
            if console.json {
                console.out_json(&summary)?;
            } else {
                let place = inert(&args.folder.to_string_lossy());
                let (events, witnesses) = (count(summary.table, "event"), count(summary.witnesses, "witness"));
                console.out(&format!("exported to {place}: {events} of the table, {witnesses}\n"))?;
            }
            Ok(Exit::Success)
        }
        AuditCommand::Verify(args) => {
            let report = match &args.folder {
                Some(path) => verify(&Folder::open(path)?, args)?,
                None => {
                    let temporary = tempfile::tempdir()
                        .map_err(|error| CliError::Machine(format!("cannot make a temporary folder: {error}")))?;
                    let folder = Folder::create(&temporary.path().join("export"))?;
                    export::export(&args.stores, &folder, console)?;
                    verify(&folder, args)?
                }
            };
            tell(console, &report)
        }
    }
}

/// Holds an export's stores against each other.
fn verify(folder: &Folder, args: &AuditVerify) -> Result<Report, CliError> {
    let mut verifier = Verifier::new(folder.began()?, args.lag);
    for witness in folder.witnesses()? {
        let witness = witness?;
        verifier.witness(witness.seq, witness.later_versions, &witness.event);
    }
    let heads = folder.heads()?;
    for chain in folder.chains()? {
        let head = heads.get(&chain.to_string()).map(String::as_str);
        verifier.chain(&chain, folder.table(&chain)?, folder.archive(&chain)?, head)?;
    }
    for stray in folder.strays()? {
        let stray = stray?;
        verifier.stray(stray.source.into(), &stray.key);
    }
    for record in folder.noticed()? {
        verifier.noticed(&record?.record);
    }
    Ok(verifier.finish())
}

fn tell(console: &Console, report: &Report) -> Result<Exit, CliError> {
    let good = report.findings.is_empty();
    if console.json {
        console.out_json(report)?;
    } else {
        let paint = console.paint;
        for finding in &report.findings {
            let line = inert(&finding.to_string());
            console.out(&format!("{}\n", paint.tone(Tone::Bad, &line)))?;
        }
        let chains = format!("{} in {}", count(report.events, "event"), count(report.chains, "chain"));
        let witnessed = report.witnessed_at.map_or_else(
            || "no witness".to_owned(),
            |at| format!("{}, the last of {}", count(report.witnesses, "witness"), moment(at)),
        );
        let pending = match report.pending {
            0 => String::new(),
            pending => format!("; {} still on the way to the archive", count(pending, "event")),
        };
        let verdict = if good { paint.tone(Tone::Good, "verified") } else { paint.tone(Tone::Bad, "do not fit") };
        console.out(&format!("{chains}, {witnessed}: {verdict}{pending}\n"))?;
    }
    Ok(if good { Exit::Success } else { Exit::Error })
}
