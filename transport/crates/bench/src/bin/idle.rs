//! `bench-idle`: clients of an LTTP server that have said hello and want nothing: what they cost, `make bench-transport`
//! measures.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::json;
use udp::tls::{self, Fingerprint, Trust};
use wire::control::{Client, Frames, Server, emit};

type Failure = Box<dyn std::error::Error>;

/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Idle connections to a server, until stdin is closed.
#[derive(Parser)]
#[command(name = "bench-idle")]
struct Arguments {
    /// The server
    to: SocketAddr,
    /// The fingerprint of its certificate
    #[arg(long)]
    fingerprint: Fingerprint,
    /// How many connections; as many as the limit of open files allows, if that is fewer
    #[arg(long)]
    connections: usize,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let tls = tls::client(&Trust::Fingerprints(vec![arguments.fingerprint]), None)?;
    let mut idle = Vec::new();
    while idle.len() < arguments.connections {
        match greet(&tls, arguments.to) {
            Ok(connection) => idle.push(connection),
            Err(error) if idle.is_empty() => return Err(error),
            Err(error) => {
                eprintln!("bench-idle: after {} connections: {error}", idle.len());
                break;
            }
        }
    }
    println!("{}", json!({"event": "idle", "connections": idle.len()}));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A connection whose server has welcomed it.
fn greet(
    tls: &Arc<ClientConfig>,
    to: SocketAddr,
) -> Result<StreamOwned<ClientConnection, TcpStream>, Failure> {
    let socket = TcpStream::connect_timeout(&to, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(ClientConnection::new(tls.clone(), to.ip().into())?, socket);
    let mut hello = Vec::new();
    emit(&Client::Hello { version: wire::VERSION }, &mut hello)?;
    stream.write_all(&hello)?;
    stream.flush()?;
    let mut frames = Frames::default();
    let mut buffer = [0; 4096];
    loop {
        if let Some(message) = frames.message::<Server>()? {
            return match message {
                Server::Welcome { .. } => Ok(stream),
                other => Err(format!("no welcome but {other:?}").into()),
            };
        }
        match stream.read(&mut buffer)? {
            0 => return Err("the server has closed the connection".into()),
            count => frames.extend(&buffer[..count]),
        }
    }
}
