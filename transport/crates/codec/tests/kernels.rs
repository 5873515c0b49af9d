//! Every kernel of this processor against a loop over bytes.

mod common;

use common::bytes;
use weir_codec::xor::Kernel;

// An interpreter takes seconds for what a processor does in microseconds: for it, lengths at the edges of registers.
const MOST_INPUTS: usize = if cfg!(miri) { 3 } else { 40 };
const MOST_MEMBERS: usize = if cfg!(miri) { 3 } else { 6 };
const LONGEST: usize = if cfg!(miri) { 520 } else { 4200 };
const LONGEST_WITHIN: usize = if cfg!(miri) { 520 } else { 1100 };
const SUBSETS_OF: [usize; 3] = if cfg!(miri) { [64, 150, 257] } else { [1023, 1024, 1400] };
const ALL_UP_TO: usize = if cfg!(miri) { 33 } else { 300 };

fn lengths(longest: usize) -> impl Iterator<Item = usize> {
    const EDGES: [usize; 16] = [0, 1, 7, 8, 9, 16, 31, 32, 33, 63, 64, 65, 129, 256, 300, 513];
    (0..=longest).filter(|len| !cfg!(miri) || EDGES.contains(len))
}

#[test]
fn every_kernel_sums_any_number_of_inputs_of_any_length() {
    let source = bytes(1, 3 * LONGEST);
    // Offsets of any alignment that overlap as they like.
    let offsets: Vec<u32> = (0..MOST_INPUTS).map(|i| (i * 197 % (2 * LONGEST)) as u32).collect();
    for kernel in Kernel::available() {
        for len in lengths(LONGEST) {
            let mut naive = vec![0u8; len];
            for inputs in 1..=MOST_INPUTS {
                let from = offsets[inputs - 1] as usize;
                naive.iter_mut().zip(&source[from..]).for_each(|(sum, byte)| *sum ^= byte);
                if (len + inputs) % 7 != 0 && len > 300 {
                    continue;
                }
                let mut out = vec![0xee; len];
                kernel.gather(&mut out, &source, &offsets[..inputs]);
                assert!(out == naive, "{}: {inputs} inputs of {len} bytes", kernel.name());
            }
        }
    }
}

#[test]
fn an_output_may_be_an_input_and_what_is_around_it_stays() {
    for kernel in Kernel::available() {
        for len in lengths(LONGEST_WITHIN) {
            for inputs in [1, 2, 3, 9] {
                let before = bytes(len as u64, 12 * (len + 3));
                let offsets: Vec<u32> = (0..inputs).map(|i| 1 + i * (len as u32 + 3)).collect();
                let out = offsets[inputs as usize / 2];
                let mut expected = before.clone();
                for at in 0..len {
                    expected[out as usize + at] =
                        offsets.iter().fold(0, |sum, &offset| sum ^ before[offset as usize + at]);
                }
                let mut within = before;
                kernel.gather_within(&mut within, out, len, &offsets);
                assert!(within == expected, "{}: {inputs} inputs of {len} bytes", kernel.name());
            }
        }
    }
}

#[test]
fn the_sum_of_nothing_is_zero() {
    for kernel in Kernel::available() {
        let mut out = vec![1; 100];
        kernel.gather(&mut out, &[], &[]);
        assert!(out.iter().all(|&byte| byte == 0));
        let mut bytes = vec![1; 100];
        kernel.gather_within(&mut bytes, 10, 80, &[]);
        assert_eq!(bytes.iter().map(|&byte| usize::from(byte)).sum::<usize>(), 20);
    }
}

#[test]
fn parts_outside_the_memory_are_refused() {
    for kernel in Kernel::available() {
        for offset in [37, u32::MAX - 10, u32::MAX] {
            let gather = std::panic::catch_unwind(|| kernel.gather(&mut [0; 64], &[0; 100], &[0, offset]));
            assert!(gather.is_err(), "{}: an input at {offset}", kernel.name());
            let within = || kernel.gather_within(&mut [0; 100], offset, 64, &[0]);
            assert!(std::panic::catch_unwind(within).is_err(), "{}: an output at {offset}", kernel.name());
        }
    }
}

#[test]
fn the_best_kernel_is_the_first() {
    assert_eq!(Kernel::best().name(), Kernel::available()[0].name());
    assert_eq!(Kernel::available().last().unwrap().name(), "portable");
}

#[test]
fn every_kernel_sums_all_subsets_of_a_few_inputs() {
    for kernel in Kernel::available() {
        for len in lengths(ALL_UP_TO).chain(SUBSETS_OF) {
            for inputs in 0..=MOST_MEMBERS {
                let stride = len + 5;
                let out = inputs * len;
                let mut within = bytes(len as u64, out + (stride << inputs) - stride);
                let before = within.clone();
                let offsets: Vec<u32> = (0..inputs).map(|i| (i * len) as u32).collect();
                kernel.subsets_within(&mut within, &offsets, out as u32, stride, len);
                let mut expected = before.clone();
                for subset in 1usize..1 << inputs {
                    for at in 0..len {
                        let members = (0..inputs).filter(|i| subset >> i & 1 == 1);
                        let sum = members.fold(0, |sum, i| sum ^ before[i * len + at]);
                        expected[out + (subset - 1) * stride + at] = sum;
                    }
                }
                assert!(within == expected, "{}: {inputs} inputs of {len} bytes", kernel.name());
            }
        }
    }
}

#[test]
fn sums_of_subsets_go_to_no_input_and_nowhere_outside() {
    for kernel in Kernel::available() {
        let refused = |bytes: usize, offsets: &[u32], out: u32, stride: usize| {
            let mut memory = vec![0; bytes];
            let sums = || kernel.subsets_within(&mut memory, offsets, out, stride, 10);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(sums)).is_err()
        };
        assert!(!refused(50, &[0, 10], 20, 10));
        assert!(refused(49, &[0, 10], 20, 10), "the last sum lies outside");
        assert!(refused(50, &[0, 11], 20, 10), "an input lies where sums go");
        assert!(refused(50, &[0, 10], 20, 9), "sums overlap");
        assert!(refused(50, &[45], 20, 10), "an input lies outside");
    }
}
