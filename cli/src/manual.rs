//! The command line about itself: completions and manual pages, made from the commands as they are.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::console::Console;
use crate::error::CliError;
use crate::exit::Exit;
use crate::text::inert;

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output is gone.
pub(crate) fn completions(console: &Console, shell: Shell) -> Result<Exit, CliError> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    console.out_exact(&text)?;
    Ok(Exit::Success)
}

/// Writes a page for the program and one for each command, `plangate-audit-verify.1` and the like.
///
/// # Errors
/// The folder is not there, or a page cannot be written.
pub(crate) fn pages(console: &Console, folder: &Path) -> Result<Exit, CliError> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // What is global then stands in each page, and each page has its command's whole name.
    command.build();
    let mut count = 0;
    page(&command, folder, &mut count)?;
    console.note(&format!("{count} pages in {}", inert(&folder.to_string_lossy())));
    Ok(Exit::Success)
}

fn page(command: &clap::Command, folder: &Path, count: &mut u32) -> Result<(), CliError> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let unwritten = |source| CliError::Write { path: inert(&path.to_string_lossy()), source };
    let mut text = Vec::new();
    // Without a date, the same program writes the same pages.
    let source = format!("plangate {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).date("").source(source).render(&mut text).map_err(unwritten)?;
    std::fs::write(&path, text).map_err(unwritten)?;
    *count += 1;
    command.get_subcommands().filter(|each| !each.is_hide_set()).try_for_each(|each| page(each, folder, count))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use clap::ValueEnum as _;

    use super::*;

    /// Every command with the words that lead to it, but for `help`, which clap adds.
    fn commands(command: &clap::Command, words: &[&str]) -> Vec<(Vec<String>, clap::Command)> {
        let words = [words, &[command.get_name()]].concat();
        let own = (words.iter().map(|word| (*word).to_owned()).collect(), command.clone());
        let below = command.get_subcommands().filter(|each| each.get_name() != "help");
        std::iter::once(own).chain(below.flat_map(|each| commands(each, &words))).collect()
    }

    fn tree() -> Vec<(Vec<String>, clap::Command)> {
        let mut command = Cli::command();
        command.build();
        commands(&command, &[])
    }

    fn flags(command: &clap::Command) -> Vec<String> {
        command.get_arguments().filter_map(|each| each.get_long()).map(|name| format!("--{name}")).collect()
    }

    fn text(shell: Shell) -> String {
        let mut out = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "plangate", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_command_has_a_page_that_names_all_its_flags_and_arguments() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        let mut count = 0;
        page(&command, folder.path(), &mut count).unwrap();
        let tree = tree();
        assert_eq!(count as usize, tree.len());
        for (words, command) in &tree {
            let page = std::fs::read_to_string(folder.path().join(format!("{}.1", words.join("-")))).unwrap();
            // roff writes a hyphen so, that it is one.
            let page = page.replace("\\-", "-");
            for flag in flags(command) {
                assert!(page.contains(&flag), "{words:?} {flag}");
            }
            for each in command.get_positionals().filter_map(|each| each.get_value_names()).flatten() {
                assert!(page.contains(each.as_str()), "{words:?} {each}");
            }
        }
        // The same program writes the same pages, whatever the day.
        let again = tempfile::tempdir().unwrap();
        page(&command, again.path(), &mut count).unwrap();
        let read = |at: &Path| std::fs::read(at.join("plangate-break-glass-print.1")).unwrap();
        assert_eq!(read(folder.path()), read(again.path()));
    }

    #[test]
    fn the_completions_of_each_shell_name_every_command_and_flag() {
        for shell in Shell::value_variants() {
            let text = text(*shell);
            for (words, command) in tree() {
                let name = words.last().unwrap();
                assert!(text.contains(name.as_str()), "{shell}: {words:?}");
                for flag in flags(&command) {
                    let name = if *shell == Shell::Fish { flag.replacen("--", "-l ", 1) } else { flag };
                    assert!(text.contains(&name), "{shell}: {words:?} {name}");
                }
            }
        }
    }

    #[test]
    fn bash_completes_each_command_to_its_own_flags_and_commands() {
        let script = text(Shell::Bash);
        let mut asks = String::new();
        for (words, _) in tree() {
            // What follows the words, as bash asks for it: the word that is completed is the last.
            let line = format!("{} --", words.join(" "));
            asks += &format!(
                "COMP_WORDS=({line}); COMP_CWORD={}; COMPREPLY=(); _plangate plangate -- \"\"; echo \"${{COMPREPLY[@]}}\"\n",
                words.len()
            );
        }
        let done = Command::new("/bin/bash").args(["-c", &format!("{script}\n{asks}")]).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        let answers: Vec<&str> = said.lines().collect();
        assert_eq!(answers.len(), tree().len(), "{}", String::from_utf8_lossy(&done.stderr));
        for ((words, command), answer) in tree().iter().zip(answers) {
            let offered: Vec<&str> = answer.split_whitespace().collect();
            for flag in flags(command) {
                assert!(offered.contains(&flag.as_str()), "{words:?}: {flag} is not among {offered:?}");
            }
        }
    }
}
