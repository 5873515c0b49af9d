//! Interfaces of the kernel whose packets a process carries: TUN, with long packets, and the routes to it; and TAP, for switches.

mod device;
mod offload;
mod plain;
mod routes;

pub(crate) use device::{Device, check};
pub(crate) use offload::{Joining, MOST_BYTES, split};
pub use plain::plain;
pub use routes::Routing;
pub(crate) use routes::{Routes, set_up_port};
