//! Blocks from files: at once if the page cache has them, else by a thread, so that a cold disk stops nobody.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use polling::Poller;
use proto::object::Object;
use rustix::io::ReadWriteFlags;
use wire::control::Refusal;

use crate::files::{Refused, read_block, require_unchanged};

/// A block to read, and for whom.
pub(crate) struct Load {
    pub(crate) key: usize,
    pub(crate) request: u16,
    pub(crate) block: u32,
    pub(crate) file: Arc<File>,
    pub(crate) object: Object,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// A block that was read.
pub(crate) struct Loaded {
    pub(crate) key: usize,
    pub(crate) request: u16,
    pub(crate) block: u32,
    pub(crate) bytes: Result<Arc<[u8]>, Refused>,
}

/// The thread, and what it has read.
pub(crate) struct Reader {
    loads: Sender<Load>,
    blocks: Receiver<Loaded>,
}

impl Reader {
    pub(crate) fn start(poller: Arc<Poller>) -> io::Result<Self> {
        let (loads, asked) = channel::<Load>();
        let (read, blocks) = channel();
        // It ends with the sender of loads.
        thread::Builder::new().name("reader".into()).spawn(move || {
            for load in asked {
                let bytes = read_block(&load.file, &load.object, load.offset, load.bytes);
                let loaded = Loaded { key: load.key, request: load.request, block: load.block, bytes };
                if read.send(loaded).is_err() || poller.notify().is_err() {
                    return;
                }
            }
        })?;
        Ok(Reader { loads, blocks })
    }

    /// The block if that takes no waiting; else it comes by [`Reader::next`].
    pub(crate) fn read(&self, load: Load) -> Option<Result<Arc<[u8]>, Refused>> {
        if let Some(block) = read_cached(&load) {
            return Some(require_unchanged(&load.file, &load.object).map(|()| block));
        }
        let sent = self.loads.send(load);
        sent.is_err().then(|| Err((Refusal::Unreadable, "the reading thread has ended".into())))
    }

    /// The next block that the thread has read.
    pub(crate) fn next(&self) -> Option<Loaded> {
        self.blocks.try_recv().ok()
    }
}

fn read_cached(load: &Load) -> Option<Arc<[u8]>> {
    let mut block: Arc<[u8]> = std::iter::repeat_n(0, load.bytes).collect();
    let place = Arc::get_mut(&mut block)?;
    let slices = &mut [IoSliceMut::new(place)];
    let read = rustix::io::preadv2(&*load.file, slices, load.offset, ReadWriteFlags::NOWAIT).ok()?;
    (read == load.bytes).then_some(block)
}
