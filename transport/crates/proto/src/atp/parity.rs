//! XOR parity over packets (ATP, section II-A): systematic, one repair packet for each group, which repairs one loss.
//!
//! A group's members are chosen as they are sent, and each says to which group it belongs: so both ends add it to the group's sum
//! at once, and neither keeps packets. Groups that are open together take turns, so that a burst of losses falls on several.

use std::collections::VecDeque;

use wire::atp::{MAX_MEMBERS, Parity};

/// Groups that take turns at most.
const MOST_TURNS: u32 = 4;
/// Groups that a receiver remembers; a sender has no more of them open, or waiting to be sent.
const REMEMBERED: usize = 8;

/// The sum of some packets.
#[derive(Clone, Debug, Default)]
struct Sum {
    length: u16,
    xor: Vec<u8>,
}

impl Sum {
    fn add(&mut self, length: u16, frames: &[u8]) {
        self.length ^= length;
        if self.xor.len() < frames.len() {
            self.xor.resize(frames.len(), 0);
        }
        for (sum, byte) in self.xor.iter_mut().zip(frames) {
            *sum ^= byte;
        }
    }
}

/// The sender's part of a group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    id: u8,
    first: u64,
    members: u64,
    sum: Sum,
}

impl Group {
    /// What repairs it.
    pub(crate) fn parity(&self) -> Parity<'_> {
        let Group { id, first, members, sum } = self;
        Parity { group: *id, first: *first, members: *members, length: sum.length, xor: &sum.xor }
    }
}

/// What parity is good for. Where a queue overflows again and again, nearly everything that is lost has to be asked for, and parity only adds
/// to what there is no room for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Benefit {
    repaired: u64,
    asked_for: u64,
}

impl Benefit {
    /// Losses that are remembered: at least the last so many, if there were as many. Nothing is said of fewer than half of them.
    const LOSSES: u64 = 32;
    /// It is small if less than one loss in so many was repaired.
    const LEAST: u64 = 8;

    /// Parity has repaired so many losses, or so many had to be sent again.
    pub(crate) fn on_losses(&mut self, repaired: u64, asked_for: u64) {
        self.repaired += repaired;
        self.asked_for += asked_for;
        while self.repaired + self.asked_for >= 2 * Self::LOSSES {
            (self.repaired, self.asked_for) = (self.repaired / 2, self.asked_for / 2);
        }
    }

    /// Whether parity is not worth what it costs: then it is to be rare, but still there, as it may be worth more later.
    pub(crate) fn is_small(&self) -> bool {
        let losses = self.repaired + self.asked_for;
        losses >= Self::LOSSES / 2 && self.repaired * Self::LEAST < losses
    }
}

/// Which packets are sent in which group, and the groups whose parity is to be sent.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    /// The last that was given away: 1 to 255, then 1 again.
    last_id: u8,
    /// Those that take packets, the next one first.
    open: VecDeque<Group>,
    /// How many of those that take turns have not begun yet.
    to_open: u32,
    full: VecDeque<Group>,
}

impl Grouping {
    /// Adds a packet to a group, of `most` packets. Returns the group's name. `flight`: so many packets, with this one, are about to be sent.
    pub(crate) fn add(&mut self, number: u64, frames: &[u8], most: u32, flight: u32) -> u8 {
        let most = u64::from(most).clamp(1, MAX_MEMBERS);
        self.close_old(number);
        if self.open.is_empty() && self.to_open == 0 {
            let groups = u64::from(flight).div_ceil(most);
            self.to_open = (groups as u32).clamp(1, MOST_TURNS);
        }
        let mut group = match self.to_open.checked_sub(1) {
            Some(left) => {
                self.to_open = left;
                self.last_id = self.last_id % u8::MAX + 1;
                Group { id: self.last_id, first: number, members: 0, sum: Sum::default() }
            }
            None => self.open.pop_front().expect("a group is open, or one was to be opened"),
        };
        group.members |= 1 << (number - group.first);
        // No packet is longer than its datagram, which is shorter than 2^16 bytes.
        group.sum.add(frames.len() as u16, frames);
        let id = group.id;
        if u64::from(group.members.count_ones()) < most {
            self.open.push_back(group);
        } else {
            self.full.push_back(group);
        }
        id
    }

    /// Closes the groups that could not name a packet of this number: others without a group take numbers, too.
    fn close_old(&mut self, number: u64) {
        for _ in 0..self.open.len() {
            if let Some(group) = self.open.pop_front() {
                let old = number - group.first >= MAX_MEMBERS;
                if old { &mut self.full } else { &mut self.open }.push_back(group);
            }
        }
    }

    /// Nothing follows for now: what is open is to be sent, too.
    pub(crate) fn close_all(&mut self) {
        self.to_open = 0;
        self.full.append(&mut self.open);
    }

    /// A group whose parity is to be sent.
    pub(crate) fn pop(&mut self) -> Option<Group> {
        self.full.pop_front()
    }

    /// How many of them there are.
    pub(crate) fn due(&self) -> usize {
        self.full.len()
    }

    /// Whether so many are due that they cannot wait for packets with data.
    pub(crate) fn is_pressing(&self) -> bool {
        self.full.len() >= MOST_TURNS as usize
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.open.iter().chain(&self.full).map(|group| group.sum.xor.capacity()).sum()
    }
}

/// A packet that was lost and is here all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repaired {
    pub(crate) number: u64,
    pub(crate) frames: Vec<u8>,
}

/// What has come of the groups, and their repair.
#[derive(Debug, Default)]
pub(crate) struct Repairing {
    groups: [Option<Incoming>; REMEMBERED],
}

#[derive(Debug)]
struct Incoming {
    id: u8,
    /// The smallest number that has come, or the first member's, if the parity has said it.
    first: u64,
    /// Bit n: packet `first` + n has come.
    came: u64,
    /// All of them, as the parity says.
    members: Option<u64>,
    sum: Sum,
}

impl Incoming {
    /// Whether a number can be named beside those that have come; makes room for it below the first.
    fn reach(&mut self, number: u64) -> bool {
        if let Some(back) = self.first.checked_sub(number).filter(|back| *back > 0) {
            if self.members.is_some() || u64::from(self.came.leading_zeros()) < back {
                return false;
            }
            self.came <<= back;
            self.first = number;
        }
        number - self.first < MAX_MEMBERS
    }

    /// The packet that is missing, if it is the only one. The numbers that the parity names and that have come must be the same but
    /// for that one.
    fn repair(&mut self) -> Option<Repaired> {
        let missing = self.members? & !self.came;
        if missing.count_ones() != 1 || usize::from(self.sum.length) > self.sum.xor.len() {
            return None;
        }
        let mut frames = std::mem::take(&mut self.sum.xor);
        frames.truncate(self.sum.length.into());
        Some(Repaired { number: self.first + u64::from(missing.trailing_zeros()), frames })
    }
}

impl Repairing {
    /// A packet of a group has come. It is to be told of each once.
    pub(crate) fn on_member(&mut self, group: u8, number: u64, frames: &[u8]) -> Option<Repaired> {
        let slot = &mut self.groups[usize::from(group) % REMEMBERED];
        if slot.as_ref().is_none_or(|incoming| incoming.id != group) {
            *slot = Some(Incoming { id: group, first: number, came: 0, members: None, sum: Sum::default() });
        }
        let incoming = slot.as_mut()?;
        if !incoming.reach(number) {
            *slot = None;
            return None;
        }
        incoming.came |= 1 << (number - incoming.first);
        incoming.sum.add(frames.len() as u16, frames);
        self.finish(group)
    }

    /// A parity has come. Tells what it has repaired.
    pub(crate) fn on_parity(&mut self, parity: &Parity<'_>) -> Option<Repaired> {
        let slot = &mut self.groups[usize::from(parity.group) % REMEMBERED];
        let empty =
            Incoming { id: parity.group, first: parity.first, came: 0, members: None, sum: Sum::default() };
        let incoming = match slot {
            Some(incoming) if incoming.id == parity.group => incoming,
            // Nothing of it has come, or it was forgotten: then there is nothing to repair but a group of one.
            _ => slot.insert(empty),
        };
        // What has come is named from the group's first packet on.
        let Some(shift) = incoming.first.checked_sub(parity.first).filter(|shift| *shift < MAX_MEMBERS)
        else {
            *slot = None;
            return None;
        };
        let came = incoming.came << shift;
        if came >> shift != incoming.came || came & !parity.members != 0 || incoming.members.is_some() {
            // It is of another group of the same name.
            *slot = None;
            return None;
        }
        (incoming.first, incoming.came) = (parity.first, came);
        incoming.members = Some(parity.members);
        incoming.sum.add(parity.length, parity.xor);
        self.finish(parity.group)
    }

    /// Repairs a group if that is possible, and forgets it if it has got all.
    fn finish(&mut self, group: u8) -> Option<Repaired> {
        let slot = &mut self.groups[usize::from(group) % REMEMBERED];
        let incoming = slot.as_mut()?;
        let repaired = incoming.repair();
        let complete = incoming.members.is_some_and(|members| members & !incoming.came == 0);
        if repaired.is_some() || complete {
            *slot = None;
        }
        repaired
    }

    /// Bytes that it may hold once packets have come whose frames are so long.
    pub(crate) fn most_bytes(longest: usize) -> usize {
        REMEMBERED * 2 * longest
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.groups.iter().flatten().map(|group| group.sum.xor.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn packets(count: u8) -> Vec<Vec<u8>> {
        (0..count).map(|n| (0..10 + usize::from(n) * 7 % 23).map(|at| n ^ at as u8).collect()).collect()
    }

    /// Sends the packets as one flight, then all parities; what comes, in order, is the numbers and the groups.
    fn sent(packets: &[Vec<u8>], most: u32) -> (Vec<u8>, Vec<Group>) {
        let mut grouping = Grouping::default();
        let groups = packets
            .iter()
            .enumerate()
            .map(|(n, frames)| grouping.add(n as u64, frames, most, (packets.len() - n) as u32));
        let ids = groups.collect();
        grouping.close_all();
        (ids, std::iter::from_fn(|| grouping.pop()).collect())
    }

    #[test]
    fn six_packets_have_two_parities_that_take_turns() {
        let (ids, groups) = sent(&packets(6), 3);
        assert_eq!(ids, [1, 2, 1, 2, 1, 2]);
        assert_eq!(
            groups.iter().map(|group| (group.first, group.members)).collect::<Vec<_>>(),
            [(0, 0b10101), (1, 0b10101)]
        );
    }

    #[test]
    fn a_single_packet_has_its_copy_as_parity() {
        let packets = packets(1);
        let (_, groups) = sent(&packets, 3);
        assert_eq!(groups.len(), 1);
        let mut repairing = Repairing::default();
        let repaired = repairing.on_parity(&groups[0].parity());
        assert_eq!(repaired, Some(Repaired { number: 0, frames: packets[0].clone() }));
    }

    #[test]
    fn its_benefit_is_small_where_nothing_is_repaired_and_until_something_is() {
        let mut benefit = Benefit::default();
        assert!(!benefit.is_small(), "nothing is known");
        benefit.on_losses(0, 15);
        assert!(!benefit.is_small(), "not enough is known");
        benefit.on_losses(0, 1000);
        assert!(benefit.is_small());
        let until = (1..100).find(|_| {
            benefit.on_losses(1, 0);
            !benefit.is_small()
        });
        assert!(until.is_some_and(|count| count < 64), "{until:?}");
        benefit.on_losses(10, 30);
        assert!(!benefit.is_small(), "a quarter is repaired");
    }

    proptest! {
        /// Whatever is lost, and in whatever order the rest comes: a group of which one packet is lost is repaired, no other is,
        /// and what is repaired is what was sent.
        #[test]
        fn one_loss_of_a_group_is_repaired(
            count in 1..60_u8,
            most in 1..12_u32,
            lost in proptest::collection::btree_set(0..70_usize, 0..6),
            order in any::<u64>(),
        ) {
            let packets = packets(count);
            let (ids, groups) = sent(&packets, most);
            let mut coming: Vec<usize> =
                (0..packets.len() + groups.len()).filter(|n| !lost.contains(n)).collect();
            // As many groups as a receiver remembers may be out of order.
            if groups.len() <= REMEMBERED {
                let key = |n: &usize| (*n as u64 + 1).wrapping_mul(order | 1) >> 7;
                coming.sort_by_key(key);
            }
            let (mut repairing, mut repaired, mut expected) = (Repairing::default(), Vec::new(), Vec::new());
            let (mut here, mut parities) = (BTreeSet::new(), BTreeSet::new());
            for n in coming {
                if here.contains(&n) {
                    // A copy of what was repaired.
                    continue;
                }
                let at = match packets.get(n) {
                    Some(frames) => {
                        here.insert(n);
                        repaired.extend(repairing.on_member(ids[n], n as u64, frames));
                        groups.iter().position(|group| group.id == ids[n]).unwrap()
                    }
                    None => {
                        let at = n - packets.len();
                        parities.insert(at);
                        repaired.extend(repairing.on_parity(&groups[at].parity()));
                        at
                    }
                };
                let mut missing = (0..packets.len()).filter(|n| ids[*n] == groups[at].id && !here.contains(n));
                if let (true, Some(number), None) = (parities.contains(&at), missing.next(), missing.next()) {
                    here.insert(number);
                    expected.push(Repaired { number: number as u64, frames: packets[number].clone() });
                }
            }
            repaired.sort_by_key(|repaired| repaired.number);
            expected.sort_by_key(|repaired| repaired.number);
            if groups.len() <= REMEMBERED {
                prop_assert_eq!(repaired, expected);
            } else {
                // What was forgotten may be repaired although it is here; its content is right all the same.
                prop_assert!(repaired.iter().all(|one| one.frames == packets[one.number as usize]));
            }
        }

        /// Whatever a peer says, nothing is repaired that it has not said, and nothing panics.
        #[test]
        fn nonsense_does_no_harm(
            said in proptest::collection::vec((1..40_u8, 0..200_u64, any::<u64>(), any::<bool>(), any::<u16>()), 0..80),
        ) {
            let mut repairing = Repairing::default();
            for (group, number, members, is_parity, length) in said {
                let xor = vec![7; usize::from(length % 40)];
                if is_parity {
                    let parity = Parity { group, first: number, members: members | 1, length, xor: &xor };
                    repairing.on_parity(&parity);
                } else {
                    repairing.on_member(group, number, &xor);
                }
            }
            prop_assert!(repairing.held_bytes() <= REMEMBERED * 64);
        }
    }
}
