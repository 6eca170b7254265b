//! Which socket of a group (`SO_REUSEPORT`) gets a datagram. The kernel's hash has a key that it makes up at boot and one of each network
//! namespace; simulations, which are to end the same whenever they run, say it themselves.
//!
//! Source: `net/core/sock_reuseport.c` (`run_bpf_filter`), `include/uapi/linux/filter.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Of what is loaded, an offset from the network header.
const SKF_NET_OFF: u32 = -0x10_0000_i32 as u32;
/// Behind an IPv4 header without options.
const SOURCE_PORT_AT: u32 = 20;

/// Has an IPv4 datagram from source port `p` go to number `choices[p % choices.len()]` among the sockets of `member`'s group. Their numbers are
/// 0, 1, ... in the order in which they were bound; when one is closed, the last gets its number. Without choices the kernel's hash says it.
///
/// # Errors
/// setsockopt(2) failed: `EINVAL` where the socket is of no group.
pub fn choose_in_group(member: impl AsFd, choices: &[u32]) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = Vec::with_capacity(3 + 2 * choices.len());
    if !choices.is_empty() {
        steps.push(step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, SKF_NET_OFF + SOURCE_PORT_AT));
        steps.push(step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, choices.len() as u32));
    }
    for (rest, number) in (0..).zip(choices) {
        steps.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, rest));
        steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, *number));
    }
    // Nobody: by the hash.
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX));
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the option value is a live `sock_fprog` of the stated size, which points to `len` live steps; the kernel copies both.
    let result = unsafe {
        let (number, value) = (member.as_fd().as_raw_fd(), (&raw const program).cast());
        libc::setsockopt(number, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, value, len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use rustix::net::sockopt::set_socket_reuseport;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

    use super::*;

    fn bound(local: SocketAddr) -> UdpSocket {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None).unwrap();
        set_socket_reuseport(&socket, true).unwrap();
        bind(&socket, &local).unwrap();
        socket.into()
    }

    #[test]
    fn datagrams_come_to_the_chosen_socket_of_a_group_of_which_others_are_closed_or_connected() {
        let first = bound("127.0.0.1:0".parse().unwrap());
        let local = first.local_addr().unwrap();
        let [closed, second, connected, last] = [(); 4].map(|()| bound(local));
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        connected.connect(peer.local_addr().unwrap()).unwrap();
        drop(closed);
        // In the order in which they were bound, and the last in the place of the closed one.
        choose_in_group(&second, &[0, 2, 1]).unwrap();
        for _ in 0..32 {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let wanted = [&first, &second, &last][usize::from(sender.local_addr().unwrap().port()) % 3];
            sender.send_to(b"x", local).unwrap();
            assert_eq!(wanted.recv(&mut [0; 1]).unwrap(), 1);
        }
        peer.send_to(b"x", local).unwrap();
        assert_eq!(connected.recv(&mut [0; 1]).unwrap(), 1, "of a peer it is the connected one's");
    }
}
