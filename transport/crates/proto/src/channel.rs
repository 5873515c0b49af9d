//! A control channel: messages over a stream of bytes that somebody else carries, under TLS or in clear.

use std::fmt;
use std::io::{self, Read, Write};

use ring::hkdf::{HKDF_SHA256, Prk};
use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use wire::control::{Frames, Malformed};

use crate::protect::{Protection, SECRET_BYTES, Side};

/// What a peer may leave unread before its channel counts as broken: one that was connected to, and one that has connected,
/// of which there may be thousands.
const MAX_UNSENT_BYTES: usize = 8 << 20;
const MAX_UNSENT_BYTES_OF_A_STRANGER: usize = 256 << 10;
/// What is sealed before the stream has taken it.
const SEALED_AHEAD_BYTES: usize = 32 << 10;
/// Room for messages that is kept for those to come.
const KEPT_BYTES: usize = 16 << 10;
/// What is opened at a time: TLS need not have room for more than it has looked at.
const OPENED_AT_ONCE_BYTES: usize = 4 << 10;

/// How records of TLS begin, of these types and any version.
const TLS_ALERT: usize = 0x1503;
const TLS_HANDSHAKE: usize = 0x1603;

/// What protects a connection.
pub enum Security {
    /// TLS 1.3.
    Tls(Box<Connection>),
    /// Both ends know a secret already: in a simulation, where nobody listens.
    Known([u8; SECRET_BYTES]),
    /// Nothing.
    Clear,
}

impl<C: Into<Connection>> From<Option<C>> for Security {
    fn from(tls: Option<C>) -> Self {
        tls.map_or(Security::Clear, |tls| Security::Tls(Box::new(tls.into())))
    }
}

/// One end of a control channel.
pub struct Channel {
    security: Security,
    frames: Frames,
    /// Frames; those before `handed` have been handed on.
    unsent: Vec<u8>,
    handed: usize,
    /// Records of TLS; those before `written` have been.
    sealed: Vec<u8>,
    written: usize,
    max_unsent: usize,
    /// The end is to be told once all has been handed on.
    closing: bool,
}

/// Why a channel is of no use any more.
#[derive(Debug, Error)]
pub enum Broken {
    /// The peer has said that nothing follows.
    #[error("closed by the other side")]
    Closed,
    /// The stream has ended before anything could be said.
    #[error("{0}", Mismatch::EndsBeforeTls)]
    ClosedEarly,
    /// TLS.
    #[error("TLS: {0}{what}", what = explain(of_tls(.0)))]
    Tls(#[from] rustls::Error),
    /// No frame, or no message.
    #[error("{0}{what}", what = explain(of_frames(.0)))]
    Malformed(#[from] Malformed),
    /// It takes nothing.
    #[error("the other side does not read its control channel")]
    Unread,
    /// What it may hold is used up.
    #[error("no memory is left for what the other side sends, or does not read")]
    NoRoom,
    /// The stream.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What the two ends were told of each other that does not fit together. The message of a [`Broken`] says so; whoever knows
/// how an end is told can add what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The stream ends before TLS is set up: perhaps the other side is in clear.
    EndsBeforeTls,
    /// This side is under TLS, the other one in clear.
    PeerInClear,
    /// The other side is under TLS, this one in clear.
    PeerUnderTls,
    /// The peer's certificate is none of those that are pinned.
    OtherFingerprint,
    /// Nobody trusted vouches for the peer's certificate.
    UnknownAuthority,
    /// The peer's certificate is for another name.
    OtherName,
    /// The peer's certificate has expired.
    Expired,
    /// The peer asks for a certificate, and this side has none.
    CertificateRequired,
    /// The peer does not accept this side's certificate.
    NotAccepted,
    /// The peer does not know who vouches for this side's certificate.
    OwnAuthorityUnknown,
}

impl Mismatch {
    /// All there are.
    pub const ALL: [Mismatch; 10] = [
        Mismatch::EndsBeforeTls,
        Mismatch::PeerInClear,
        Mismatch::PeerUnderTls,
        Mismatch::OtherFingerprint,
        Mismatch::UnknownAuthority,
        Mismatch::OtherName,
        Mismatch::Expired,
        Mismatch::CertificateRequired,
        Mismatch::NotAccepted,
        Mismatch::OwnAuthorityUnknown,
    ];

    /// The one that a message says, as text is all that events pass on of a [`Broken`].
    pub fn in_message(message: &str) -> Option<Mismatch> {
        Mismatch::ALL.into_iter().find(|mismatch| message.ends_with(mismatch.text()))
    }

    fn text(self) -> &'static str {
        match self {
            Mismatch::EndsBeforeTls => "closed by the other side before TLS was set up",
            Mismatch::PeerInClear => "the other side does not speak TLS",
            Mismatch::PeerUnderTls => "the other side speaks TLS, and this side does not",
            Mismatch::OtherFingerprint => {
                "its certificate has another fingerprint than those that are trusted"
            }
            Mismatch::UnknownAuthority => "its certificate was issued by nobody that is trusted",
            Mismatch::OtherName => "its certificate is for another name",
            Mismatch::Expired => "its certificate has expired",
            Mismatch::CertificateRequired => "it asks for a certificate of this side",
            Mismatch::NotAccepted => "it does not accept the certificate of this side",
            Mismatch::OwnAuthorityUnknown => "it does not know who issued the certificate of this side",
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

fn explain(mismatch: Option<Mismatch>) -> String {
    mismatch.map_or_else(String::new, |mismatch| format!("; {mismatch}"))
}

fn of_tls(error: &rustls::Error) -> Option<Mismatch> {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
    Some(match error {
        Error::InvalidMessage(_) => Mismatch::PeerInClear,
        Error::InvalidCertificate(Certificate::ApplicationVerificationFailure) => Mismatch::OtherFingerprint,
        Error::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature) => {
            Mismatch::UnknownAuthority
        }
        Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => Mismatch::OtherName,
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            Mismatch::Expired
        }
        Error::AlertReceived(Alert::CertificateRequired) => Mismatch::CertificateRequired,
        Error::AlertReceived(Alert::AccessDenied) => Mismatch::NotAccepted,
        Error::AlertReceived(Alert::UnknownCA) => Mismatch::OwnAuthorityUnknown,
        _ => return None,
    })
}

/// What else speaks there.
fn of_frames(error: &Malformed) -> Option<Mismatch> {
    let tls = |bytes: &usize| matches!(bytes >> 16, TLS_ALERT | TLS_HANDSHAKE);
    matches!(error, Malformed::TooLong(bytes) if tls(bytes)).then_some(Mismatch::PeerUnderTls)
}

impl Channel {
    /// To a peer that was connected to.
    pub fn new(security: Security) -> Self {
        let (unsent, sealed) = Default::default();
        let (handed, written, max_unsent, closing) = (0, 0, MAX_UNSENT_BYTES, false);
        let frames = Frames::default();
        Channel { security, frames, unsent, handed, sealed, written, max_unsent, closing }
    }

    /// To a peer that has connected: it may leave less unread.
    pub fn of_a_stranger(security: Security) -> Self {
        Channel { max_unsent: MAX_UNSENT_BYTES_OF_A_STRANGER, ..Channel::new(security) }
    }

    /// Whether messages can pass: TLS, if there is any, has shaken hands.
    pub fn is_open(&self) -> bool {
        match &self.security {
            Security::Tls(tls) => !tls.is_handshaking(),
            Security::Known(_) | Security::Clear => true,
        }
    }

    /// What protects datagrams with keys of this label; nothing does in clear.
    ///
    /// # Errors
    /// [`Broken::Tls`] before the channel is open.
    pub fn protection(&self, label: &[u8], side: Side) -> Result<Protection, Broken> {
        let mut secret = [0; SECRET_BYTES];
        match &self.security {
            Security::Tls(tls) => {
                tls.export_keying_material(&mut secret, label, None)?;
            }
            Security::Known(known) => {
                let known = Prk::new_less_safe(HKDF_SHA256, known);
                let filled = known.expand(&[label], HKDF_SHA256).and_then(|okm| okm.fill(&mut secret));
                filled.expect("32 bytes are less than HKDF's limit");
            }
            Security::Clear => return Ok(Protection::insecure()),
        }
        Ok(Protection::new(&secret, side))
    }

    /// What it means that the stream has ended, or has failed.
    pub fn ended(&self, error: Option<io::Error>) -> Broken {
        // Who does not speak TLS resets the stream rather than ending it.
        match error.filter(|e| self.is_open() || e.kind() != io::ErrorKind::ConnectionReset) {
            Some(error) => Broken::Io(error),
            None if self.is_open() => Broken::Closed,
            None => Broken::ClosedEarly,
        }
    }

    /// Bytes of the stream have come.
    ///
    /// # Errors
    /// [`Broken`]; the rest of [`Channel::outgoing`] then tells the peer why.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let Security::Tls(tls) = &mut self.security else {
            self.frames.extend(bytes);
            return Ok(());
        };
        for mut piece in bytes.chunks(OPENED_AT_ONCE_BYTES) {
            while !piece.is_empty() {
                tls.read_tls(&mut piece)?;
                let state = tls.process_new_packets()?;
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                tls.reader().read_exact(&mut plain)?;
                self.frames.extend(&plain);
                if state.peer_has_closed() {
                    return Err(Broken::Closed);
                }
            }
        }
        Ok(())
    }

    /// The next message that has come whole.
    ///
    /// # Errors
    /// [`Broken::Malformed`].
    pub fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Broken> {
        Ok(self.frames.message()?)
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`Broken::Unread`]; [`Broken::Malformed`] if it is longer than a frame may be.
    pub fn send<M: Serialize>(&mut self, message: &M) -> Result<(), Broken> {
        wire::control::emit(message, &mut self.unsent)?;
        if self.unsent_bytes() > self.max_unsent {
            return Err(Broken::Unread);
        }
        Ok(())
    }

    /// Bytes of messages that are queued.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.handed
    }

    /// Bytes that it holds, both ways: messages that are not whole, and what the peer has not read.
    pub fn held_bytes(&self) -> usize {
        self.frames.held_bytes() + self.unsent.capacity() + self.sealed.capacity()
    }

    /// The next bytes for the stream; [`Channel::written`] tells how many it has taken.
    pub fn outgoing(&mut self) -> &[u8] {
        let Security::Tls(tls) = &mut self.security else { return &self.unsent[self.handed..] };
        if self.written == self.sealed.len() {
            self.sealed.clear();
            self.sealed.shrink_to(KEPT_BYTES);
            self.written = 0;
        }
        while self.sealed.len() < SEALED_AHEAD_BYTES {
            // It takes what it has room for, and nothing once it has failed.
            self.handed += tls.writer().write(&self.unsent[self.handed..]).unwrap_or(0);
            if self.handed == self.unsent.len() && std::mem::take(&mut self.closing) {
                tls.send_close_notify();
            }
            if !tls.wants_write() || tls.write_tls(&mut self.sealed).is_err() {
                break;
            }
        }
        self.clear_handed();
        &self.sealed[self.written..]
    }

    fn clear_handed(&mut self) {
        if self.handed == self.unsent.len() {
            self.unsent.clear();
            self.unsent.shrink_to(KEPT_BYTES);
            self.handed = 0;
        }
    }

    /// The stream has taken so many of [`Channel::outgoing`]'s bytes.
    pub fn written(&mut self, bytes: usize) {
        if matches!(self.security, Security::Tls(_)) {
            self.written += bytes;
            return;
        }
        self.handed += bytes;
        self.clear_handed();
    }

    /// Whether the stream has something to take.
    pub fn wants_write(&self) -> bool {
        let tls = matches!(&self.security, Security::Tls(tls) if tls.wants_write());
        self.unsent_bytes() > 0 || self.written < self.sealed.len() || tls || self.closing
    }

    /// Nothing follows what is queued: TLS says so.
    pub fn close(&mut self) {
        self.closing = matches!(self.security, Security::Tls(_));
    }
}

#[cfg(test)]
#[path = "../tests/tls/mod.rs"]
mod tls;

#[cfg(test)]
mod tests {
    use wire::control::Client;

    use super::tls::Tls;
    use super::*;

    /// Both ends of a channel under TLS: the client's, and the server's.
    fn pair() -> (Channel, Channel) {
        let tls = Tls::new();
        (Channel::new(Some(tls.client("here")).into()), Channel::of_a_stranger(Some(tls.server()).into()))
    }

    /// Carries what there is from one end to the other, at most so many bytes at a time.
    fn carry(from: &mut Channel, to: &mut Channel, at_once: usize) -> Result<(), Broken> {
        loop {
            let bytes = from.outgoing();
            let bytes = bytes[..bytes.len().min(at_once)].to_vec();
            if bytes.is_empty() {
                return Ok(());
            }
            from.written(bytes.len());
            to.receive(&bytes)?;
        }
    }

    fn message(number: u32) -> Client {
        Client::Done { request: 1, block: number }
    }

    #[test]
    fn messages_pass_in_order_however_the_stream_is_cut() {
        for at_once in [1, 7, 1000, usize::MAX] {
            for (mut client, mut server) in
                [pair(), (Channel::new(Security::Clear), Channel::new(Security::Clear))]
            {
                let mut got = 0;
                for number in 0..2000 {
                    client.send(&message(number)).unwrap();
                    if number % 100 == 0 {
                        carry(&mut client, &mut server, at_once).unwrap();
                        carry(&mut server, &mut client, at_once).unwrap();
                    }
                }
                carry(&mut client, &mut server, at_once).unwrap();
                while let Some(got_message) = server.message::<Client>().unwrap() {
                    assert_eq!(got_message, message(got));
                    got += 1;
                }
                assert_eq!(got, 2000);
                assert!(!client.wants_write() && client.is_open() && server.is_open());
            }
        }
    }

    #[test]
    fn both_ends_have_the_same_keys_and_one_for_each_label() {
        let (mut client, mut server) = pair();
        assert!(client.protection(b"one", Side::Client).is_err(), "there are none yet");
        for _ in 0..3 {
            carry(&mut client, &mut server, usize::MAX).unwrap();
            carry(&mut server, &mut client, usize::MAX).unwrap();
        }
        let known = || Channel::new(Security::Known([5; SECRET_BYTES]));
        for (client, server) in [(client, server), (known(), known())] {
            let mut seals = client.protection(b"one", Side::Client).unwrap();
            let header = wire::packet::Header { kind: wire::packet::Kind::Hello, connection: 1, number: 0 };
            let mut datagram = Vec::new();
            header.emit(&mut datagram);
            seals.seal(0, &mut datagram, 0);
            let opens = |label: &[u8]| {
                let mut protection = server.protection(label, Side::Server).unwrap();
                protection.open(&header, &mut datagram.clone()).is_ok()
            };
            assert!(opens(b"one") && !opens(b"two"));
        }
    }

    #[test]
    fn who_does_not_speak_tls_is_told_so_by_an_alert() {
        let (_, mut server) = pair();
        assert!(matches!(server.receive(b"\0\0\0\x04 and so on"), Err(Broken::Tls(_))));
        let alert = server.outgoing().to_vec();
        assert_eq!(alert.first(), Some(&0x15));
        let mut client = Channel::new(Security::Clear);
        client.receive(&alert).unwrap();
        let broken = client.message::<Client>().unwrap_err();
        assert!(broken.to_string().contains("the other side speaks TLS"), "{broken}");
    }

    #[test]
    fn a_mismatch_is_told_without_options_of_a_program_and_found_in_its_message() {
        use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
        let unknown = Broken::Tls(Error::InvalidCertificate(Certificate::UnknownIssuer));
        assert_eq!(Mismatch::in_message(&unknown.to_string()), Some(Mismatch::UnknownAuthority));
        let denied = Broken::Tls(Error::AlertReceived(Alert::AccessDenied));
        assert_eq!(Mismatch::in_message(&denied.to_string()), Some(Mismatch::NotAccepted));
        let early = Broken::ClosedEarly;
        assert_eq!(Mismatch::in_message(&early.to_string()), Some(Mismatch::EndsBeforeTls));
        assert_eq!(Mismatch::in_message(&Broken::Closed.to_string()), None);
        for mismatch in Mismatch::ALL {
            let text = mismatch.to_string();
            assert!(!text.contains("--") && !text.contains('`'), "{text}");
            assert_eq!(Mismatch::in_message(&text), Some(mismatch));
        }
    }

    #[test]
    fn a_stranger_that_does_not_read_is_given_up() {
        let mut server = Channel::of_a_stranger(Security::Clear);
        let broken = (0..1_000_000).find_map(|number| server.send(&message(number)).err());
        assert!(matches!(broken, Some(Broken::Unread)));
        assert!(server.unsent_bytes() < 2 * MAX_UNSENT_BYTES_OF_A_STRANGER);
    }
}
