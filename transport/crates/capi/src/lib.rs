//! C interface to the state machines, for simulators: the nodes of [`sim`] behind opaque pointers.
//!
//! `include/weir_transport.h` is the interface, and says what callers must hold to. No panic crosses it.

mod boundary;
pub mod dfcp;
pub mod lttp;
pub mod node;
