use super::super::redundancy::Policy;
use super::*;

fn scheduler() -> Scheduler {
    Strategy::Complementary(Policy::default()).scheduler()
}

fn sender(packets: u64) -> Sender {
    let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.1);
    for number in 0..packets {
        assert_eq!(sender.on_packet(Time::ZERO, &[number as u8; 100]), number);
    }
    sender
}

#[test]
fn a_window_is_followed_by_coded_packets_once_nothing_more_is_sent() {
    let mut sender = sender(3);
    let mut coded = Vec::new();
    sender.handle_timeout(Time::ZERO, &mut scheduler(), &mut coded);
    assert_eq!(coded, [], "more may follow");
    let at = sender.poll_timeout().unwrap();
    sender.handle_timeout(at, &mut scheduler(), &mut coded);
    assert!((1..=5).contains(&coded.len()) && coded.iter().all(|one| (one.first, one.count) == (0, 3)));
    assert_eq!(sender.poll_timeout(), None);
    // The next one is coded only when the last packet of this one, or a later one, has come.
    sender.on_packet(at, b"another");
    coded.clear();
    sender.handle_timeout(sender.poll_timeout().unwrap(), &mut scheduler(), &mut coded);
    sender.on_feedback(Time::ZERO, Feedback { next: 1, through: 1, lost: 0 }, &mut scheduler(), &mut coded);
    assert_eq!(coded, []);
    sender.on_feedback(Time::ZERO, Feedback { next: 3, through: 3, lost: 0 }, &mut scheduler(), &mut coded);
    assert!(!coded.is_empty() && coded.iter().all(|one| (one.first, one.count) == (3, 1)));
}

#[test]
fn losses_are_followed_by_as_many_coded_packets_at_least() {
    let mut sender = sender(10);
    let mut coded = Vec::new();
    sender.on_feedback(Time::ZERO, Feedback { next: 2, through: 8, lost: 3 }, &mut scheduler(), &mut coded);
    assert!(coded.len() >= 3 && coded.iter().all(|one| (one.first, one.count) == (2, 8)));
    let loss = sender.loss();
    coded.clear();
    sender.on_feedback(Time::ZERO, Feedback { next: 2, through: 8, lost: 3 }, &mut scheduler(), &mut coded);
    assert_eq!((coded.len(), sender.loss()), (0, loss), "it says nothing new");
}

#[test]
fn the_end_of_a_burst_that_fills_the_queue_is_the_queues_loss_though_the_next_packet_finds_it_empty() {
    let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.0);
    let (mut scheduler, mut coded) = (scheduler(), Vec::new());
    // Most packets meet no queue, and few of them are lost.
    scheduler.losses.on_packets(1000, 5, false);
    let at = |us: u64| Time::from_nanos(us * 1000);
    let mut told = |sender: &mut Sender, us, next, through, lost| {
        sender.on_feedback(at(us), Feedback { next, through, lost }, &mut scheduler, &mut coded)
    };
    sender.on_packet(at(0), b"alone");
    assert_eq!(told(&mut sender, 300, 1, 1, 0).sent, 1);
    for _ in 0..20 {
        sender.on_packet(at(300), b"one of a burst");
    }
    // Ten of them fill the queue, the others find it full.
    assert_eq!(told(&mut sender, 5300, 11, 11, 0).sent, 10);
    sender.on_packet(at(5400), b"after it");
    let after = told(&mut sender, 5700, 11, 22, 10);
    assert_eq!((after.sent, after.lost, sender.loss()), (0, 0, 0.0));
    sender.on_packet(at(5800), b"much later");
    assert_eq!(told(&mut sender, 6100, 11, 23, 10).sent, 1);
    assert_eq!(coded, []);
}

#[test]
fn what_a_full_queue_loses_is_left_to_tcp_whatever_the_path_loses_besides() {
    let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.01);
    let (mut scheduler, mut coded) = (scheduler(), Vec::new());
    // Most packets meet no queue, and few of them are lost.
    scheduler.losses.on_packets(1000, 5, false);
    let at = |us: u64| Time::from_nanos(us * 1000);
    let mut told = |sender: &mut Sender, us, next, through, lost| {
        sender.on_feedback(at(us), Feedback { next, through, lost }, &mut scheduler, &mut coded);
        std::mem::take(&mut coded).len()
    };
    sender.on_packet(at(0), b"alone");
    assert_eq!(told(&mut sender, 300, 1, 1, 0), 0);
    assert!(sender.waits());
    for _ in 0..20 {
        sender.on_packet(at(300), b"one of a burst");
    }
    assert_eq!(told(&mut sender, 5300, 11, 15, 4), 0, "a long round trip");
    assert!(!sender.waits());
    sender.on_packet(at(5400), b"after it");
    assert_eq!(told(&mut sender, 5700, 11, 22, 10), 0, "the end of the burst");
    assert!(sender.waits());
    sender.on_packet(at(5800), b"much later");
    sender.on_packet(at(5800), b"one more");
    assert!(told(&mut sender, 6100, 11, 24, 11) > 0, "a short round trip: the path has lost it");
}

#[test]
fn a_path_that_loses_as_much_where_round_trips_are_short_is_no_queue() {
    let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.01);
    let (mut scheduler, mut coded) = (scheduler(), Vec::new());
    let (mut us, mut number, mut lost, mut left_to_tcp) = (0, 0, 0, 0);
    // Half of the round trips are long, as a host is busy. One packet in 50 is lost, then and otherwise.
    for turn in 0..2000 {
        let at = |us: u64| Time::from_nanos(us * 1000);
        let rtt = if turn % 20 < 10 { 300 } else { 2300 };
        for _ in 0..5 {
            sender.on_packet(at(us), b"some");
        }
        us += rtt;
        number += 5;
        lost += u64::from(turn % 10 == 5);
        let feedback = Feedback { next: number, through: number, lost };
        sender.on_feedback(at(us), feedback, &mut scheduler, &mut coded);
        left_to_tcp += usize::from(turn >= 1000 && !sender.waits());
        us += 100;
    }
    assert!(!scheduler.losses.is_queue_lossy());
    assert_eq!(left_to_tcp, 0);
    assert!(sender.loss() > 0.01, "all of it is the path's: {}", sender.loss());
}

/// A sender whose path has a queue that loses packets, which it has just met.
fn behind_a_queue() -> (Sender, Scheduler) {
    let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.01);
    let mut scheduler = scheduler();
    scheduler.losses.on_packets(1000, 10, false);
    scheduler.losses.on_packets(1000, 200, true);
    let mut tell = |sender: &mut Sender, us: u64, through| {
        let feedback = Feedback { next: through, through, lost: 0 };
        sender.on_feedback(Time::from_nanos(us * 1000), feedback, &mut scheduler, &mut Vec::new());
    };
    sender.on_packet(Time::ZERO, b"alone");
    tell(&mut sender, 300, 1);
    sender.on_packet(Time::from_nanos(300_000), &[0; 1400]);
    tell(&mut sender, 5300, 2);
    assert!(!sender.waits());
    (sender, scheduler)
}

#[test]
fn nothing_long_is_coded_into_a_queue_that_loses_packets() {
    let (mut sender, mut scheduler) = behind_a_queue();
    let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
    let mut coded = Vec::new();
    // More is sent before all is acknowledged.
    for (number, bytes) in [(2, 1400), (4, 50)] {
        sender.on_packet(ms(6), &[0; 1400]);
        let feedback = Feedback { next: number, through: number + 1, lost: 0 };
        sender.on_packet(ms(6), &vec![0; bytes]);
        sender.on_feedback(ms(12), feedback, &mut scheduler, &mut coded);
    }
    sender.handle_timeout(ms(20), &mut scheduler, &mut coded);
    assert_eq!(coded, []);
}

#[test]
fn what_follows_on_a_pause_has_not_met_the_queue_before_it() {
    let (mut sender, mut scheduler) = behind_a_queue();
    let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
    for _ in 0..10 {
        sender.on_packet(ms(300_000), &[0; 1400]);
    }
    assert!(sender.waits());
    let mut coded = Vec::new();
    let feedback = Feedback { next: 4, through: 8, lost: 1 };
    let told = sender.on_feedback(Time::from_nanos(300_000_400_000), feedback, &mut scheduler, &mut coded);
    assert_eq!((told.sent, told.lost), (6, 1));
    assert!(!coded.is_empty(), "the path has lost it");
}

#[test]
fn a_receiver_that_has_forgotten_the_flow_is_believed() {
    let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.0);
    let (mut scheduler, mut coded, mut seen) = (scheduler(), Vec::new(), 0);
    for round in 1..=200_u64 {
        for _ in 0..10 {
            sender.on_packet(Time::ZERO, b"some");
        }
        // From the middle on, it counts from 0 again.
        let lost = if round <= 100 { 10 * round } else { round - 101 };
        let feedback = Feedback { next: 10 * round, through: 10 * round, lost: lost.min(10 * round) };
        seen = sender.on_feedback(Time::ZERO, feedback, &mut scheduler, &mut coded).lost;
    }
    assert_eq!(seen, 1);
    assert!((0.05..0.2).contains(&sender.loss()), "{}", sender.loss());
    // What overtakes another one tells of nothing new.
    let late = Feedback { next: 5, through: 5, lost: 0 };
    assert_eq!(sender.on_feedback(Time::ZERO, late, &mut scheduler, &mut coded), Told::default());
}

#[test]
fn an_acknowledgement_that_is_told_of_late_is_no_long_round_trip() {
    let mut sender = sender(0);
    let (mut scheduler, mut coded) = (scheduler(), Vec::new());
    sender.on_acknowledgement(Time::ZERO, b"ack");
    let feedback = Feedback { next: 1, through: 1, lost: 0 };
    let told = sender.on_feedback(Time::from_nanos(20_000_000), feedback, &mut scheduler, &mut coded);
    assert_eq!((told.sent, told.rtt), (1, None));
}

#[test]
fn nonsense_changes_nothing_and_what_is_not_acknowledged_is_bounded() {
    let mut sender = sender(5000);
    let held = sender.held_bytes();
    assert!(held <= MOST_KEPT * 100);
    let mut coded = Vec::new();
    for (next, through, lost) in [(6, 5, 0), (0, 5001, 0), (0, 10, 11), (u64::MAX, u64::MAX, u64::MAX)] {
        sender.on_feedback(Time::ZERO, Feedback { next, through, lost }, &mut scheduler(), &mut coded);
    }
    assert_eq!((coded.len(), sender.held_bytes(), sender.base()), (0, held, 5000 - MOST_KEPT as u64));
}

#[test]
fn without_a_strategy_nothing_is_kept() {
    let mut sender = Sender::new(Strategy::Off, 0.5);
    for number in 0..100 {
        assert_eq!(sender.on_packet(Time::ZERO, b"packet"), number);
    }
    let mut coded = Vec::new();
    sender.on_feedback(Time::ZERO, Feedback { next: 50, through: 90, lost: 9 }, &mut scheduler(), &mut coded);
    assert_eq!((coded.len(), sender.held_bytes(), sender.poll_timeout()), (0, 0, None));
}
