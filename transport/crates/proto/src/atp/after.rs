//! What TLS says once the handshake is through: tickets, by which a client is known the next time.

use std::ops::Range;

use rustls::pki_types::CertificateDer;
use rustls::quic::Connection as Tls;

use super::receive_stream::{ReceiveStream, Taken};
use super::send_stream::SendStream;

/// What may be on its way: tickets are a few hundred bytes each.
const MOST_BYTES: u64 = 16 << 10;

/// TLS after the handshake, and a stream each way.
pub(crate) struct After {
    tls: Option<Tls>,
    out: SendStream,
    came: ReceiveStream,
}

impl std::fmt::Debug for After {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("After").field("out", &self.out).field("came", &self.came).finish_non_exhaustive()
    }
}

impl After {
    pub(crate) fn new() -> Self {
        After { tls: None, out: SendStream::new(u64::MAX), came: ReceiveStream::new(MOST_BYTES) }
    }

    /// The handshake is through, and TLS wants to say this.
    pub(crate) fn begin(&mut self, tls: Tls, said: &[u8]) {
        self.tls = Some(tls);
        self.out.write(said);
    }

    /// The peer's certificate, if it has shown one.
    pub(crate) fn peer_certificate(&self) -> Option<CertificateDer<'static>> {
        Some(self.tls.as_ref()?.peer_certificates()?.first()?.clone().into_owned())
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.out.is_pending(u64::MAX)
    }

    /// Takes the next piece, of no more than `most` bytes.
    pub(crate) fn take(&mut self, most: usize, out: &mut Vec<u8>) -> Option<Range<u64>> {
        let piece = self.out.take(most, u64::MAX)?;
        self.out.copy(piece.bytes.clone(), out);
        Some(piece.bytes)
    }

    pub(crate) fn on_acknowledged(&mut self, bytes: Range<u64>) {
        self.out.on_acknowledged(bytes, false);
    }

    pub(crate) fn on_lost(&mut self, bytes: Range<u64>) {
        self.out.on_lost(bytes, false);
    }

    /// A piece has come. None: it is none that can be.
    pub(crate) fn receive(&mut self, offset: u64, bytes: &[u8]) -> Option<Taken> {
        let taken = self.came.insert(offset, bytes, false).ok()?;
        let mut bytes = vec![0; self.came.readable()];
        self.came.read(&mut bytes);
        self.came.take_max();
        if let Some(tls) = self.tls.as_mut().filter(|_| !bytes.is_empty()) {
            tls.read_hs(&bytes).ok()?;
        }
        Some(taken)
    }
}
