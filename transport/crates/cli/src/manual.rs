//! The manual of the command, and its completions for shells: for `make manual`.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;

/// Shells, and where a completion for each belongs.
const SHELLS: [(Shell, &str); 2] = [(Shell::Bash, "bash/fountain"), (Shell::Zsh, "zsh/_fountain")];

/// Write all of it below a folder: `man/fountain.1` and one page a subcommand, `completions/bash/fountain`,
/// `completions/zsh/_fountain`.
pub(crate) fn write(to: &Path) -> io::Result<()> {
    let pages = to.join("man");
    std::fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(Args::command(), pages)?;
    for (shell, file) in SHELLS {
        let file = to.join("completions").join(file);
        std::fs::create_dir_all(file.parent().expect("in a folder"))?;
        std::fs::write(file, completion(shell))?;
    }
    Ok(())
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "fountain", &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page, without the backslashes that keep hyphens what they are.
    fn page(command: &clap::Command) -> String {
        let mut text = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut text).unwrap();
        String::from_utf8(text).unwrap().replace('\\', "")
    }

    fn options(command: &clap::Command) -> Vec<String> {
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        shown.filter_map(|arg| arg.get_long().map(|long| format!("--{long}"))).collect()
    }

    #[test]
    fn the_manual_has_every_subcommand_and_option() {
        let mut command = Args::command();
        command.build();
        let overview = page(&command);
        for subcommand in command.get_subcommands() {
            let name = subcommand.get_name();
            assert!(overview.contains(&format!("fountain-{name}(1)")), "{name}");
            let text = page(subcommand);
            for option in options(subcommand) {
                assert!(text.contains(&option), "{option} of {name}");
            }
        }
    }

    #[test]
    fn completions_have_every_subcommand_and_option() {
        let command = Args::command();
        for (shell, file) in SHELLS {
            let text = String::from_utf8(completion(shell)).unwrap();
            for subcommand in command.get_subcommands() {
                assert!(text.contains(subcommand.get_name()), "{file}: {}", subcommand.get_name());
                for option in options(subcommand) {
                    assert!(text.contains(&option), "{file}: {option}");
                }
            }
        }
    }

    #[test]
    fn files_are_where_they_belong() {
        let to = std::env::temp_dir().join(format!("fountain-manual-{}", std::process::id()));
        write(&to).unwrap();
        for file in [
            "man/fountain.1",
            "man/fountain-send.1",
            "completions/bash/fountain",
            "completions/zsh/_fountain",
        ] {
            assert!(std::fs::metadata(to.join(file)).unwrap().len() > 0, "{file}");
        }
        std::fs::remove_dir_all(to).unwrap();
    }
}
