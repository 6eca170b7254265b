use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use nearwire_sys::socket::netns_cookie;
use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketType, bind, socket};

use super::*;
use crate::ports::in_memory::InMemoryPorts;

mod connections;
mod groups;

/// Everybody but user 9 may have little.
struct Little;

impl Judge for Little {
    fn allowance(&self, caller: &Caller) -> Result<Allowance, Cause> {
        let interfaces = if caller.uid == 0 { vec![] } else { vec!["eth1".to_owned()] };
        let few = |few| if caller.uid == 0 { 100 } else { few };
        let allowance = Allowance { interfaces, memory_bytes: 100, shares: few(3), flows: few(3), programs: few(2) };
        if caller.uid == 9 { Err(Cause::UserNotAllowed { uid: 9 }) } else { Ok(allowance) }
    }
}

struct Bed {
    service: Service<InMemoryPorts, Little>,
    ports: InMemoryPorts,
    namespace: u64,
    now: Instant,
}

impl Bed {
    fn new() -> Bed {
        let ports = InMemoryPorts::new(&["eth0", "eth1"]);
        let namespace = netns_cookie(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let mut service = Service::new(ports.clone(), Little, namespace, 0, Instant::now());
        // It has been there for longer than other agents' programs need to come back.
        let now = Instant::now() + Duration::from_secs(100);
        service.pass_time(now);
        Bed { service, ports, namespace, now }
    }

    fn hello(&mut self, id: ProgramId, uid: u32) -> Result<Answer, Cause> {
        self.hello_of(id, uid, id + 100)
    }

    fn hello_of(&mut self, id: ProgramId, uid: u32, pid: u32) -> Result<Answer, Cause> {
        let caller = Caller { pid, uid, groups: vec![], has_pass: false };
        self.service.hello(id, caller, VERSION, Text::cut("a program"))
    }

    fn ask(&mut self, id: ProgramId, request: Request) -> Answer {
        self.service.handle(id, 1, request, None).unwrap().answer
    }

    /// A program with a share on eth1.
    fn program(&mut self, id: ProgramId, uid: u32) -> u32 {
        self.hello(id, uid).unwrap();
        self.share(id, "eth1", 10).unwrap()
    }

    fn share(&mut self, id: ProgramId, interface: &str, memory_bytes: u64) -> Result<u32, Cause> {
        match self.ask(id, Request::OpenShare { interface: Text::cut(interface), memory_bytes }) {
            Answer::ShareOpened { share, .. } => Ok(share),
            Answer::Refused { cause } => Err(cause),
            other => panic!("{other:?}"),
        }
    }

    fn flow(&mut self, id: ProgramId, share: u32, socket: impl AsFd) -> (Result<u32, Cause>, Vec<(u32, Answer)>) {
        let request = Request::OpenFlow { share, address: None };
        let outcome = self.service.handle(id, 1, request, Some(socket.as_fd().try_clone_to_owned().unwrap())).unwrap();
        let flow = match outcome.answer {
            Answer::FlowOpened { flow, .. } => Ok(flow),
            Answer::Refused { cause } => Err(cause),
            other => panic!("{other:?}"),
        };
        (flow, outcome.events)
    }

    /// The shares that have flows of the ports, in order.
    fn owners(&self) -> Vec<u32> {
        let mut owners: Vec<u32> = self.ports.flows().iter().map(|(share, _)| *share).collect();
        owners.sort_unstable();
        owners
    }
}

fn any() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// A socket bound to a port that others may be bound to.
fn reusing(port: u16, address: bool) -> UdpSocket {
    let made = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    if address { set_socket_reuseaddr(&made, true) } else { set_socket_reuseport(&made, true) }.unwrap();
    bind(&made, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), port)).unwrap();
    UdpSocket::from(made)
}

#[test]
fn program_gone_leaves_nothing() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    bed.flow(1, first, any()).0.unwrap();
    bed.flow(2, second, any()).0.unwrap();
    bed.service.gone(1);
    assert_eq!((bed.ports.shares(), bed.owners()), (vec![second], vec![second]));
    bed.service.gone(2);
    assert_eq!((bed.ports.shares(), bed.owners(), bed.service.programs()), (vec![], vec![], 0));
}

#[test]
fn limits_of_a_user_count_all_his_programs() {
    let mut bed = Bed::new();
    let (share, _) = (bed.program(1, 5), bed.program(2, 5));
    let refused = |what, most| Err(Cause::LimitReached { what, most });
    assert_eq!(bed.hello(3, 5), refused(Limited::Programs {}, 2));
    bed.share(1, "eth1", 1000).unwrap();
    assert_eq!(bed.share(2, "eth1", 0), refused(Limited::Shares {}, 3).map(|_: Answer| 0));
    for _ in 0..3 {
        bed.flow(1, share, any()).0.unwrap();
    }
    assert_eq!(bed.flow(1, share, any()).0, refused(Limited::Flows {}, 3).map(|_: Answer| 0));
    let Answer::Programs { programs, .. } = bed.ask(2, Request::Status { from: 0 }) else { panic!("no status") };
    assert_eq!(programs.iter().map(|program| program.memory_bytes).sum::<u64>(), 100, "what is left is given");
}

#[test]
fn memory_of_a_port_counts_for_its_user_until_the_last_share_is_closed() {
    let mut bed = Bed::new();
    for id in [1, 2] {
        bed.hello(id, 5).unwrap();
    }
    let counts = |bed: &mut Bed| {
        let Answer::Programs { programs, .. } = bed.ask(2, Request::Status { from: 0 }) else { panic!("no status") };
        programs.iter().map(|program| program.memory_bytes).sum::<u64>()
    };
    let first = bed.share(1, "eth1", 60).unwrap();
    let second = bed.share(2, "eth1", 0).unwrap();
    bed.ask(1, Request::CloseShare { share: first });
    assert_eq!(counts(&mut bed), 60);
    // One that is being opened keeps the port too.
    bed.ports.be_slow();
    let open = Request::OpenShare { interface: Text::cut("eth1"), memory_bytes: 0 };
    assert!(bed.service.handle(1, 7, open, None).is_none());
    bed.ask(2, Request::CloseShare { share: second });
    bed.ports.finish();
    assert_eq!(bed.service.take_finished().len(), 1);
    assert_eq!(counts(&mut bed), 60);
    bed.service.gone(1);
    assert_eq!(counts(&mut bed), 0);
}

#[test]
fn users_have_what_the_rules_say_and_no_interface_together() {
    let mut bed = Bed::new();
    assert_eq!(bed.hello(1, 9), Err(Cause::UserNotAllowed { uid: 9 }));
    bed.program(2, 5);
    let interface = Text::cut("eth0");
    assert_eq!(bed.share(2, "eth0", 1), Err(Cause::InterfaceNotAllowed { uid: 5, interface }));
    bed.hello(3, 6).unwrap();
    let interface = Text::cut("eth1");
    assert_eq!(bed.share(3, "eth1", 1), Err(Cause::InterfaceOfOtherUser { interface, uid: 5 }));
    bed.service.gone(2);
    bed.share(3, "eth1", 1).unwrap();
}

#[test]
fn program_that_has_only_announced_sockets_keeps_no_other_user_from_the_interface() {
    let mut bed = Bed::new();
    bed.hello(1, 0).unwrap();
    let socket = reusing(0, false);
    let announce = Request::Announce { is_to_be_used: true };
    let announced = bed.service.handle(1, 1, announce, Some(socket.try_clone().unwrap().into())).unwrap();
    assert_eq!(announced.answer, Answer::Done {});
    // A process that it forked, of another user.
    let worker = bed.program(2, 5);
    bed.flow(2, worker, &socket).0.unwrap();
    assert_eq!(bed.owners(), [worker]);
    let interface = Text::cut("eth1");
    assert_eq!(bed.share(1, "eth1", 1), Err(Cause::InterfaceOfOtherUser { interface, uid: 5 }));
    assert_eq!(bed.service.gone(1), []);
    assert_eq!(bed.owners(), [worker], "its flow is not its parent's");
}

#[test]
fn process_that_connects_anew_as_another_user_is_another_program() {
    let mut bed = Bed::new();
    let before = bed.program(1, 0);
    bed.hello(2, 5).unwrap();
    let refused = bed.share(2, "eth1", 1);
    assert_eq!(
        refused,
        Err(Cause::InterfaceOfOtherUser { interface: Text::cut("eth1"), uid: 0 }),
        "its own, of before"
    );
    bed.service.gone(1);
    assert!(!bed.ports.shares().contains(&before));
    bed.share(2, "eth1", 1).unwrap();
}

#[test]
fn shares_and_flows_of_others_are_out_of_reach() {
    let mut bed = Bed::new();
    let (own, other) = (bed.program(1, 0), bed.program(2, 0));
    let flow = bed.flow(2, other, any()).0.unwrap();
    assert_eq!(bed.flow(1, other, any()).0, Err(Cause::NoSuchShare { share: other }));
    for (request, cause) in [
        (Request::CloseShare { share: other }, Cause::NoSuchShare { share: other }),
        (Request::Forget { share: other }, Cause::NoSuchShare { share: other }),
        (Request::CloseFlow { flow }, Cause::NoSuchFlow { flow }),
    ] {
        assert_eq!(bed.ask(1, request), Answer::Refused { cause });
    }
    assert_eq!((bed.ports.shares(), bed.owners()), (vec![own, other], vec![other]));
}

#[test]
fn socket_of_two_programs_goes_to_the_kernel() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let socket = any();
    let flow = bed.flow(1, first, &socket).0.unwrap();
    assert_eq!(bed.flow(1, first, &socket).0, Err(Cause::FlowOpenAlready { flow }));
    let (refused, events) = bed.flow(2, second, &socket);
    assert_eq!(refused, Err(Cause::SocketShared { pid: 101 }));
    assert_eq!(events, [(1, Answer::FlowRevoked { flow, cause: Cause::SocketShared { pid: 102 } })]);
    assert!(bed.owners().is_empty());
}

#[test]
fn socket_of_several_programs_is_told_to_the_last_of_them_which_then_has_it() {
    let mut bed = Bed::new();
    let shares: Vec<u32> = (1..=4).map(|id| bed.program(id, 0)).collect();
    let socket = any();
    let cookie = rustix::net::sockopt::socket_cookie(&socket).unwrap();
    bed.flow(1, shares[0], &socket).0.unwrap();
    bed.flow(2, shares[1], &socket).0.unwrap_err();
    assert_eq!(bed.flow(3, shares[2], &socket), (Err(Cause::SocketShared { pid: 101 }), vec![]), "a third one too");
    assert_eq!(bed.flow(1, shares[0], &socket), (Err(Cause::SocketShared { pid: 102 }), vec![]), "nobody has it again");
    assert_eq!(bed.service.gone(4), []);
    assert_eq!(bed.service.gone(1), []);
    assert_eq!(bed.service.gone(2), [(3, Answer::SocketAlone { share: shares[2], cookie })]);
    let newcomer = bed.program(5, 0);
    let refused = Err(Cause::SocketShared { pid: 103 });
    assert_eq!(bed.flow(5, newcomer, &socket), (refused, vec![]), "it has not heard of that yet");
    assert_eq!(bed.service.gone(5), [(3, Answer::SocketAlone { share: shares[2], cookie })]);
    bed.flow(3, shares[2], &socket).0.unwrap();
    assert_eq!((bed.owners(), bed.service.gone(3)), (vec![shares[2]], vec![]));
}

#[test]
fn socket_that_somebody_unknown_reads_is_told_to_nobody() {
    for request in [Request::Release {}, Request::Announce { is_to_be_used: false }] {
        let mut bed = Bed::new();
        let shares: Vec<u32> = (1..=3).map(|id| bed.program(id, 0)).collect();
        let socket = any();
        bed.flow(1, shares[0], &socket).0.unwrap();
        bed.flow(2, shares[1], &socket).0.unwrap_err();
        // A process that lives.
        bed.service.programs.get_mut(&3).unwrap().caller.pid = std::process::id();
        bed.service.handle(3, 1, request, Some(socket.try_clone().unwrap().into())).unwrap();
        let refused = Err(Cause::SocketShared { pid: 101 });
        assert_eq!(bed.flow(3, shares[2], &socket), (refused, vec![]), "the others use it still");
        assert_eq!(bed.service.gone(1), []);
    }
}

#[test]
fn sockets_of_a_group_each_have_the_flow_unless_their_users_differ() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let one = reusing(0, false);
    let other = reusing(one.local_addr().unwrap().port(), false);
    bed.flow(1, first, &one).0.unwrap();
    bed.flow(2, second, &other).0.unwrap();
    assert_eq!(bed.owners(), [first, second]);
    let third = bed.share(2, "eth1", 0).unwrap();
    bed.service.programs.get_mut(&2).unwrap().caller.uid = 7;
    let another = reusing(one.local_addr().unwrap().port(), false);
    assert_eq!(bed.flow(2, third, &another).0, Err(Cause::AddressShared { pid: 101 }));
}

#[test]
fn sockets_of_two_programs_that_reuse_an_address_go_to_the_kernel() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let one = reusing(0, true);
    let other = reusing(one.local_addr().unwrap().port(), true);
    let flow = bed.flow(1, first, &one).0.unwrap();
    let (refused, events) = bed.flow(2, second, &other);
    assert_eq!(refused, Err(Cause::AddressShared { pid: 101 }));
    assert_eq!(events, [(1, Answer::FlowRevoked { flow, cause: Cause::AddressShared { pid: 102 } })]);
    assert!(bed.owners().is_empty());
}

#[test]
fn flow_of_a_socket_that_was_closed_is_the_next_ones() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let socket = any();
    let address = socket.local_addr().unwrap();
    let stale = bed.flow(1, first, &socket).0.unwrap();
    drop(socket);
    // Of every address: it overlaps the other one.
    let next = UdpSocket::bind(("0.0.0.0", address.port())).unwrap();
    let (opened, events) = bed.flow(2, second, &next);
    opened.unwrap();
    assert_eq!(events, [(1, Answer::FlowRevoked { flow: stale, cause: Cause::AddressShared { pid: 102 } })]);
    assert_eq!(bed.owners(), [second]);
}

#[test]
fn socket_that_the_kernel_tells_closed_has_no_flow() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let (one, other) = (any(), any());
    bed.flow(1, share, &one).0.unwrap();
    bed.flow(1, share, &other).0.unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&one).unwrap();
    bed.service.closed(&[cookie, 1 << 60]);
    assert_eq!(bed.owners(), [share]);
}

#[test]
fn sockets_closed_unseen_end_their_own_flows_and_no_others() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let [kept, gone, announced] = [any(), any(), any()];
    bed.flow(1, first, &kept).0.unwrap();
    let flow = bed.flow(2, second, &gone).0.unwrap();
    for socket in [&kept, &announced] {
        bed.service.announce(2, Some(socket.as_fd().try_clone_to_owned().unwrap()), true).unwrap();
    }
    drop((gone, announced));
    let told = bed.service.closed_unseen();
    assert!(matches!(&told[..], [(2, Answer::FlowRevoked { flow: told, .. })] if *told == flow), "{told:?}");
    assert_eq!((bed.owners(), bed.service.announced.sockets().count()), (vec![first], 1));
    assert_eq!(bed.service.closed_unseen(), []);
    assert_eq!(bed.owners(), [first]);
}

#[test]
fn share_that_is_being_opened_keeps_its_interface_for_its_user_and_counts() {
    let mut bed = Bed::new();
    for (id, uid) in [(1, 5), (2, 6), (3, 5)] {
        bed.hello(id, uid).unwrap();
    }
    bed.ports.be_slow();
    let open = |interface| Request::OpenShare { interface: Text::cut(interface), memory_bytes: 10 };
    assert!(bed.service.handle(1, 7, open("eth1"), None).is_none());
    assert_eq!(bed.share(2, "eth1", 10), Err(Cause::InterfaceOfOtherUser { interface: Text::cut("eth1"), uid: 5 }));
    assert!(bed.service.handle(3, 8, open("eth1"), None).is_none());
    assert!(bed.service.handle(3, 9, open("eth1"), None).is_none());
    assert_eq!(bed.share(3, "eth1", 10), Err(Cause::LimitReached { what: Limited::Shares {}, most: 3 }));
    assert!(bed.service.gone(1).is_empty() && bed.service.take_finished().is_empty());
    bed.ports.finish();
    let finished = bed.service.take_finished();
    let askers: Vec<_> = finished.iter().map(|(asker, _)| *asker).collect();
    assert_eq!(askers, [(3, 8), (3, 9)], "nobody is answered who is gone");
    assert!(finished.iter().all(|(_, outcome)| matches!(outcome.answer, Answer::ShareOpened { .. })), "{finished:?}");
    assert_eq!(bed.ports.shares().len(), 2);
    bed.service.gone(3);
    assert!(bed.ports.shares().is_empty());
    bed.ports.remove("eth1");
    assert!(bed.service.handle(2, 1, open("eth1"), None).is_none());
    bed.ports.finish();
    assert!(
        matches!(&bed.service.take_finished()[..], [((2, 1), outcome)] if matches!(outcome.answer, Answer::Refused { .. }))
    );
}

#[test]
fn interface_gone_takes_its_shares_and_tells_their_programs() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let kept = bed.share(2, "eth0", 1).unwrap();
    bed.flow(1, first, any()).0.unwrap();
    bed.ports.remove("eth1");
    let told = bed.service.take_lost();
    let cause = Cause::InterfaceGone { interface: Text::cut("eth1") };
    let revoked = |id, share| (id, Answer::ShareRevoked { share, cause: cause.clone() });
    assert_eq!(told, [revoked(1, first), revoked(2, second)]);
    assert_eq!((bed.ports.shares(), bed.owners()), (vec![kept], vec![]));
}

#[test]
fn status_shows_a_user_his_own_programs_and_root_all_of_them() {
    let mut bed = Bed::new();
    for (id, uid) in [(1, 0), (2, 5), (3, 6)] {
        bed.hello(id, uid).unwrap();
    }
    let mut seen = |id| match bed.ask(id, Request::Status { from: 0 }) {
        Answer::Programs { programs, next: None } => programs.iter().map(|program| program.uid).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!((seen(1), seen(2), seen(3)), (vec![0, 5, 6], vec![5], vec![6]));
}

#[test]
fn flow_of_one_address_moves_pauses_and_is_released_by_whoever_has_the_socket() {
    let mut bed = Bed::new();
    let first = bed.program(1, 0);
    let second = bed.share(1, "eth1", 10).unwrap();
    bed.hello(2, 0).unwrap();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let copy = || Some(socket.as_fd().try_clone_to_owned().unwrap());
    let address = "127.0.0.1".parse().unwrap();
    let request = Request::OpenFlow { share: first, address: Some(address) };
    let opened = bed.service.handle(1, 1, request, copy()).unwrap().answer;
    let Answer::FlowOpened { flow, addresses } = opened else { panic!("{opened:?}") };
    assert_eq!(addresses.local.ip(), address);
    let done = Answer::Done {};
    for (request, owners) in [
        (Request::MoveFlow { flow, share: second }, vec![second]),
        (Request::Pause { share: second }, vec![]),
        (Request::Pause { share: second }, vec![]),
        (Request::Resume { share: second }, vec![second]),
        (Request::Pause { share: second }, vec![]),
        (Request::MoveFlow { flow, share: first }, vec![first]),
        (Request::Resume { share: second }, vec![first]),
    ] {
        assert_eq!((bed.ask(1, request.clone()), bed.owners()), (done.clone(), owners), "{request:?}");
    }
    let released = bed.service.handle(2, 1, Request::Release {}, copy()).unwrap();
    let cause = Cause::SocketShared { pid: 102 };
    assert_eq!((released.answer, released.events), (done, vec![(1, Answer::FlowRevoked { flow, cause })]));
    assert!(bed.owners().is_empty());
    assert_eq!(
        bed.ask(2, Request::MoveFlow { flow, share: first }),
        Answer::Refused { cause: Cause::NoSuchShare { share: first } }
    );
}

#[test]
fn sockets_of_one_program_at_one_address_have_one_flow_at_the_port_until_the_last_is_closed() {
    for by_address in [false, true] {
        let mut bed = Bed::new();
        let share = bed.program(1, 0);
        let one = reusing(0, by_address);
        let other = reusing(one.local_addr().unwrap().port(), by_address);
        let flows = [bed.flow(1, share, &one).0.unwrap(), bed.flow(1, share, &other).0.unwrap()];
        assert_eq!(bed.owners(), [share], "one at the port");
        assert_eq!(bed.ask(1, Request::CloseFlow { flow: flows[0] }), Answer::Done {});
        assert_eq!(bed.owners(), [share]);
        assert_eq!(bed.ask(1, Request::CloseFlow { flow: flows[1] }), Answer::Done {});
        assert!(bed.owners().is_empty());
    }
}

#[test]
fn datagram_is_given_back_to_its_socket_and_to_no_other() {
    let mut bed = Bed::new();
    bed.hello(1, 5).unwrap();
    let source = "127.0.0.1:999".parse().unwrap();
    let mut give = |socket: &UdpSocket, address: &str| {
        let payload = b"waited".to_vec();
        let request = Request::GiveBack { source, address: address.parse().unwrap(), ttl: 9, tos: 0, payload };
        bed.service.handle(1, 1, request, Some(socket.try_clone().unwrap().into())).unwrap().answer
    };
    let refused = Answer::Refused { cause: Cause::NotGivenBack {} };
    let alone = any();
    alone.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(give(&alone, "127.0.0.1"), Answer::Done {});
    assert_eq!(alone.recv_from(&mut buffer).unwrap(), (6, source));
    assert_eq!(&buffer[..6], b"waited");
    for other in ["127.0.0.2", "192.0.2.1", "224.0.0.1", "0.0.0.0", "::1"] {
        assert_eq!(give(&alone, other), refused, "{other}");
    }
    alone.connect("127.0.0.1:998").unwrap();
    assert_eq!(give(&alone, "127.0.0.1"), refused, "it is not from its peer");
    // A connected socket beside it would get what its peer sends.
    let shared = reusing(0, true);
    let connected = reusing(shared.local_addr().unwrap().port(), true);
    assert_eq!(give(&shared, "127.0.0.1"), Answer::Done {});
    connected.connect(source).unwrap();
    assert_eq!(give(&shared, "127.0.0.1"), refused);
    assert_eq!(give(&connected, "127.0.0.1"), Answer::Done {});
}
