//! The flows of TCP connections.

use std::net::{TcpListener, TcpStream};

use super::*;

/// Both ends of a connection.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

fn ask(bed: &mut Bed, id: ProgramId, request: Request, socket: impl AsFd) -> Answer {
    let socket = socket.as_fd().try_clone_to_owned().unwrap();
    bed.service.handle(id, 1, request, Some(socket)).unwrap().answer
}

fn open(bed: &mut Bed, id: ProgramId, share: u32, socket: impl AsFd) -> Result<u32, Cause> {
    match ask(bed, id, Request::OpenConnection { share }, socket) {
        Answer::ConnectionOpened { connection } => Ok(connection),
        Answer::Refused { cause } => Err(cause),
        other => panic!("{other:?}"),
    }
}

#[test]
fn connection_opened_and_closed_has_its_exact_flow_meanwhile_and_its_far_end_hears_nothing() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let (near, _far) = pair();
    let connection = open(&mut bed, 1, share, &near).unwrap();
    let (flow, owner) = bed.ports.connections()[0];
    assert_eq!((owner, flow.local_port), (share, near.local_addr().unwrap().port()));
    assert_eq!(flow.remote_port, near.peer_addr().unwrap().port());
    assert_eq!(bed.ask(1, Request::CloseConnection { connection }), Answer::Done {});
    assert_eq!((bed.ports.connections(), bed.ports.ended_connections()), (vec![], vec![]));
}

#[test]
fn program_gone_its_connections_end_at_their_far_ends() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let (ours, others) = (pair(), pair());
    open(&mut bed, 1, first, &ours.0).unwrap();
    open(&mut bed, 2, second, &others.0).unwrap();
    bed.service.gone(1);
    assert_eq!(bed.ports.connections().iter().map(|(_, share)| *share).collect::<Vec<_>>(), [second]);
    let ended = bed.ports.ended_connections();
    assert_eq!(ended.iter().map(|flow| flow.local_port).collect::<Vec<_>>(), [ours.0.local_addr().unwrap().port()]);
}

#[test]
fn guarded_connection_has_no_flow_and_ends_at_its_far_end_when_its_program_or_its_socket_is_gone() {
    let mut bed = Bed::new();
    bed.program(1, 0);
    let guard = |bed: &mut Bed, socket: &TcpStream| match ask(bed, 1, Request::GuardConnection {}, socket) {
        Answer::ConnectionOpened { connection } => connection,
        other => panic!("{other:?}"),
    };
    let [released, closed, left] = [pair(), pair(), pair()];
    let connection = guard(&mut bed, &released.0);
    assert_eq!(bed.ask(1, Request::CloseConnection { connection }), Answer::Done {});
    let ended = |bed: &Bed| bed.ports.ended_connections().iter().map(|flow| flow.local_port).collect::<Vec<_>>();
    let [of_closed, of_left] = [&closed, &left].map(|(near, _)| near.local_addr().unwrap().port());
    guard(&mut bed, &closed.0);
    guard(&mut bed, &left.0);
    assert_eq!((bed.ports.connections(), ended(&bed)), (vec![], vec![]));
    bed.service.closed(&[rustix::net::sockopt::socket_cookie(&closed.0).unwrap()]);
    assert_eq!(ended(&bed), [of_closed]);
    bed.service.gone(1);
    assert_eq!(ended(&bed), [of_closed, of_left]);
}

#[test]
fn far_end_that_may_not_have_answered_is_told_again_and_not_for_ever() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let (near, _far) = pair();
    open(&mut bed, 1, share, &near).unwrap();
    bed.service.gone(1);
    for told in [2, 3, 3, 3] {
        bed.now += Duration::from_millis(700);
        bed.service.pass_time(bed.now);
        assert_eq!(bed.ports.ended_connections().len(), told);
    }
    assert_eq!(bed.service.next_due(), None);
}

#[test]
fn socket_closed_while_its_flow_is_open_ends_the_connection_at_its_far_end() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let (near, _far) = pair();
    open(&mut bed, 1, share, &near).unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&near).unwrap();
    bed.service.closed(&[cookie]);
    assert_eq!((bed.ports.connections().len(), bed.ports.ended_connections().len()), (0, 1));
}

#[test]
fn share_closed_by_its_program_leaves_the_kernel_its_connections() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let (near, _far) = pair();
    open(&mut bed, 1, share, &near).unwrap();
    assert_eq!(bed.ask(1, Request::CloseShare { share }), Answer::Done {});
    assert_eq!((bed.ports.connections(), bed.ports.ended_connections()), (vec![], vec![]));
}

#[test]
fn connection_of_another_program_is_refused_and_so_are_sockets_without_one_and_numbers_of_others() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let (near, _far) = pair();
    let connection = open(&mut bed, 1, first, &near).unwrap();
    assert_eq!(open(&mut bed, 2, second, &near), Err(Cause::SocketShared { pid: 101 }));
    assert_eq!(open(&mut bed, 2, first, &near), Err(Cause::NoSuchShare { share: first }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(open(&mut bed, 1, first, &listener), Err(Cause::NotBound {}));
    assert!(matches!(open(&mut bed, 1, first, any()), Err(Cause::WrongSocket { .. })));
    let refused = bed.ask(2, Request::CloseConnection { connection });
    assert_eq!(refused, Answer::Refused { cause: Cause::NoSuchConnection { connection } });
}

#[test]
fn connections_count_as_flows() {
    let mut bed = Bed::new();
    let share = bed.program(1, 5);
    let pairs = [pair(), pair(), pair(), pair()];
    for (near, _) in &pairs[..3] {
        open(&mut bed, 1, share, near).unwrap();
    }
    let refused = open(&mut bed, 1, share, &pairs[3].0);
    assert_eq!(refused, Err(Cause::LimitReached { what: Limited::Flows {}, most: 3 }));
}

fn hear(bed: &mut Bed, id: ProgramId, share: u32, socket: impl AsFd) -> Result<(u32, bool), Cause> {
    match ask(bed, id, Request::HearConnection { share }, socket) {
        Answer::ConnectionHeard { connection, is_heard } => Ok((connection, is_heard == Some(true))),
        Answer::Refused { cause } => Err(cause),
        other => panic!("{other:?}"),
    }
}

#[test]
fn connection_listened_for_is_heard_once_a_frame_came_and_its_flow_can_be_opened_then() {
    let mut bed = Bed::new();
    let share = bed.program(1, 0);
    let (near, _far) = pair();
    let (number, is_heard) = hear(&mut bed, 1, share, &near).unwrap();
    assert!(!is_heard);
    assert_eq!(hear(&mut bed, 1, share, &near), Ok((number, false)));
    assert_eq!((bed.ports.hear(), bed.ports.connections()), (1, vec![]));
    assert_eq!(hear(&mut bed, 1, share, &near), Ok((number, true)));
    open(&mut bed, 1, share, &near).unwrap();
    assert_eq!((bed.ports.hear(), bed.ports.connections().len()), (0, 1));
    assert!(matches!(hear(&mut bed, 1, share, &near), Err(Cause::SocketShared { .. })), "its program has it");
}

#[test]
fn connection_listened_for_ends_with_its_share_its_socket_or_its_program_and_its_far_end_hears_nothing() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let [closed, left, of_share] = [pair(), pair(), pair()];
    let (number, _) = hear(&mut bed, 1, first, &closed.0).unwrap();
    assert_eq!(bed.ask(1, Request::CloseConnection { connection: number }), Answer::Done {});
    hear(&mut bed, 1, first, &closed.0).unwrap();
    hear(&mut bed, 1, first, &left.0).unwrap();
    hear(&mut bed, 2, second, &of_share.0).unwrap();
    assert_eq!(bed.ports.hear(), 3);
    bed.service.closed(&[rustix::net::sockopt::socket_cookie(&closed.0).unwrap()]);
    assert_eq!(bed.ports.hear(), 2);
    assert_eq!(bed.ask(2, Request::CloseShare { share: second }), Answer::Done {});
    assert_eq!(bed.ports.hear(), 1);
    bed.service.gone(1);
    assert_eq!((bed.ports.hear(), bed.ports.ended_connections()), (0, vec![]));
}

#[test]
fn connection_listened_for_by_one_program_is_the_other_programs_that_has_its_socket_now() {
    let mut bed = Bed::new();
    let (first, second) = (bed.program(1, 0), bed.program(2, 0));
    let (near, _far) = pair();
    hear(&mut bed, 1, first, &near).unwrap();
    hear(&mut bed, 2, second, &near).unwrap();
    assert_eq!(bed.ports.hear(), 1);
    open(&mut bed, 2, second, &near).unwrap();
    assert_eq!(bed.ports.connections()[0].1, second);
    assert_eq!(hear(&mut bed, 1, first, &near), Err(Cause::SocketShared { pid: 102 }));
}
