//! Control messages.
use libc::msghdr;
use nearwire_socket::{Delivery, Message};
pub unsafe fn write(_delivery: &Delivery<'_>, message: &mut msghdr) {
    message.msg_controllen = 0;
}
pub unsafe fn read(message: *const msghdr, _into: &mut Message<'_>) -> bool {
    unsafe { (*message).msg_controllen == 0 }
}
