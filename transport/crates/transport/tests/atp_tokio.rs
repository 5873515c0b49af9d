//! ATP over real sockets, in tasks.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_transport::atp::Endpoint;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn tasks_talk_over_streams_that_are_open_both_ways() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Endpoint::builder().listen("127.0.0.1:0").unwrap();
        let (at, fingerprint) = (server.address(), server.fingerprint().unwrap());
        let serving = tokio::spawn(async move {
            let connection = server.next().await.unwrap();
            while let Ok(stream) = connection.next_stream().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = tokio::io::split(stream);
                    tokio::io::copy(&mut read, &mut write).await.unwrap();
                    write.shutdown().await.unwrap();
                });
            }
        });
        let client = Endpoint::builder().trust(fingerprint).client().unwrap();
        let connection = client.connect_to(at, "server").await.unwrap();
        let mut talks = Vec::new();
        for n in 0..200_usize {
            let connection = connection.clone();
            talks.push(tokio::spawn(async move {
                let mut stream = connection.open_stream().await.unwrap();
                for round in 0..10 {
                    let sent = bytes(n + round + 1);
                    stream.write_all(&sent).await.unwrap();
                    let mut back = vec![0; sent.len()];
                    stream.read_exact(&mut back).await.unwrap();
                    assert!(back == sent);
                }
                stream.shutdown().await.unwrap();
                assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            }));
        }
        for talk in talks {
            talk.await.unwrap();
        }
        drop((connection, client));
        serving.await.unwrap();
    });
}
