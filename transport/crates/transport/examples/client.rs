//! Fetches an object from servers that have it, to standard output: `client NAME FINGERPRINT SERVER...`.

use weir_transport::{Client, Fingerprint, Result};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().expect("a name");
    let fingerprint: Fingerprint = args.next().expect("a fingerprint").parse()?;
    let client = Client::builder().trust(fingerprint).connect(args)?;
    let bytes = client.fetch_to(&name, std::io::stdout()).wait()?;
    eprintln!("{bytes} bytes");
    Ok(())
}
