//! TCP-ACC: redundancy beneath an unchanged TCP, as much of it as pays (Sun et al., "Improving TCP Performance in Data Center Networks
//! with Adaptive Complementary Coding").

pub mod redundancy;
