//! The TCP throughput equation and its inverse (RFC 5348 sections 3.1 and 8.1; LTTP Eq. 4).
//!
//! With b = 1 (a packet per acknowledgement, recommended by section 3.1) the equation is X = s / (R f(p)),
//! where f depends on the loss event rate and on t_RTO / R alone. Section 3.1 recommends t_RTO = 4 R and
//! allows TCP's own minimum: in a rack that is tens of round trips, and at the loss rates of an incast it is
//! all that counts.

use std::time::Duration;

/// t_RTO / R, for a TCP whose retransmission timeout is at least `least_rto`: 4 or more (RFC 5348 section
/// 3.1).
pub fn rto_per_rtt(rtt: Duration, least_rto: Duration) -> f64 {
    (least_rto.as_secs_f64() / super::bounded_rtt_s(rtt)).max(4.0)
}

/// f(p) of RFC 5348 section 8.1: round trips per segment at the loss event rate `p`. Strictly increasing.
fn round_trips_per_segment(p: f64, rto_per_rtt: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + rto_per_rtt * 3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)
}

/// What TCP would get, in segments a round trip, at the loss event rate `p` (RFC 5348 section 3.1 with b =
/// 1). Multiply by s / R for bytes/s. Infinite for `p` = 0; a `p` above 1 counts as 1.
pub fn throughput(p: f64, rto_per_rtt: f64) -> f64 {
    if p <= 0.0 { f64::INFINITY } else { 1.0 / round_trips_per_segment(p.min(1.0), rto_per_rtt) }
}

/// The loss event rate at which TCP would get `segments_per_rtt`: the inverse of [`throughput`], for the
/// first loss interval (RFC 5348 section 6.3.1). Within [1e-12, 1]; 1 if not even p = 1 is as slow as that.
pub fn loss_event_rate(segments_per_rtt: f64, rto_per_rtt: f64) -> f64 {
    let (mut low, mut high) = (1e-12_f64, 1.0_f64);
    let target = 1.0 / segments_per_rtt;
    if !(segments_per_rtt > 0.0 && target < round_trips_per_segment(high, rto_per_rtt)) {
        return high; // what is not a number, too
    }
    if target <= round_trips_per_segment(low, rto_per_rtt) {
        return low;
    }
    // Halving the exponent's range: 1e-12..1 to a factor of 1 + 1e-6, where the RFC asks for 5 %.
    while high / low > 1.0 + 1e-6 {
        let middle = (low * high).sqrt();
        if round_trips_per_segment(middle, rto_per_rtt) < target {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// X = s / (R sqrt(2bp/3) + t_RTO (3 sqrt(3bp/8)) p (1 + 32 p^2)) evaluated apart from this code, in
    /// decimal arithmetic of 30 digits, for s = 1 and R = 1.
    #[test]
    fn the_equation_has_the_values_of_section_3_1() {
        for (p, segments) in [
            (0.000_1, 122.364_359_180_379_55),
            (0.001, 38.384_363_139_125_55),
            (0.01, 11.233_223_436_299_36),
            (0.1, 1.770_102_077_791_324),
            (0.3, 0.194_847_331_605_070_55),
            (1.0, 0.004_109_882_118_763_722),
        ] {
            assert!(
                (throughput(p, 4.0) / segments - 1.0).abs() < 1e-9,
                "p = {p}: {} for {segments}",
                throughput(p, 4.0)
            );
        }
    }

    #[test]
    fn the_inverse_finds_the_rate_again() {
        for (exponent, rto) in (-90..=0).flat_map(|exponent| [(exponent, 4.0), (exponent, 400.0)]) {
            let p = 10f64.powf(f64::from(exponent) / 10.0);
            let found = loss_event_rate(throughput(p, rto), rto);
            assert!((found / p - 1.0).abs() < 1e-5, "p = {p}: {found}");
        }
    }

    #[test]
    fn the_inverse_is_bounded_whatever_is_asked() {
        assert_eq!(loss_event_rate(0.0, 4.0), 1.0);
        assert_eq!(loss_event_rate(f64::NAN, 4.0), 1.0);
        assert_eq!(loss_event_rate(-1.0, 4.0), 1.0);
        assert_eq!(loss_event_rate(f64::INFINITY, 4.0), 1e-12);
        assert_eq!(throughput(0.0, 4.0), f64::INFINITY);
        assert_eq!(throughput(7.0, 4.0), throughput(1.0, 4.0));
    }

    #[test]
    fn half_a_packet_per_round_trip_is_a_loss_in_about_five_packets() {
        // RFC 5348 section 6.3.1: the target where the first packet itself is lost.
        let interval = 1.0 / loss_event_rate(0.5, 4.0);
        assert!((interval - 4.844_284).abs() < 1e-4, "{interval}");
    }

    #[test]
    fn a_timeout_of_many_round_trips_slows_tcp_where_losses_are_frequent() {
        // 200 ms at R = 5 ms are 40 round trips. By hand, p = .02: .115470 + 40 x 3 x .0866025 x .02 x 1.0128
        // = .325977.
        let rto = rto_per_rtt(Duration::from_millis(5), Duration::from_millis(200));
        assert_eq!(rto, 40.0);
        assert!((throughput(0.02, rto) * 0.325_977 - 1.0).abs() < 1e-5);
        assert_eq!(rto_per_rtt(Duration::from_millis(100), Duration::from_millis(200)), 4.0);
    }
}
