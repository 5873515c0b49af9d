//! What there is to notice: to whom this host opens connections, and what the network says of datagrams.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use proto::acc::packet::{Look, Pair};
use socket2::{Domain, Protocol, Socket, Type};

use crate::tun::check;

/// Sees the first packet of each connection that this host opens, and no other.
pub(crate) struct Openings(Socket);

const fn load(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Goes on with the next instruction if equal, or past `otherwise` ones.
const fn equal(k: u32, then: u8, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: then,
        jf: otherwise,
        k,
    }
}

const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const BYTE_BEYOND: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const HEADER_TO_X: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const SYN_ACK: u32 = 0x12;
const SYN: u32 = 0x02;

/// Outgoing, TCP, SYN and not ACK; of IPv4 and of IPv6 (without extension headers, which TCP's first packets do not have).
static FILTER: [libc::sock_filter; 19] = [
    load(BYTE, PACKET_TYPE),
    equal(libc::PACKET_OUTGOING as u32, 0, 16),
    load(BYTE, 0),
    load(AND, 0xf0),
    equal(0x40, 0, 6),
    load(BYTE, 9),
    equal(6, 0, 11),
    load(HEADER_TO_X, 0),
    load(BYTE_BEYOND, 13),
    load(AND, SYN_ACK),
    equal(SYN, 6, 7),
    equal(0x60, 0, 6),
    load(BYTE, 6),
    equal(6, 0, 4),
    load(BYTE, 40 + 13),
    load(AND, SYN_ACK),
    equal(SYN, 0, 1),
    load(RETURN, 0xffff),
    load(RETURN, 0),
];

impl Openings {
    /// # Errors
    /// This process may not see packets.
    pub(crate) fn open() -> io::Result<Self> {
        let everything = (libc::ETH_P_ALL as u16).to_be();
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(i32::from(everything))))?;
        socket.set_nonblocking(true)?;
        let program = libc::sock_fprog { len: FILTER.len() as u16, filter: FILTER.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which is as long as it says, and does not write to it.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        })?;
        Ok(Openings(socket))
    }

    /// The next one: who opens, and to whom.
    pub(crate) fn next(&self) -> Option<Pair> {
        let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 128];
        loop {
            let length = self.0.recv(&mut buffer).ok()?;
            // SAFETY: so many bytes have been written.
            let bytes: Vec<u8> = buffer[..length].iter().map(|byte| unsafe { byte.assume_init() }).collect();
            if let Ok(look) = Look::at(&bytes) {
                return Some(look.pair);
            }
        }
    }
}

impl AsFd for Openings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has the socket keep what the network says of datagrams, for [`said`].
pub(crate) fn listen_to_errors(socket: &UdpSocket, is_ipv4: bool) -> io::Result<()> {
    let (level, option) =
        if is_ipv4 { (libc::IPPROTO_IP, libc::IP_RECVERR) } else { (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) };
    let on: libc::c_int = 1;
    // SAFETY: the option takes a number, which outlives the call.
    check(unsafe {
        let length = size_of_val(&on) as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), length)
    })
}

/// What the network has said of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nobody listens there.
    Unreachable(IpAddr),
    /// It was longer than the way carries, which is so many bytes of IP.
    TooLong(IpAddr, u32),
}

/// The next that it has said.
pub(crate) fn said(socket: &UdpSocket) -> Option<Said> {
    let (mut data, mut control) = ([0; 64], vec![0; 256]);
    loop {
        let mut parts = [IoSliceMut::new(&mut data)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags).ok()?;
        let to = message.address.and_then(address_of);
        let error = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                    Some(error)
                }
                _ => None,
            })
        });
        if let Some((to, error)) = to.zip(error) {
            match i32::try_from(error.ee_errno) {
                Ok(libc::ECONNREFUSED) => return Some(Said::Unreachable(to)),
                Ok(libc::EMSGSIZE) => return Some(Said::TooLong(to, error.ee_info)),
                _ => {}
            }
        }
    }
}

fn address_of(address: SockaddrStorage) -> Option<IpAddr> {
    let ipv4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    ipv4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}
