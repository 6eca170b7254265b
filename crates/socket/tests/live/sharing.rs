//! A port that a socket of another process comes to share: who asks the kernel for it, and what comes of that.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Instant;

use crate::near::{Near, SOON};
use nearwire_socket::config::Mode;
use nearwire_socket::{Reason, Wish};
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};

const ADDRESS: &str = "0.0.0.0:5000";

/// A socket that lets others have its port, which the library does not know of.
fn shared(near: &Near) -> UdpSocket {
    let open = || {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &ADDRESS.parse::<std::net::SocketAddr>().unwrap())?;
        rustix::io::Result::Ok(UdpSocket::from(socket))
    };
    let socket = near.near().namespace.enter(open).unwrap().unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Looks as calls do, until the kernel is to be asked.
fn wishes_to_ask(near: &mut Near) {
    let deadline = Instant::now() + SOON;
    while near.sockets().take_wish() != Wish::AskSharing {
        assert!(Instant::now() < deadline, "nobody is to be asked");
        near.look();
    }
}

#[test]
fn kernel_is_asked_who_shares_a_port_while_other_threads_can_go_on() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let ours = shared(&near);
    near.adopt(&ours, 5000);
    assert_eq!(near.reason(&ours), None);
    let another = shared(&near);

    wishes_to_ask(&mut near);
    assert_eq!(near.reason(&ours), None, "a look asks nobody");
    let question = near.sockets().take_sharing_question().unwrap();
    let answer = near.near().namespace.enter(|| question.ask()).unwrap();
    // Calls of other threads, in the meantime.
    near.look();
    assert_eq!((near.sockets().take_wish(), near.try_receive(&ours)), (Wish::Nothing, None));
    near.sockets().sharing_answered(answer);
    assert_eq!(near.reason(&ours), Some(Reason::SharedPort));
    drop(another);
}

#[test]
fn socket_that_was_closed_while_the_kernel_was_asked_is_not_taken_for_one_of_another_process() {
    let Some(mut near) = Near::or_skip(Mode::Generic) else { return };
    let ours = shared(&near);
    near.adopt(&ours, 5000);
    wishes_to_ask(&mut near);
    let question = near.sockets().take_sharing_question().unwrap();
    let gone = shared(&near);
    near.adopt(&gone, 5000);
    let answer = near.near().namespace.enter(|| question.ask()).unwrap();
    near.sockets().closing(gone.as_raw_fd());
    drop(gone);
    near.sockets().sharing_answered(answer);
    assert_eq!(near.reason(&ours), None);
    wishes_to_ask(&mut near);
}
