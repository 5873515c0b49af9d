//! Figures, in the order in which they were measured.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

/// A flat object of figures.
#[derive(Default)]
pub struct Report(Map<String, Value>);

impl Report {
    /// Notes and prints a figure.
    pub fn figure(&mut self, key: &str, value: f64) {
        let rounded = (value * 1e4).round() / 1e4;
        println!("{key:<52} {rounded:>12}");
        self.0.insert(key.to_owned(), json!(rounded));
    }

    /// Notes and prints what is no number.
    pub fn text(&mut self, key: &str, value: &str) {
        println!("{key:<52} {value:>12}");
        self.0.insert(key.to_owned(), json!(value));
    }

    /// Writes all figures to a file, whose folder is made if need be.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, serde_json::to_string_pretty(&self.0)? + "\n")
    }
}
