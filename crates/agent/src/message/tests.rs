use nearwire_checks::agent::messages as check_bytes;

use super::*;

fn examples() -> Vec<Answer> {
    let local = "[fd00::1]:7000".parse().unwrap();
    let remote = Some("10.0.0.2:53".parse().unwrap());
    let share = ShareStatus { share: 7, interface: Text::cut("eth1"), flows: 3 };
    let program =
        ProgramStatus { pid: 12, uid: 1000, name: Text::cut("dns"), memory_bytes: 1 << 40, shares: vec![share] };
    vec![
        Answer::Welcome { version: VERSION },
        Answer::ShareOpened { share: 1, memory_bytes: 1 << 20, description: vec![1, 2, 3], carrier_within_ms: 9000 },
        Answer::FlowOpened { flow: 9, addresses: Addresses { local, remote, both_families: true } },
        Answer::ConnectionOpened { connection: 6 },
        Answer::ConnectionHeard { connection: 7, is_heard: Some(true) },
        Answer::Done {},
        Answer::Programs { programs: vec![program.clone(), program], next: Some(4) },
        Answer::Refused { cause: Cause::LimitReached { what: Limited::Flows {}, most: 8 } },
        Answer::FlowRevoked { flow: 9, cause: Cause::SocketShared { pid: 77 } },
    ]
}

#[test]
fn answer_written_is_read_back() {
    for answer in examples() {
        let bytes = answer.to_bytes(513);
        assert_eq!(bytes[2..4], [1, 2], "the number is behind the kind");
        assert_eq!(Answer::from_bytes(&bytes).unwrap(), (answer, 513));
        check_bytes(&bytes);
    }
}

#[test]
fn message_cut_anywhere_or_with_a_byte_more_is_refused() {
    for answer in examples() {
        let mut bytes = answer.to_bytes(1);
        for len_bytes in 0..bytes.len() {
            assert!(Answer::from_bytes(&bytes[..len_bytes]).is_err(), "{answer:?} cut at {len_bytes}");
        }
        bytes.push(0);
        assert_eq!(Answer::from_bytes(&bytes), Err(Malformed::LeftOver { len_bytes: 1 }), "{answer:?}");
    }
}

#[test]
fn layout_of_hello_is_the_one_of_every_version() {
    let hello = Request::Hello { version: 0x0102, name: Text::cut("ab") };
    assert_eq!(hello.to_bytes(3), [1, 0, 3, 0, 2, 1, 2, 0, b'a', b'b']);
}

#[test]
fn text_with_control_characters_is_refused_and_never_made() {
    let name: ProgramName = Text::cut(&format!("a\u{1b}[2J{}", "ü".repeat(64)));
    assert!(name.as_str().len() <= 64 && !name.as_str().contains('\u{1b}'), "{name}");
    assert_eq!(Request::from_bytes(&[1, 0, 0, 0, 1, 0, 1, 0, 0x1b]), Err(Malformed::Text));
    assert_eq!(Request::from_bytes(&[1, 0, 0, 0, 1, 0, 1, 0, 0xff]), Err(Malformed::Text));
}

#[test]
fn causes_are_sentences() {
    let cause = Cause::LimitReached { what: Limited::Flows {}, most: 8 };
    assert_eq!(cause.to_string(), "the agent's limit is reached: 8 flows of a user");
}
