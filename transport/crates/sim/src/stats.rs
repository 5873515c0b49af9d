//! What flows got.

use std::time::Duration;

use crate::Time;

/// What one node sent to another over the links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Delivered to the other node, duplicates included.
    pub delivered: u64,
    /// Bytes delivered, as on the wire.
    pub delivered_bytes: u64,
    /// Dropped or lost on the way.
    pub lost: u64,
    /// Arrived at a node that had vanished.
    pub unheard: u64,
    /// `delivered_bytes` by slice of time, if the network was told to count so.
    pub slices_bytes: Vec<u64>,
}

impl FlowCounters {
    pub(crate) fn deliver(&mut self, now: Time, wire_bytes: u32, slice: Option<Duration>) {
        self.delivered += 1;
        self.delivered_bytes += u64::from(wire_bytes);
        if let Some(slice) = slice {
            let index = (now.as_nanos() / (slice.as_nanos() as u64).max(1)) as usize;
            if self.slices_bytes.len() <= index {
                self.slices_bytes.resize(index + 1, 0);
            }
            self.slices_bytes[index] += u64::from(wire_bytes);
        }
    }
}

/// Jain's fairness index of what some got, in 0..=1; 1 for nobody.
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::jain_index;

    #[test]
    fn the_index_is_the_part_of_those_who_share() {
        assert_eq!(jain_index(&[2.0; 5]), 1.0);
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain_index(&[]), 1.0);
    }
}
