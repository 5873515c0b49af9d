//! An interface of the kernel whose packets a process carries: TUN, with long packets, and the routes to it.

mod device;
mod offload;
mod plain;
mod routes;

pub(crate) use device::{Device, check};
pub(crate) use offload::{Joining, MOST_BYTES, split};
pub use plain::plain;
pub(crate) use routes::Routes;
pub use routes::Routing;
