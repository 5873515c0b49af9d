//! What a source has to send: bytes that it is given, or segments of which only the size counts.

use super::TcpConfig;

/// A stream, cut into segments.
#[derive(Debug)]
pub(super) struct Supply {
    mss_bytes: usize,
    /// Segments without bytes; none: for ever.
    segments: Option<u64>,
    stream: Option<Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    bytes: Vec<u8>,
    ended: bool,
}

impl Supply {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Supply { mss_bytes: config.mss_bytes as usize, segments: config.segments, stream: None }
    }

    /// Adds bytes of the stream; from the first on there are no others.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        let stream = self.stream.get_or_insert_default();
        assert!(!stream.ended, "a stream that has ended takes no more bytes");
        stream.bytes.extend_from_slice(bytes);
    }

    pub(super) fn end(&mut self) {
        self.stream.get_or_insert_default().ended = true;
    }

    /// Segments that may be sent so far. Of a stream that goes on, only full ones.
    pub(super) fn available(&self) -> u64 {
        match &self.stream {
            None => self.segments.unwrap_or(u64::MAX),
            Some(Stream { bytes, ended: true }) => bytes.len().div_ceil(self.mss_bytes) as u64,
            Some(Stream { bytes, ended: false }) => (bytes.len() / self.mss_bytes) as u64,
        }
    }

    /// Whether there is nothing beyond `segments`.
    pub(super) fn ends_at(&self, segments: u64) -> bool {
        self.stream.as_ref().is_none_or(|stream| stream.ended) && segments >= self.available()
    }

    /// The bytes of a segment, and how many it counts for on the wire.
    pub(super) fn segment(&self, number: u64) -> (Vec<u8>, u32) {
        let Some(stream) = &self.stream else { return (Vec::new(), self.mss_bytes as u32) };
        let begin = number as usize * self.mss_bytes;
        let end = (begin + self.mss_bytes).min(stream.bytes.len());
        let bytes = stream.bytes[begin..end].to_vec();
        let count = bytes.len() as u32;
        (bytes, count)
    }
}
