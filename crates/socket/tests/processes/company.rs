//! What simulations of several programs share.

#[path = "../simulation/company/house.rs"]
pub mod house;
#[path = "../simulation/company/kernel.rs"]
pub mod kernel;
