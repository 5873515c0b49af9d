//! Sends a file: `sender IDENTITY RECEIVER FINGERPRINT FILE`. IDENTITY is a file that is made if there is none.

use std::path::Path;

use weir_transport::{Fingerprint, Result, Sender, identity_at};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [identity, receiver, fingerprint, file] = &args[..] else { panic!("four arguments") };
    let identity = identity_at(identity)?;
    eprintln!("receivers know me as {}", identity.fingerprint());
    let trust = fingerprint.parse::<Fingerprint>()?;
    let sender = Sender::builder().identity(identity).trust(trust).connect(receiver)?;
    sender.send("file", Path::new(file)).wait()?;
    sender.finish().wait()
}
