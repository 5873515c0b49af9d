//! What all commands tell people and programs in the same way.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

/// A line for a program. One that does not listen any more stops nothing.
pub(crate) fn say(what: &Value) {
    let _ = writeln!(io::stdout(), "{what}");
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
