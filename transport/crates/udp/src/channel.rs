//! A control channel: frames over TCP or over signals, under TLS or in clear, without ever waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use proto::protect::{Protection, SECRET_BYTES, Side};
use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::{Frames, Malformed};

/// What a peer may leave unread before its channel counts as broken: one that was connected to, and one that has connected,
/// of which there may be thousands.
const MAX_UNSENT_BYTES: usize = 8 << 20;
const MAX_UNSENT_BYTES_OF_A_STRANGER: usize = 256 << 10;

/// Room for messages that is kept for those to come.
const KEPT_BYTES: usize = 16 << 10;

/// Reads of up to 16 KiB before what has come is looked at.
const READS: usize = 16;

/// How records of TLS begin, of these types and any version.
const TLS_ALERT: usize = 0x1503;
const TLS_HANDSHAKE: usize = 0x1603;

/// What a channel runs over. Reads and writes say `WouldBlock` rather than wait.
pub(crate) trait Stream: Read + Write {
    /// Nothing more will be written.
    fn finish(&mut self);

    /// Bytes that it holds, both ways.
    fn held_bytes(&self) -> usize {
        0
    }
}

impl Stream for TcpStream {
    fn finish(&mut self) {
        // A peer that is gone hears of nothing.
        let _ = self.shutdown(std::net::Shutdown::Write);
    }
}

/// One end of a control channel.
pub(crate) struct Channel<S = TcpStream> {
    stream: S,
    tls: Option<Connection>,
    frames: Frames,
    /// Frames; those before `sent` have been handed on.
    unsent: Vec<u8>,
    sent: usize,
    max_unsent: usize,
}

/// What a channel's end looks like from here.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("closed by the other side")]
    Closed,
    #[error("closed by the other side before TLS was set up; if it is --insecure, be so here, too")]
    ClosedEarly,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("TLS: {0}{remedy}", remedy = remedy(.0))]
    Tls(#[from] rustls::Error),
    #[error("{0}{remedy}", remedy = foreign(.0))]
    Malformed(#[from] Malformed),
    #[error("the other side does not read its control channel")]
    Unread,
    #[error("no memory is left for what the other side sends, or does not read")]
    NoRoom,
}

/// What to do about a failure of TLS, for a person.
fn remedy(error: &rustls::Error) -> &'static str {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
    match error {
        Error::InvalidMessage(_) => {
            "; the other side does not speak TLS: both have to be --insecure, or neither"
        }
        Error::InvalidCertificate(Certificate::ApplicationVerificationFailure) => {
            "; its certificate has another fingerprint: give the --fingerprint that it prints"
        }
        Error::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature) => {
            "; name the authority that issued it with --ca"
        }
        Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => "; its certificate is for another name: connect to that",
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "; it needs a new one"
        }
        Error::AlertReceived(Alert::CertificateRequired) => "; it asks for a --cert and its --key",
        Error::AlertReceived(Alert::AccessDenied) => {
            "; it does not know this side: have it accept the fingerprint that `fountain id` prints here"
        }
        Error::AlertReceived(Alert::UnknownCA) => "; it does not know the authority of this side's --cert",
        _ => "",
    }
}

/// What else speaks there, for a person.
fn foreign(error: &Malformed) -> &'static str {
    match error {
        Malformed::TooLong(bytes) if matches!(bytes >> 16, TLS_ALERT | TLS_HANDSHAKE) => {
            "; the other side speaks TLS: give its --fingerprint or --ca, not --insecure"
        }
        _ => "",
    }
}

impl Channel {
    /// Takes over a connected stream.
    pub(crate) fn new(stream: TcpStream, tls: Option<Connection>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Channel::over(stream, tls))
    }
}

impl<S: Stream> Channel<S> {
    /// A channel over any stream.
    pub(crate) fn over(stream: S, tls: Option<Connection>) -> Self {
        let (frames, unsent) = (Frames::default(), Vec::new());
        Channel { stream, tls, frames, unsent, sent: 0, max_unsent: MAX_UNSENT_BYTES }
    }

    /// The peer has connected to this end: it may leave less unread.
    pub(crate) fn of_a_stranger(self) -> Self {
        Channel { max_unsent: MAX_UNSENT_BYTES_OF_A_STRANGER, ..self }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Whether messages can pass: TLS, if there is any, has shaken hands.
    pub(crate) fn is_open(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    fn secret(&self, label: &[u8]) -> Result<Option<[u8; SECRET_BYTES]>, Broken> {
        let Some(tls) = &self.tls else { return Ok(None) };
        Ok(Some(tls.export_keying_material([0; SECRET_BYTES], label, None)?))
    }

    /// What protects datagrams with keys of this label; nothing does without TLS.
    pub(crate) fn protection(&self, label: &[u8], side: Side) -> Result<Protection, Broken> {
        let secret = self.secret(label)?;
        Ok(secret.map_or_else(Protection::insecure, |secret| Protection::new(&secret, side)))
    }

    /// Reads what has come, or the first part of it: the rest is still readable then.
    pub(crate) fn read(&mut self) -> Result<(), Broken> {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..READS {
            let read = match &mut self.tls {
                None => self.stream.read(&mut buffer),
                Some(tls) => read_tls(tls, &mut self.stream, &mut self.frames)?,
            };
            match read {
                Ok(0) if !self.is_open() => return Err(Broken::ClosedEarly),
                Ok(0) => return Err(Broken::Closed),
                Ok(n) => {
                    if self.tls.is_none() {
                        self.frames.extend(&buffer[..n]);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset && !self.is_open() => {
                    return Err(Broken::ClosedEarly);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The next message that has come whole.
    pub(crate) fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Broken> {
        Ok(self.frames.message()?)
    }

    /// Queues a message; [`Channel::flush`] sends it.
    pub(crate) fn send<M: Serialize>(&mut self, message: &M) -> Result<(), Broken> {
        wire::control::emit(message, &mut self.unsent)?;
        if self.unsent_bytes() > self.max_unsent {
            return Err(Broken::Unread);
        }
        Ok(())
    }

    /// Bytes of messages that are queued.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Bytes that it holds, both ways: messages that are not whole, and what the peer has not read.
    pub(crate) fn held_bytes(&self) -> usize {
        self.frames.held_bytes() + self.unsent.capacity() + self.stream.held_bytes()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        loop {
            if self.sent == self.unsent.len() {
                self.unsent.clear();
                self.unsent.shrink_to(KEPT_BYTES);
                self.sent = 0;
            }
            let unsent = &self.unsent[self.sent..];
            let written = match &mut self.tls {
                Some(tls) => {
                    // It takes what it has room for: little, before the socket takes that.
                    self.sent += tls.writer().write(unsent)?;
                    if !tls.wants_write() {
                        return Ok(());
                    }
                    tls.write_tls(&mut self.stream)
                }
                None if unsent.is_empty() => return Ok(()),
                None => self.stream.write(unsent).inspect(|n| self.sent += n),
            };
            match written {
                Ok(0) => return Err(Broken::Closed),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Whether there is something to send that the socket has not taken yet.
    pub(crate) fn wants_write(&self) -> bool {
        self.unsent_bytes() > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Says goodbye as far as the socket takes it.
    pub(crate) fn close(&mut self) {
        // The other side sees the end of the stream in any case.
        let _ = self.flush();
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = self.flush();
        }
        self.stream.finish();
    }
}

/// Reads once from the socket and hands on what TLS makes of it.
fn read_tls(
    tls: &mut Connection,
    stream: &mut impl Stream,
    frames: &mut Frames,
) -> Result<io::Result<usize>, Broken> {
    let read = tls.read_tls(stream);
    if matches!(read, Ok(0) | Err(_)) {
        return Ok(read);
    }
    let state = match tls.process_new_packets() {
        Ok(state) => state,
        Err(e) => {
            // The alert tells the other side why.
            let _ = tls.write_tls(stream);
            return Err(e.into());
        }
    };
    let mut plain = vec![0; state.plaintext_bytes_to_read()];
    tls.reader().read_exact(&mut plain)?;
    frames.extend(&plain);
    if state.peer_has_closed() {
        return Err(Broken::Closed);
    }
    Ok(read)
}
