use super::*;

/// Two ends of which the first has sent so many bytes already.
fn after(bytes: u32) -> (Signalling, Signalling) {
    let place = bytes.into();
    let end = || Signalling::respond(Time::ZERO, 7);
    (Signalling { base: place, next: place, high: place, ..end() }, Signalling { expected: place, ..end() })
}

#[test]
fn a_stream_goes_on_after_four_gibibytes() {
    for left in [1, 5_000] {
        let (mut one, mut other) = after(u32::MAX - left);
        let stream: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
        one.write(&stream);
        one.end();
        let (mut now, mut got, mut came) = (Time::ZERO, Vec::new(), 0);
        for _ in 0..1_000 {
            let mut datagram = Vec::new();
            while one.poll_transmit(now, &mut datagram) {
                came += 1;
                // Some is lost, and sent again.
                if came % 5 > 0 {
                    other.handle_datagram(now, &Header::parse(&datagram).unwrap(), &datagram);
                }
                datagram.clear();
            }
            while other.poll_transmit(now, &mut datagram) {
                one.handle_datagram(now, &Header::parse(&datagram).unwrap(), &datagram);
                datagram.clear();
            }
            got.extend(other.take());
            now = now + Duration::from_millis(1);
        }
        assert!(got == stream && other.has_ended(), "{} bytes: {other:?}", got.len());
        assert!(one.end_acknowledged && one.unacknowledged_bytes() == 0);
    }
}

#[test]
fn a_place_is_the_nearest_that_has_its_bits() {
    let turn = 1 << 32;
    assert_eq!(place(100, 90), Some(90));
    assert_eq!(place(turn - 10, 20), Some(turn + 20));
    assert_eq!(place(turn + 20, u32::MAX), Some(turn - 1));
    assert_eq!(place(3 * turn + 7, 9), Some(3 * turn + 9));
    assert_eq!(place(100, u32::MAX), None, "before the stream's beginning");
}
