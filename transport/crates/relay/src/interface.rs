//! An interface's frames, by a packet socket.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// The longest frame: a jumbo one. Longer ones, such as hosts with segmentation offload make, are cut off, so it says so.
const MOST_BYTES: usize = 9_216;
const BUFFER_BYTES: usize = 16 << 20;

pub(crate) struct Interface {
    name: String,
    socket: Socket,
}

impl Interface {
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{name}: {e}"));
        let c_name = CString::new(name).map_err(|_| told(ErrorKind::InvalidInput.into()))?;
        // SAFETY: the name is a string with an end.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            return Err(told(io::Error::last_os_error()));
        }
        let all = (libc::ETH_P_ALL as u16).to_be();
        let socket =
            Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(i32::from(all)))).map_err(told)?;
        socket.set_nonblocking(true)?;
        // What the system does not grant costs losses under bursts, and nothing else.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        // SAFETY: a sockaddr_ll is made of numbers, for which zeros are good, and fits the storage.
        let address = unsafe {
            SockAddr::try_init(|storage, length| {
                let ll = storage.cast::<libc::sockaddr_ll>();
                ll.write(std::mem::zeroed());
                (*ll).sll_family = libc::AF_PACKET as u16;
                (*ll).sll_protocol = all;
                (*ll).sll_ifindex = index as i32;
                *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                Ok(())
            })
        };
        socket.bind(&address?.1).map_err(told)?;
        // What is for others is carried as well; what this system itself sends there is none of ours.
        let everything = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&socket, libc::PACKET_ADD_MEMBERSHIP, &everything).map_err(told)?;
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1_i32).map_err(told)?;
        Ok(Interface { name: name.to_owned(), socket })
    }

    /// The next frame that has come.
    pub(crate) fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); MOST_BYTES];
        match self.socket.recv_with_flags(&mut buffer, libc::MSG_TRUNC) {
            Ok(length) if length > MOST_BYTES => Err(io::Error::other(format!(
                "{}: a frame of {length} bytes: switch segmentation offload off at the hosts",
                self.name
            ))),
            Ok(length) => {
                // SAFETY: so many bytes have been written.
                let byte = |byte: &MaybeUninit<u8>| unsafe { byte.assume_init() };
                Ok(Some(buffer[..length].iter().map(byte).collect()))
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            // An interface that is set down and up again goes on.
            Err(e) if e.kind() == ErrorKind::NetworkDown || e.kind() == ErrorKind::Interrupted => Ok(None),
            Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", self.name))),
        }
    }

    /// Whether the interface took it.
    pub(crate) fn send(&self, frame: Vec<u8>) -> bool {
        self.socket.send(&frame).is_ok()
    }
}

impl AsFd for Interface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn set<T>(socket: &Socket, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the value is of the type that the option takes, and outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
