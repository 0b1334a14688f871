//! Lays out the mirror of the test provider in the folder that is named, and prints the engine configuration for it.
#![expect(clippy::print_stdout, reason = "the configuration is what the caller asked for")]

use std::io;
use std::path::Path;

use plangate_test_provider::Mirror;

fn main() -> io::Result<()> {
    let dir = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("name the folder for the mirror"))?;
    let mirror = Mirror::lay_out(Path::new(&dir))?;
    print!("{}", mirror.cli_configuration());
    Ok(())
}
