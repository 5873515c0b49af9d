//! Client, server, sender and receiver as a program uses them, on the loopback.

use std::fs;
use std::io::{self, Cursor};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use weir_transport::{
    AnySource, Client, Directory, Error, Identity, IntoSource, Layout, Limits, Object, Objects, Offer,
    Parameters, Receiver, Refusal, Refused, Sender, Server, Sink, Source, Transfer, async_reader,
    async_spool, async_writer, reader,
};

const SOON: Duration = Duration::from_secs(60);

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n / 1000 % 251) as u8).collect()
}

fn ended<T>(mut transfer: Transfer<T>) -> Result<T, Error> {
    transfer.wait_for(SOON).expect("it takes a minute")
}

/// Servers that have the same identity.
fn servers(count: usize, objects: impl Fn(usize) -> Arc<Objects>) -> (Vec<Server>, Client) {
    let scratch = tempfile::tempdir().unwrap();
    let identity = || weir_transport::identity_at(scratch.path().join("identity.pem")).unwrap();
    let bind = |n| Server::builder().identity(identity()).bind("127.0.0.1:0", objects(n)).unwrap();
    let servers: Vec<Server> = (0..count).map(bind).collect();
    let addresses = servers.iter().map(|server| server.address().to_string());
    let client = Client::builder().trust(identity().fingerprint()).connect(addresses).unwrap();
    (servers, client)
}

fn one(name: &str, source: AnySource) -> Arc<Objects> {
    let objects = Arc::new(Objects::new());
    objects.insert(name, source);
    objects
}

/// A sender and a receiver that know each other.
fn pair() -> (Sender, Receiver) {
    let identity = Identity::generate().unwrap();
    let receiver = Receiver::builder().clients(identity.fingerprint()).bind("127.0.0.1:0").unwrap();
    let trust = receiver.fingerprint().unwrap();
    let sender = Sender::builder().identity(identity).trust(trust).rate(500e6);
    (sender.connect(&receiver.address().to_string()).unwrap(), receiver)
}

fn next(receiver: &Receiver) -> Offer {
    receiver.offer().wait_for(SOON).unwrap().expect("something is offered")
}

#[test]
fn every_server_gives_a_part() {
    let content = content(10_000_000);
    let (servers, client) = servers(3, |_| one("it", content.clone().into_source().unwrap()));
    assert!(ended(client.fetch("it")).unwrap() == content);
    drop(client);
    for server in servers {
        assert!(server.stop().unwrap().data.symbols > 500);
    }
}

/// Gives one block, and then waits until the other end of the channel is dropped.
struct Stuck(Vec<u8>, Object, Mutex<mpsc::Receiver<()>>);

impl Source for Stuck {
    fn object(&self) -> Object {
        self.1
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Refused> {
        if offset > 0 {
            let _ = self.2.lock().unwrap().recv();
        }
        bytes.copy_from_slice(&self.0[offset as usize..][..bytes.len()]);
        Ok(())
    }
}

#[test]
fn what_a_server_has_not_given_when_it_stops_comes_from_another() {
    let content = content(10_000_000);
    let whole = content.clone().into_source().unwrap();
    let (hold, held) = mpsc::channel();
    let stuck: AnySource = Arc::new(Stuck(content.clone(), whole.object(), Mutex::new(held)));
    let sources = [stuck, whole];
    let (mut servers, client) = servers(2, |n| one("it", sources[n].clone()));
    let mut transfer = client.fetch("it");
    while transfer.bytes_done() < 1_000_000 {
        assert!(transfer.wait_for(Duration::from_millis(1)).is_none(), "a part of it cannot come");
    }
    servers.remove(0).stop().unwrap();
    assert!(ended(transfer).unwrap() == content);
    drop(hold);
}

#[test]
fn servers_with_different_versions_do_not_mix() {
    let (_servers, client) = servers(2, |n| one("it", vec![n as u8; 5_000_000].into_source().unwrap()));
    let fetched = ended(client.fetch("it")).unwrap();
    assert_eq!(fetched.len(), 5_000_000);
    assert!(fetched.iter().all(|byte| *byte == fetched[0]));
}

#[test]
fn an_object_that_nobody_has_is_refused_and_one_too_long_for_memory_as_well() {
    let server =
        Server::builder().bind("127.0.0.1:0", one("it", content(1000).into_source().unwrap())).unwrap();
    let client = Client::builder().trust(server.fingerprint().unwrap()).memory_limit(999);
    let client = client.connect([server.address().to_string()]).unwrap();
    assert!(matches!(ended(client.fetch("other")), Err(Error::Refused { refusal: Refusal::NotFound, .. })));
    let told = ended(client.fetch("it")).unwrap_err().to_string();
    assert!(told.contains("999 may come into memory"), "{told}");
    assert_eq!(ended(client.fetch_to("it", io::sink())).unwrap(), 1000);
}

#[test]
fn a_directory_is_served_and_listed() {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir(scratch.path().join("a")).unwrap();
    fs::write(scratch.path().join("a/b"), "content").unwrap();
    let store = Arc::new(Directory::open(scratch.path()).unwrap());
    let server = Server::builder().insecure().bind("127.0.0.1:0", store).unwrap();
    assert_eq!(server.fingerprint(), None);
    let client = Client::builder().insecure().connect([server.address().to_string()]).unwrap();
    let (entries, omitted) = ended(client.list(".")).unwrap();
    assert_eq!(entries.iter().map(|entry| &*entry.path).collect::<Vec<_>>(), ["a", "a/b"]);
    assert!(omitted.is_empty());
    assert_eq!(ended(client.fetch("a/b")).unwrap(), b"content");
}

#[test]
fn a_listing_takes_no_more_memory_than_its_client_may_hold() {
    let scratch = tempfile::tempdir().unwrap();
    for n in 0..8000 {
        fs::write(scratch.path().join(format!("{n:0100}")), "").unwrap();
    }
    let list = |memory_bytes| {
        let identity = Identity::generate().unwrap();
        let trust = identity.fingerprint();
        let directory = Arc::new(Directory::open(scratch.path()).unwrap());
        let limits = Limits { memory_bytes, ..Limits::default() };
        let server = Server::builder().identity(identity).limits(limits);
        let server = server.bind("127.0.0.1:0", directory).unwrap();
        let client = Client::builder().trust(trust);
        let client = client.connect([server.address().to_string()]).unwrap();
        ended(client.list("."))
    };
    // One address may hold an eighth, and all that is found 124 bytes each.
    let (entries, _) = list(16 << 20).unwrap();
    assert_eq!(entries.len(), 8000);
    let error = list(4 << 20).unwrap_err().to_string();
    assert!(error.contains("bytes of memory, for which there is no room"), "{error}");
}

/// Tells of what it gets.
struct Telling(mpsc::Sender<String>);

impl Sink for Telling {
    fn begin(&mut self, parameters: &Parameters, _: Layout) -> io::Result<()> {
        self.0.send(format!("begin {}", parameters.size)).map_err(io::Error::other)
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.send(format!("block {offset} {}", bytes.len())).map_err(io::Error::other)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.send("finish".into()).map_err(io::Error::other)
    }
}

#[test]
fn sinks_and_empty_objects() {
    let objects = one("it", content(1000).into_source().unwrap());
    objects.insert("empty", b"".into_source().unwrap());
    let (_servers, client) = servers(2, |_| objects.clone());
    let (tell, told) = mpsc::channel();
    assert_eq!(ended(client.fetch_into("it", Telling(tell.clone()))).unwrap(), 1000);
    assert_eq!(ended(client.fetch_into("empty", Telling(tell))).unwrap(), 0);
    let told: Vec<String> = told.iter().collect();
    assert_eq!(told, ["begin 1000", "block 0 1000", "finish", "begin 0", "finish"]);
}

#[test]
fn a_fetch_that_is_dropped_is_cancelled_and_others_go_on() {
    let (_servers, client) = servers(1, |_| one("it", content(20_000_000).into_source().unwrap()));
    let (tell, told) = mpsc::channel();
    let dropped = client.fetch_into("it", Telling(tell));
    told.recv_timeout(SOON).unwrap();
    drop(dropped);
    assert_eq!(ended(client.fetch("it")).unwrap().len(), 20_000_000);
    assert!(!told.iter().any(|what| what == "finish"));
}

#[test]
fn a_sender_learns_what_becomes_of_each_object() {
    let (sender, receiver) = pair();
    let content = content(3_000_000);
    let taken = sender.send("taken", reader(Cursor::new(content.clone()), 3_000_000).unwrap());
    assert!(ended(next(&receiver).into_bytes()).unwrap() == content);
    ended(taken).unwrap();
    let refused = sender.send("refused", "text");
    next(&receiver).refuse(Refusal::NoRoom, "no \u{1b}[31mroom");
    let error = ended(refused).unwrap_err();
    assert!(matches!(error, Error::Refused { refusal: Refusal::NoRoom, .. }));
    assert_eq!(error.to_string(), "refused: no \\u{1b}[31mroom");
    let ignored = sender.send("ignored", "text");
    drop(next(&receiver));
    assert!(matches!(ended(ignored), Err(Error::Refused { .. })));
    let outside = sender.send("../outside", "text");
    assert!(matches!(ended(outside), Err(Error::Refused { refusal: Refusal::BadPath, .. })));
    let absent = sender.send("absent", std::path::Path::new("/nowhere"));
    assert!(matches!(ended(absent), Err(Error::Failed { .. })));
    ended(sender.finish()).unwrap();
}

#[test]
fn an_offer_whose_sender_has_gone_cannot_be_taken() {
    let (sender, receiver) = pair();
    let cancelled = sender.send("cancelled", "text");
    let offer = next(&receiver);
    drop(cancelled);
    let sent = sender.send("sent", "text");
    assert_eq!(ended(next(&receiver).into_bytes()).unwrap(), b"text");
    ended(sent).unwrap();
    assert!(matches!(ended(offer.into_bytes()), Err(Error::Failed { .. })));
}

#[test]
fn strangers_are_not_believed() {
    let receiver = Receiver::builder().clients(Identity::generate().unwrap().fingerprint());
    let receiver = receiver.bind("127.0.0.1:0").unwrap();
    let address = receiver.address().to_string();
    let believing = Sender::builder().trust(receiver.fingerprint().unwrap());
    let stranger = believing.identity(Identity::generate().unwrap()).connect(&address).unwrap();
    assert!(matches!(ended(stranger.send("it", "text")), Err(Error::Lost { .. })));
    let elsewhere = Identity::generate().unwrap().fingerprint();
    let sender = Sender::builder().trust(elsewhere).connect(&address).unwrap();
    assert!(matches!(ended(sender.send("it", "text")), Err(Error::Lost { .. })));
    assert!(receiver.offer().wait_for(Duration::ZERO).unwrap().is_none());
}

#[test]
fn a_setup_that_cannot_be_meant_is_refused() {
    let told = |error: Option<Error>| error.expect("it is refused").to_string();
    let receiver = Receiver::builder().bind("127.0.0.1:0").err();
    assert!(told(receiver).contains("who may send"));
    assert!(told(Client::builder().connect(["127.0.0.1:1"]).err()).contains("which server"));
    assert!(told(Sender::builder().connect("127.0.0.1:1").err()).contains("which receiver"));
    let rate = Sender::builder().insecure().rate(f64::NAN).connect("127.0.0.1:1").err();
    assert!(told(rate).contains("above 0"));
    let client = Client::builder().insecure().connect([] as [&str; 0]).unwrap();
    assert!(told(ended(client.fetch("it")).err()).contains("no servers"));
}

#[tokio::test]
async fn tokios_readers_and_writers() -> Result<(), Error> {
    let (sender, receiver) = pair();
    let content = content(300_000);
    let (mut end, other) = tokio::io::duplex(1000);
    let (read, mut write) = tokio::io::simplex(1000);
    let feeding = tokio::spawn({
        let content = content.clone();
        async move { tokio::io::AsyncWriteExt::write_all(&mut write, &content).await }
    });
    let sent = sender.send("streamed", async_reader(read, 300_000)?);
    let taken = receiver.offer().await?.write_to(async_writer(other)?);
    let reading = async {
        let mut bytes = vec![0; 300_000];
        tokio::io::AsyncReadExt::read_exact(&mut end, &mut bytes).await.map(|_| bytes)
    };
    let (bytes, taken, sent) = tokio::join!(reading, taken, sent);
    assert!(bytes? == content && taken? == 300_000);
    sent?;
    feeding.await.map_err(io::Error::other)??;
    let spooled = async_spool(Cursor::new(content.clone()), 300_000).await?;
    let (sent, offer) = (sender.send("spooled", spooled), receiver.offer().await?);
    assert!(offer.into_bytes().await? == content);
    sent.await?;
    sender.finish().await
}

#[tokio::test]
async fn ends_are_connected_in_tasks() {
    let server =
        Server::builder().insecure().bind("127.0.0.1:0", one("it", content(9).into_source().unwrap()));
    let server = server.unwrap();
    let client = Client::builder().insecure().connect_async([server.address().to_string()]).await.unwrap();
    assert_eq!(client.fetch("it").await.unwrap(), content(9));
    let receiver = Receiver::builder().insecure().bind("127.0.0.1:0").unwrap();
    let sender = Sender::builder().insecure().connect_async(receiver.address().to_string()).await.unwrap();
    assert_eq!(sender.receiver(), receiver.address());
    let unmeant = Sender::builder().connect_async("127.0.0.1:1").await;
    assert!(matches!(unmeant, Err(Error::Setup(_))));
}

#[tokio::test]
async fn a_future_that_is_dropped_takes_no_offer_with_it() {
    let (sender, receiver) = pair();
    let timeout = tokio::time::timeout(Duration::from_millis(20), receiver.offer());
    assert!(timeout.await.is_err());
    let sent = sender.send("it", "text");
    let offer = receiver.offer().await.unwrap();
    let (bytes, sent) = tokio::join!(offer.into_bytes(), sent);
    assert_eq!(bytes.unwrap(), b"text");
    sent.unwrap();
}
