//! Any control channel is read or refused, however it is cut; what was read is written so that it is read again.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use wire::control::{Client, Frames, MAX_FRAME_BYTES, Malformed, Receiver, Sender, Server, emit};

fn read<M: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug>(bytes: &[u8], cut: usize) {
    let mut frames = Frames::default();
    for part in bytes.chunks(cut) {
        frames.extend(part);
        loop {
            let message: M = match frames.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => return,
            };
            let mut again = Vec::new();
            match emit(&message, &mut again) {
                Ok(()) => {}
                // A number may be written longer than need be, and never shorter.
                Err(Malformed::TooLong(bytes)) => assert!(bytes <= MAX_FRAME_BYTES, "{bytes}"),
                Err(other) => panic!("{other}"),
            }
            let mut frames = Frames::default();
            frames.extend(&again);
            assert_eq!(frames.message::<M>().unwrap(), Some(message));
        }
    }
}

fn read_all(bytes: &[u8], cut: usize) {
    read::<Client>(bytes, cut);
    read::<Server>(bytes, cut);
    read::<Sender>(bytes, cut);
    read::<Receiver>(bytes, cut);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let cut = usize::from(*cut) + 1;
    read_all(bytes, cut);
    // And as one frame of the right length.
    let mut frame = (bytes.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(bytes);
    read_all(&frame, cut);
});
