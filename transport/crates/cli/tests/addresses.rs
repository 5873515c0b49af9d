//! A host with several addresses, of which one does not answer and one refuses.

mod common;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, Said, Server, fountain};

const SILENT: &str = "127.9.0.1";
const REFUSING: &str = "127.9.0.2";
/// As near to this host's own as the others: so the system leaves them in their order.
const ANSWERING: &str = "127.9.0.3";

/// The command where a file names the addresses of the host `many`, in this order. It has to be root's.
fn with_hosts(folder: &Folder, command: &Command) -> Said {
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, format!("{SILENT} many\n{REFUSING} many\n{ANSWERING} many\n")).unwrap();
    let mut within = Command::new("unshare");
    within.args(["--mount", "sh", "-c", r#"mount --bind "$0" /etc/hosts && exec "$@""#]).arg(hosts);
    within.arg(command.get_program()).args(command.get_args());
    within.env("XDG_STATE_HOME", folder.path()).stdin(Stdio::null());
    Said::of(&within.output().unwrap())
}

/// A listener that answers nobody: its queue is full.
fn silent_listener(port: u16) -> (TcpListener, Vec<TcpStream>) {
    let address: SocketAddr = format!("{SILENT}:{port}").parse().unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket);
    let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    (listener, (0..8).map_while(fill).collect())
}

fn port(server: &Server) -> u16 {
    server.address.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[test]
fn a_file_is_fetched_from_the_address_that_answers() {
    let (served, into, scratch) = (Folder::new(), Folder::new(), Folder::new());
    served.put("file", 10_000);
    let server = Server::start_at(&format!("{ANSWERING}:0"), served.path(), &[]);
    let _silent = silent_listener(port(&server));
    for trust in [&["--fingerprint", server.fingerprint.as_ref().unwrap()][..], &["--accept-new"]] {
        let source = format!("many:{}/file", port(&server));
        let mut command = fountain(&["fetch", "--json", "-o", into.path().to_str().unwrap(), &source]);
        let said = with_hosts(&scratch, command.args(trust)).succeeded();
        assert_eq!(said.done()["servers"][0]["addr"], server.address.as_str());
        assert!(into.files() == served.files());
        fs::remove_file(into.path().join("file")).unwrap();
    }
}

#[test]
fn a_file_is_sent_to_the_address_that_answers() {
    let (sent, into, scratch) = (Folder::new(), Folder::new(), Folder::new());
    sent.put("file", 10_000);
    let receiver = Server::receive_at(&format!("{ANSWERING}:0"), into.path(), &[]);
    let _silent = UdpSocket::bind(format!("{SILENT}:{}", port(&receiver))).unwrap();
    let (to, file) = (format!("many:{}", port(&receiver)), sent.path().join("file"));
    let mut command = fountain(&["send", "--json", "--accept-new", "--tfrc", &to, file.to_str().unwrap()]);
    command.args(["--retry", "0"]);
    with_hosts(&scratch, &command).succeeded();
    assert!(into.files() == sent.files());
}
