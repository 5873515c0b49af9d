//! What becomes of an end that the system fails. It has a process of its own, in which it knows all pollers and sockets.

use std::fs;
use std::mem::ManuallyDrop;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use weir_transport::{Client, Error, IntoSource, Object, Offer, Receiver, Refused, Sender, Source, Transfer};

const SOON: Duration = Duration::from_secs(60);

/// Descriptors of this process that stand for something of this kind.
fn descriptors(kind: &str) -> Vec<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let stands = entries.filter(|path| {
        let what = fs::read_link(path);
        what.is_ok_and(|what| what.to_string_lossy().starts_with(kind))
    });
    stands.map(|path| path.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

fn pollers() -> Vec<RawFd> {
    descriptors("anon_inode:[eventpoll]")
}

/// Puts another file into the place of a poller: no wait succeeds any more.
fn break_poller(descriptor: RawFd) {
    let nothing = fs::File::open("/dev/null").unwrap();
    // SAFETY: it is open, and its owner goes on to own what is put in its place.
    let mut poller = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(descriptor) });
    rustix::io::dup2(&nothing, &mut poller).unwrap();
}

fn failed<T>(mut transfer: Transfer<T>) -> bool {
    matches!(transfer.wait_for(SOON).expect("it takes a minute"), Err(Error::System(_)))
}

/// Waits until there are no more sockets than these: what an end had is given back, so that nothing works on it any more.
fn given_back(sockets: usize) {
    let until = Instant::now() + SOON;
    while descriptors("socket:").len() > sockets {
        assert!(Instant::now() < until, "its sockets are open");
        std::thread::yield_now();
    }
}

fn a_sender() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (others, sockets) = (pollers(), descriptors("socket:").len());
    let sender = Sender::builder().insecure().connect(&silent.local_addr().unwrap().to_string()).unwrap();
    let before = sender.send("before", "text");
    pollers().into_iter().filter(|poller| !others.contains(poller)).for_each(break_poller);
    let after = sender.send("after", "text");
    assert!(failed(before) && failed(after));
    given_back(sockets);
    assert!(failed(sender.send("late", "text")) && failed(sender.finish()));
}

fn a_client() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (others, sockets) = (pollers(), descriptors("socket:").len());
    let client = Client::builder().insecure().connect([silent.local_addr().unwrap().to_string()]).unwrap();
    let (fetch, list) = (client.fetch("before"), client.list("."));
    pollers().into_iter().filter(|poller| !others.contains(poller)).for_each(break_poller);
    let after = client.fetch("after");
    assert!(failed(fetch) && failed(list) && failed(after));
    given_back(sockets);
    assert!(failed(client.fetch("late")) && failed(client.list(".")));
}

/// What cannot be read until the other end of the channel is dropped.
struct Stuck(Object, Mutex<mpsc::Receiver<()>>);

impl Source for Stuck {
    fn object(&self) -> Object {
        self.0
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), Refused> {
        let _ = self.1.lock().unwrap().recv();
        Ok(())
    }
}

fn a_receiver() {
    let (others, sockets) = (pollers(), descriptors("socket:").len());
    let receiver = Receiver::builder().insecure().bind("127.0.0.1:0").unwrap();
    let own: Vec<RawFd> = pollers().into_iter().filter(|poller| !others.contains(poller)).collect();
    let sender = Sender::builder().insecure().connect(&receiver.address().to_string()).unwrap();
    let (hold, held) = mpsc::channel();
    let stuck = Arc::new(Stuck("text".into_source().unwrap().object(), Mutex::new(held)));
    let sent = [sender.send("coming", stuck as Arc<dyn Source>), sender.send("offered", "text")];
    let next = || -> Offer { receiver.offer().wait_for(SOON).unwrap().expect("it is offered") };
    let (coming, offered) = (next().into_bytes(), next());
    own.into_iter().for_each(break_poller);
    assert!(failed(offered.into_bytes()) && failed(coming));
    for _ in 0..2 {
        assert!(matches!(receiver.offer().wait(), Err(Error::System(_))));
    }
    drop((hold, sent, sender));
    given_back(sockets);
}

#[test]
fn an_end_that_the_system_fails_tells_all_who_wait_and_works_no_more() {
    a_sender();
    a_client();
    a_receiver();
}
