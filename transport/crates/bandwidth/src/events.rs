//! Server-sent events (WHATWG HTML, section 9.2), as far as the service uses them.

use std::io::{BufRead, Read};

/// A line that is longer is none of the service's.
const MOST_LINE_BYTES: u64 = 64 << 10;

/// The data of events, one after the other, until the stream ends or breaks.
pub(crate) struct Events<R> {
    lines: R,
    data: String,
}

impl<R: BufRead> Events<R> {
    pub(crate) fn of(lines: R) -> Self {
        Events { lines, data: String::new() }
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut self.lines).take(MOST_LINE_BYTES).read_until(b'\n', &mut line).ok()?;
            if read == 0 || line.last() != Some(&b'\n') {
                return None;
            }
            let line = std::str::from_utf8(&line).ok()?.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if !self.data.is_empty() {
                    return Some(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &[u8]) -> Vec<String> {
        Events::of(text).collect()
    }

    #[test]
    fn events_are_told_when_they_are_whole() {
        let text =
            b": here\n\nid: 7\nevent: share\ndata: {\"a\": 1}\n\ndata:b\r\ndata: c\r\n\r\ndata: not whole\n";
        assert_eq!(events(text), ["{\"a\": 1}", "b\nc"]);
        assert!(events(b"data: cut off").is_empty());
        assert!(events(b"data: \xff\n\n").is_empty());
    }

    #[test]
    fn an_endless_line_ends_the_stream() {
        let mut text = vec![b'x'; 1 << 20];
        text.extend_from_slice(b"\ndata: y\n\n");
        assert!(events(&text).is_empty());
    }
}
