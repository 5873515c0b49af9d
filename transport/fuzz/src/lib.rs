//! Turns a fuzzer's bytes into what peers do.

pub mod acc;
#[path = "../../crates/proto/tests/peers/mod.rs"]
pub mod peers;
#[path = "../../crates/proto/tests/tls/mod.rs"]
pub mod tls;

/// Bytes, read from the front; zeros when there are no more.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Whether there are more.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next so many.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// A number of so many bytes, at most eight.
    pub fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// A message of a control channel, of some bytes, if they are one.
    pub fn message<M: serde::de::DeserializeOwned>(&mut self) -> Option<M> {
        let body = self.some();
        let mut frames = wire::control::Frames::default();
        frames.extend(&(body.len() as u32).to_be_bytes());
        frames.extend(&body);
        frames.message().ok()?
    }

    /// Some bytes, as many as the next byte says.
    pub fn some(&mut self) -> Vec<u8> {
        let count = self.byte().into();
        self.take(count).to_vec()
    }
}
