//! Whose turn it is: those that something has come for, and those whose time has come. Nobody else is looked at, however many
//! they are.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use crate::Time;

/// The connections of a driver, by their keys.
#[derive(Debug)]
pub struct Agenda<K> {
    ready: HashSet<K>,
    times: HashMap<K, Time>,
    /// The same in order.
    timers: BTreeSet<(Time, K)>,
}

impl<K> Default for Agenda<K> {
    /// It is nobody's turn.
    fn default() -> Self {
        Agenda { ready: HashSet::new(), times: HashMap::new(), timers: BTreeSet::new() }
    }
}

impl<K: Copy + Eq + Hash + Ord> Agenda<K> {
    /// It is nobody's turn.
    pub fn new() -> Self {
        Agenda::default()
    }

    /// Something has come for it.
    pub fn wake(&mut self, key: K) {
        self.ready.insert(key);
    }

    /// Its time is `at`, and no other.
    pub fn set(&mut self, key: K, at: Option<Time>) {
        let before = match at {
            Some(at) => self.times.insert(key, at),
            None => self.times.remove(&key),
        };
        if before != at {
            before.map(|before| self.timers.remove(&(before, key)));
            self.timers.extend(at.map(|at| (at, key)));
        }
    }

    /// There is no such connection any more.
    pub fn remove(&mut self, key: K) {
        self.ready.remove(&key);
        self.set(key, None);
    }

    /// Those whose turn it is, each once. Their times are to be set again.
    pub fn take(&mut self, now: Time) -> Vec<K> {
        while let Some((_, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.set(key, None);
            self.ready.insert(key);
        }
        self.ready.drain().collect()
    }

    /// When it is somebody's turn: at [`Time::ZERO`] if it is somebody's now.
    pub fn next(&self) -> Option<Time> {
        if self.ready.is_empty() { self.timers.first().map(|(at, _)| *at) } else { Some(Time::ZERO) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn taken(agenda: &mut Agenda<u32>, now: u64) -> Vec<u32> {
        let mut keys = agenda.take(at(now));
        keys.sort_unstable();
        keys
    }

    #[test]
    fn who_is_woken_and_whose_time_has_come_has_a_turn_once() {
        let mut agenda = Agenda::new();
        agenda.set(1, Some(at(10)));
        agenda.set(2, Some(at(20)));
        agenda.wake(3);
        agenda.wake(3);
        agenda.wake(2);
        assert_eq!(agenda.next(), Some(Time::ZERO));
        assert_eq!(taken(&mut agenda, 5), [2, 3]);
        assert_eq!(agenda.next(), Some(at(10)));
        assert_eq!(taken(&mut agenda, 30), [1, 2]);
        assert_eq!((agenda.next(), taken(&mut agenda, 99)), (None, vec![]));
    }

    #[test]
    fn it_agrees_with_a_list_of_all_times() {
        let (mut agenda, mut times, mut state, mut now) = (Agenda::new(), BTreeMap::new(), 1_u64, 0);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..100_000 {
            let key = draw(20) as u32;
            match draw(4) {
                0 => {
                    agenda.remove(key);
                    times.remove(&key);
                }
                1 => {
                    now += draw(30);
                    let due: Vec<u32> = times.iter().filter(|(_, at)| **at <= now).map(|(k, _)| *k).collect();
                    assert_eq!(taken(&mut agenda, now), due);
                    times.retain(|_, at| *at > now);
                }
                _ => {
                    let time = now + draw(100);
                    agenda.set(key, Some(at(time)));
                    times.insert(key, time);
                }
            }
            assert_eq!(agenda.next(), times.values().min().map(|time| at(*time)));
        }
    }
}
