//! What all commands print: lines for people and for programs, and progress.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

/// Standard output is for data.
static DATA_ON_STDOUT: AtomicBool = AtomicBool::new(false);

/// From now on, what else would go to standard output goes to standard error: data goes to standard output.
pub(crate) fn reserve_stdout_for_data() {
    DATA_ON_STDOUT.store(true, Ordering::Relaxed);
}

/// A line of the outcome. A reader that is gone (EPIPE) stops nothing.
pub(crate) fn print(line: impl Display) {
    let _ = if DATA_ON_STDOUT.load(Ordering::Relaxed) {
        writeln!(io::stderr(), "{line}")
    } else {
        writeln!(io::stdout(), "{line}")
    };
}

/// A line of JSON for a program.
pub(crate) fn say(what: &Value) {
    print(what);
}

/// A line for a person.
pub(crate) fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "fountain: {}", clean(what));
}

/// Text that may be a peer's, as it may be written to a terminal: characters that control it, or that turn the direction
/// of what is written, are escaped.
pub(crate) fn clean(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Progress in bytes on a terminal; if it is not `wanted`, or there is no terminal, nothing is shown.
pub(crate) fn bar(wanted: bool) -> ProgressBar {
    let shown = wanted && io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    let form = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {msg}";
    bar.set_style(ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// BLAKE3 of a file.
pub(crate) fn hash_of(path: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Some(hasher.finalize().to_string())),
            n => hasher.update(&buffer[..n]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn nothing_of_a_peers_moves_the_cursor() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\r\t\u{9b}\u{7f}"), "a\\u{1b}[2Jb\\nc\\r\\t\\u{9b}\\u{7f}");
        assert_eq!(clean("gpj.\u{202e}exe"), "gpj.\\u{202e}exe");
        assert_eq!(clean("Grüße \u{1f980}"), "Grüße \u{1f980}");
    }
}
