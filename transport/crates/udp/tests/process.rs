//! Who embeds these transports finds the process and the thread as they were.

use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::current_timer_slack;
use weir_udp::{
    Fetching, Limits, Objects, ReceiveOptions, Receiving, SendOptions, Sending, ServeOptions, ServerAddress,
    Serving,
};

#[test]
fn no_end_changes_the_process_or_the_thread_that_calls_it() {
    let most = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum: most }).unwrap();
    let before = current_timer_slack().unwrap();
    assert!(before > 1, "the system lets sleeps take longer");

    let listen = "127.0.0.1:0".parse().unwrap();
    let (limits, store) = (Limits::default(), Arc::new(Objects::new()));
    let serving = ServeOptions { listen, store, tls: None, config: Default::default(), limits };
    let mut serving = Serving::bind(serving).unwrap();
    let receiving = ReceiveOptions { listen, tls: None, config: Default::default(), decode: true, limits };
    let receiving = Receiving::bind(receiving).unwrap();
    let to = receiving.local_addr().unwrap();
    let sending = SendOptions { to, name: "it".into(), tls: None, config: Default::default() };
    let _sending = Sending::connect(sending).unwrap();
    let server = ServerAddress { address: serving.local_addr().unwrap(), name: "it".into() };
    let _fetching = Fetching::connect(&[server], None, Default::default()).unwrap();
    serving.stopper().stop();
    serving.run().unwrap();

    assert_eq!(current_timer_slack().unwrap(), before);
    assert_eq!(getrlimit(Resource::Nofile).current, Some(200));
    weir_udp::sleep_precisely();
    weir_udp::raise_file_limit();
    assert_eq!(current_timer_slack().unwrap(), 1);
    assert_eq!(getrlimit(Resource::Nofile).current, most);
}
