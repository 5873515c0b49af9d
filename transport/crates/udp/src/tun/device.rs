//! The devices of the kernel whose packets a process carries: TUN for a host's packets, TAP for a switch's frames.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

/// Packets are as long as a host makes them, and checksums are left to whoever sends them (`if_tun.h`).
const OFFLOADS: libc::c_ulong =
    (libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN) as libc::c_ulong;

/// An interface that is there as long as this is.
pub(crate) struct Device {
    file: File,
    name: String,
}

impl Device {
    /// Makes an interface of this name, in which `%d` is a number that the kernel chooses. It has packets of IP, each with a header that
    /// says what is left to do (`virtio_net.h`).
    ///
    /// # Errors
    /// The system has no TUN, or this process may not make interfaces, or there is one of this name.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let device = Device::make(name, libc::IFF_TUN | libc::IFF_VNET_HDR)?;
        // SAFETY: the call takes a number.
        let done = check(unsafe { libc::ioctl(device.file.as_raw_fd(), libc::TUNSETOFFLOAD, OFFLOADS) });
        done.map_err(|e| told(name, e))?;
        Ok(device)
    }

    /// Makes one for a port of a switch. It has frames of Ethernet, as they are on a wire.
    ///
    /// # Errors
    /// As of [`Device::open`].
    pub(crate) fn open_port(name: &str) -> io::Result<Self> {
        Device::make(name, libc::IFF_TAP)
    }

    fn make(name: &str, kind: libc::c_int) -> io::Result<Self> {
        let told = |e| told(name, e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|e| io::Error::new(e.kind(), format!("/dev/net/tun: {e}{}", advice(&e))))?;
        let c_name = CString::new(name).map_err(|_| told(ErrorKind::InvalidInput.into()))?;
        if c_name.as_bytes().len() >= libc::IFNAMSIZ {
            return Err(told(io::Error::new(ErrorKind::InvalidInput, "a name has 15 bytes at most")));
        }
        // SAFETY: a request is made of numbers, for which zeros are good.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(c_name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        let flags = kind | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the request outlives the call, and is what it takes.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }).map_err(told)?;
        let end = request.ifr_name.iter().position(|c| *c == 0).unwrap_or(libc::IFNAMSIZ);
        let name = request.ifr_name[..end].iter().map(|c| char::from(*c as u8)).collect();
        Ok(Device { file, name })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Says whether something is at the other end: a switch sees a port without carrier as down.
    pub(crate) fn set_carrier(&self, is_there: bool) -> io::Result<()> {
        let is_there = libc::c_int::from(is_there);
        // SAFETY: the number outlives the call.
        let done =
            check(unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNSETCARRIER, &raw const is_there) });
        done.map_err(|e| told(&self.name, e))
    }

    /// Reads a packet with its header; none if there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(io::Error::new(e.kind(), format!("interface {}: {e}", self.name))),
        }
    }

    /// Gives the host a packet with its header. False: it would not take it.
    pub(crate) fn write(&self, packet: &[u8]) -> bool {
        (&self.file).write(packet).is_ok()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn told(name: &str, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("interface {name}: {e}{}", advice(&e)))
}

pub(crate) fn check(done: libc::c_int) -> io::Result<()> {
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EACCES) => {
            "; run it as root, or let anybody open it, as udev does: chmod 666 /dev/net/tun"
        }
        Some(libc::EPERM) => {
            "; run it as root, or with the capability CAP_NET_ADMIN, or in a network namespace of your own: unshare --user --map-root-user --net"
        }
        Some(libc::EBUSY) => {
            "; another process has an interface of this name: choose another one with --device"
        }
        Some(libc::ENOENT | libc::ENODEV) => "; load the kernel's module: modprobe tun",
        _ => "",
    }
}
