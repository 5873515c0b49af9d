//! A wait ends when another thread asks for it, whatever the patience.

use std::time::Duration;

use weir_udp::{Limits, ReceiveOptions, Receiving, ServerAddress};

const PATIENCE: Duration = Duration::from_secs(3600);

#[test]
fn a_wait_is_ended_from_another_thread() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let (config, limits) = (Default::default(), Limits::default());
    let receiving = ReceiveOptions { listen, tls: None, config, decode: true, limits };
    let mut receiving = Receiving::bind(receiving).unwrap();
    let wake = receiving.waker();
    let waker = std::thread::spawn(move || wake());
    assert!(receiving.wait(PATIENCE).unwrap().is_empty());
    waker.join().unwrap();

    let silent = std::net::TcpListener::bind(listen).unwrap();
    let server = ServerAddress { address: silent.local_addr().unwrap(), name: "it".into() };
    let mut fetching = weir_udp::Fetching::connect(&[server], None, Default::default()).unwrap();
    fetching.waker()();
    assert!(fetching.wait(PATIENCE).unwrap().is_empty());

    let to = receiving.local_addr().unwrap();
    let sending = weir_udp::SendOptions { to, name: "it".into(), tls: None, config: Default::default() };
    let mut sending = weir_udp::Sending::connect(sending).unwrap();
    sending.waker()();
    assert!(sending.wait(PATIENCE).unwrap().is_empty());
}
