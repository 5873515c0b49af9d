//! Serves standard input as the object "input": `server ADDRESS`. Prints where it listens, and its fingerprint.

use std::sync::Arc;

use weir_transport::{Objects, Result, Server, spool};

fn main() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or("[::]:4860".to_owned());
    let objects = Arc::new(Objects::new());
    objects.insert("input", spool(std::io::stdin(), 1 << 30)?);
    let server = Server::builder().bind(&address, objects)?;
    println!("{} {}", server.address(), server.fingerprint().expect("it is secure"));
    server.wait()?;
    Ok(())
}
