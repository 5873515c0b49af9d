//! Options of `serve` and `recv` from a file of TOML: a key is the name of an option, as on the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Command, CommandFactory};
use toml::{Table, Value};

use crate::Failure;
use crate::args::Args;

/// How alike a name has to be to be proposed, as clap has it.
const ALIKE: f64 = 0.7;
/// The key that is no option: what is served, or where files go.
const DIRECTORY: &str = "directory";

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Config {
    /// Options, as on the command line.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) directory: Option<PathBuf>,
}

/// The command line with what the file of `--config` says before it, so that the command line prevails; and the directory
/// that it names.
pub(crate) fn expand(line: Vec<OsString>) -> Result<(Vec<OsString>, Option<PathBuf>), Failure> {
    let Some(path) = file(&line) else { return Ok((line, None)) };
    let whole = Args::command();
    let Some((command, words)) = configurable(&line, &whole) else { return Ok((line, None)) };
    let text =
        std::fs::read_to_string(&path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
    let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
    let Config { arguments, directory } = parse(&text, command).map_err(wrong)?;
    let (before, after) = line.split_at(words);
    Ok(([before, &arguments, after].concat(), directory))
}

/// The command that a line calls, if it has an option `--config`, and how many words that takes.
fn configurable<'a>(line: &[OsString], whole: &'a Command) -> Option<(&'a Command, usize)> {
    let (mut command, mut words) = (whole, 1);
    while let Some(inner) = line.get(words).and_then(|word| command.find_subcommand(word)) {
        (command, words) = (inner, words + 1);
    }
    let has_files = command.get_arguments().any(|arg| arg.get_long() == Some("config"));
    has_files.then_some((command, words))
}

/// The directory of the command line, or that of the file.
///
/// # Errors
/// There is none.
pub(crate) fn directory(named: Option<&PathBuf>, configured: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let directory = named.cloned().or(configured);
    directory.ok_or_else(|| {
        Failure::usage("name a directory: on the command line, or in the file with directory = \"…\"")
    })
}

/// What `--config` names.
fn file(line: &[OsString]) -> Option<PathBuf> {
    let mut words = line.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    None
}

/// What a file of this text says to a command.
fn parse(text: &str, command: &Command) -> Result<Config, String> {
    let table: Table = text.parse().map_err(|e: toml::de::Error| e.to_string().trim_end().to_owned())?;
    let mut config = Config::default();
    for (key, value) in &table {
        if key == DIRECTORY && command.get_arguments().any(|arg| arg.get_id() == DIRECTORY) {
            let path =
                value.as_str().ok_or_else(|| format!("{key}: write the path of a directory in quotes"))?;
            config.directory = Some(Path::new(path).to_owned());
            continue;
        }
        let option = command.get_arguments().find(|arg| arg.get_long() == Some(key) && is_for_files(key));
        let option = option.ok_or_else(|| unknown(key, command))?;
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        match (value, is_flag) {
            (Value::Boolean(true), true) => config.arguments.push(format!("--{key}").into()),
            (Value::Boolean(false), true) => {}
            (_, true) => return Err(format!("{key}: write true or false")),
            (Value::Array(values), false) if matches!(option.get_action(), ArgAction::Append) => {
                for value in values {
                    config.arguments.push(format!("--{key}={}", written(key, value)?).into());
                }
            }
            (value, false) => config.arguments.push(format!("--{key}={}", written(key, value)?).into()),
        }
    }
    Ok(config)
}

/// Not what only makes sense where a person types it.
fn is_for_files(key: &str) -> bool {
    !["config", "help", "version"].contains(&key)
}

fn written(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        _ => Err(format!("{key}: write a number, or a text in quotes")),
    }
}

fn unknown(key: &str, command: &Command) -> String {
    let options = command.get_arguments().filter_map(clap::Arg::get_long).filter(|long| is_for_files(long));
    let mut alike: Vec<(f64, &str)> = options
        .chain([DIRECTORY])
        .map(|long| (strsim::jaro_winkler(key, long), long))
        .filter(|(alike, _)| *alike > ALIKE)
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let name = command.get_name();
    match alike.first() {
        Some((_, long)) => {
            format!("unknown key {key:?}: is {long:?} meant? Keys are the options of fountain {name}")
        }
        None => {
            format!("unknown key {key:?}: keys are the options of fountain {name}, see fountain help {name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(Vec<String>, Option<PathBuf>), String> {
        let whole = Args::command();
        let config = parse(text, whole.find_subcommand("serve").unwrap())?;
        let words = config.arguments.into_iter().map(|word| word.into_string().unwrap()).collect();
        Ok((words, config.directory))
    }

    #[test]
    fn keys_are_options() {
        let text = "directory = '/srv'\nlisten = '[::]:1'\nmemory = 5\nsilence = 2.5\njson = true\ninsecure = false\n\
                    client = ['aa', 'bb'] # two\n";
        let (mut words, directory) = parsed(text).unwrap();
        words.sort_unstable();
        let expected =
            ["--client=aa", "--client=bb", "--json", "--listen=[::]:1", "--memory=5", "--silence=2.5"];
        assert_eq!((words, directory), (expected.map(str::to_owned).to_vec(), Some("/srv".into())));
    }

    #[test]
    fn what_is_unknown_or_of_another_kind_is_refused_and_the_error_says_what_would_be_right() {
        for (text, told) in [
            ("listn = '[::]:1'", "is \"listen\" meant?"),
            ("max-conections = 5", "is \"max-connections\" meant?"),
            ("directry = '/srv'", "is \"directory\" meant?"),
            ("qqq = 5", "see fountain help serve"),
            ("config = 'x'", "unknown key \"config\""),
            ("json = 'yes'", "json: write true or false"),
            ("directory = 5", "directory: write the path"),
            ("listen = ['a', 'b']", "listen: write a number, or a text"),
            ("[listen]\nport = 5", "listen: write a number, or a text"),
            ("listen = ", "line 1"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn the_file_is_found_however_it_is_named() {
        let line = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        for words in [&["fountain", "serve", "--config", "x"][..], &["fountain", "serve", "-a", "--config=x"]]
        {
            assert_eq!(file(&line(words)), Some("x".into()));
        }
        for words in [&["fountain", "serve"][..], &["fountain", "serve", "--", "--config", "x"]] {
            assert_eq!(file(&line(words)), None);
        }
    }
}
