//! Which option helps where the two ends do not fit together: the library does not know how this program is told.

use proto::channel::Mismatch;

/// Why a connection was lost, and what to do about that.
pub(crate) fn advised(why: &str) -> String {
    match Mismatch::in_message(why).map(advice) {
        Some(advice) => format!("{why}: {advice}"),
        None => why.to_owned(),
    }
}

fn advice(mismatch: Mismatch) -> &'static str {
    match mismatch {
        Mismatch::EndsBeforeTls => "if it is --insecure, be so here, too",
        Mismatch::PeerInClear => "both have to be --insecure, or neither",
        Mismatch::PeerUnderTls => "give its --fingerprint or --ca, not --insecure",
        Mismatch::OtherFingerprint => "give the --fingerprint that it prints",
        Mismatch::UnknownAuthority => "name the authority that issued it with --ca",
        Mismatch::OtherName => "connect to that",
        Mismatch::Expired => "it needs a new one",
        Mismatch::CertificateRequired => "give a --cert and its --key",
        Mismatch::NotAccepted => "have it accept the fingerprint that `fountain id` prints here",
        Mismatch::OwnAuthorityUnknown => "have it accept the authority of this side's --cert",
    }
}
