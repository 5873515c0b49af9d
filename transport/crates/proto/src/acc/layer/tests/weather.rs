//! The layer under any weather: loss, copies, changed bits, jitter, and hosts that are started again.

use std::collections::BTreeMap;
use std::time::Duration;

use codec::Random;
use proptest::prelude::{ProptestConfig, Strategy as _, any, proptest};

use super::{Hosts, Layer, MS, config, tcp};

const US: Duration = Duration::from_micros(1);

/// What happens in a run.
#[derive(Clone, Copy, Debug)]
struct Weather {
    seed: u64,
    loss: u32,
    copies: u32,
    altered: u32,
    jitter: u32,
    restarts: u32,
}

/// TCP's packets between two hosts for so long, under any weather: what is handed on was sent, and once at most, unless hosts are started again.
fn weather(time: Duration, weather: Weather) {
    let mut hosts = Hosts::pair();
    let random = std::rc::Rc::new(std::cell::RefCell::new(Random::new(weather.seed)));
    let draw = |of: u32| random.borrow_mut().below(of.max(1));
    let (jitter, random_of_delay) = (weather.jitter, random.clone());
    hosts.delay = Box::new(move || MS + US * random_of_delay.borrow_mut().below(jitter + 1));
    let random_of_loss = random.clone();
    hosts.loses = Box::new(move |_, _, _| random_of_loss.borrow_mut().below(1000) < weather.loss);
    let (mut sent, mut given) = (BTreeMap::new(), 0_u64);
    let end = hosts.now + time;
    let mut number = 0_u64;
    while hosts.now < end {
        for _ in 0..draw(40) {
            let (from, to) = if draw(3) == 0 { (2, 1) } else { (1, 2) };
            let mut data = number.to_be_bytes().to_vec();
            data.resize(8 + draw(1300) as usize, number as u8);
            if draw(4) == 0 {
                data.clear();
            }
            let packet = tcp(from, to, 1000 + draw(4) as u16, &data);
            if hosts.send(&packet) && !data.is_empty() {
                sent.insert(number, packet);
            }
            number += 1;
        }
        for n in (0..hosts.under_way.len()).rev() {
            let one = hosts.under_way[n].clone();
            if draw(1000) < weather.copies {
                hosts.under_way.push((one.0 + US * draw(5000), one.1, one.2, one.3));
            } else if draw(1000) < weather.altered {
                let at = draw(one.3.len() as u32) as usize;
                hosts.under_way[n].3[at] ^= 1 << draw(8);
            }
        }
        hosts.run(US * draw(30_000));
        // A pause now and then, of minutes.
        if draw(5000) == 0 {
            hosts.run(Duration::from_secs(draw(200).into()));
        }
        if draw(1000) < weather.restarts {
            let host = 1 + draw(2) as u8;
            if draw(2) == 0 {
                hosts.with(host, |layer, _, out| layer.leave(out));
            }
            let mut seed = [host; 32];
            seed[..8].copy_from_slice(&number.to_be_bytes());
            hosts.layers.insert(host, Layer::new(config(), &seed));
        }
        if hosts.layers.values().any(|layer| layer.peers().all(|peer| !peer.up)) {
            hosts.look_for(1, 2, true);
            hosts.look_for(2, 1, true);
        }
        for host in [1, 2] {
            for packet in hosts.given(host) {
                if packet.len() > 40 {
                    let number = u64::from_be_bytes(*packet[40..].first_chunk().unwrap());
                    assert!(sent.get(&number) == Some(&packet), "{weather:?}: not sent, or given again");
                    if weather.restarts == 0 {
                        sent.remove(&number);
                    }
                    given += 1;
                }
            }
            assert!(hosts.layers[&host].held_bytes() < 4 * 3 * 256 * 1500);
        }
        // What is lost is never given.
        if sent.len() > 5000 {
            sent = sent.split_off(&(number - 2500));
        }
        hosts.events.clear();
    }
    assert!(given > 0 || weather.loss > 500, "{weather:?}");
}

fn any_weather() -> impl proptest::strategy::Strategy<Value = Weather> {
    let some = (any::<u64>(), 0..300_u32, 0..100_u32, 0..50_u32, 0..3000_u32, 0..10_u32);
    some.prop_map(|(seed, loss, copies, altered, jitter, restarts)| Weather {
        seed,
        loss,
        copies,
        altered,
        jitter,
        restarts: restarts.saturating_sub(5),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_what_was_sent_whatever_the_weather(conditions in any_weather()) {
        weather(Duration::from_secs(20), conditions);
    }
}

/// A day, in hours of which each has its own weather: minutes of a processor, so only where asked for (`make soak-acc`).
#[test]
#[ignore = "takes minutes"]
fn a_day_of_any_weather() {
    let hours = std::env::var("WEIR_HOURS").map_or(24, |hours| hours.parse().expect("a number of hours"));
    let mut random =
        Random::new(std::env::var("WEIR_SEED").map_or(1, |seed| seed.parse().expect("a number")));
    for hour in 0..hours {
        let mut below = |most: u32| random.below(most);
        let conditions = Weather {
            seed: hour,
            loss: below(200),
            copies: below(50),
            altered: below(20),
            jitter: below(3000),
            restarts: below(6).saturating_sub(3),
        };
        println!("hour {hour}: {conditions:?}");
        weather(Duration::from_secs(3600), conditions);
    }
}
