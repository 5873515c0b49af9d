//! The system's TCP: blocking sockets, Nagle's algorithm off, nothing else changed.

use std::io::{Read, Write};
use std::mem::{MaybeUninit, size_of};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use crate::timed::{Client, Marks};
use crate::{COMPLETE, Failure, listening, pieces, take_all};

pub(crate) fn serve(listen: SocketAddr) -> Result<(), Failure> {
    let listener = TcpListener::bind(listen)?;
    listening(listener.local_addr()?, None);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || take(stream));
    }
    Ok(())
}

/// The client knows of what fails here: no answer comes.
fn take(mut stream: TcpStream) -> Result<(), std::io::Error> {
    stream.set_nodelay(true)?;
    take_all(&mut stream)?;
    stream.write_all(&[COMPLETE])?;
    // The end that closes first keeps the port for a while: the client, which takes another one each time.
    stream.read(&mut [0]).map(|_| ())
}

/// Flows to a server.
pub(crate) struct To(pub(crate) SocketAddr);

impl Client for To {
    fn flow(&mut self, bytes: u64, marks: &mut Marks) -> Result<(), Failure> {
        let mut stream = TcpStream::connect_timeout(&self.0, marks.left())?;
        marks.connected();
        stream.set_nodelay(true)?;
        for piece in pieces(bytes) {
            stream.set_write_timeout(Some(marks.left()))?;
            stream.write_all(&piece)?;
        }
        stream.set_read_timeout(Some(marks.left()))?;
        let read = stream.read_exact(&mut [0]);
        marks.complete();
        marks.retransmissions = retransmissions(&stream);
        Ok(read?)
    }
}

/// Segments that the kernel has sent again on this connection.
pub(crate) fn retransmissions(stream: &TcpStream) -> Option<u32> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` has `length` bytes, and the socket is open.
    let status = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    // SAFETY: it is made of numbers, for which zeros are good where the kernel has written none.
    (status == 0).then(|| unsafe { info.assume_init() }.tcpi_total_retrans)
}
