//! C interface to the state machines, for simulators and embeddings: the nodes of [`sim`], and ATP's endpoints, behind opaque pointers.
//!
//! `include/weir_transport.h` is the interface, and says what callers must hold to. No panic crosses it.

pub mod address;
pub mod atp;
mod boundary;
pub mod dfcp;
pub mod identity;
pub mod lttp;
pub mod node;
