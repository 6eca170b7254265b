#[test]
fn port_whose_program_was_detached_by_force_says_so() {
    let Some(cable) = cable_or_skip() else { return };
    for mode in [XdpMode::Generic, XdpMode::NativeCopy] {
        let mut port = cable.near(|| XdpPort::open(&XdpConfig::new(NEAR, mode, STEER))).unwrap();
        let program = port.facts().program_id;
        assert_eq!(cable.near(|| nearwire_sys::bpf::detach_links_of(program)).unwrap(), 1);
        let until = Instant::now() + PATIENCE;
        let error = loop {
            assert!(Instant::now() < until, "{mode}: nothing was said");
            if let Err(error) = port.receive(|_| ()) {
                break error;
            }
        };
        assert!(matches!(&error, PortError::ProgramDetached { program_id, .. } if *program_id == program), "{error}");
    }
}

/// Several queues receive, whichever the sender chose.
#[test]
fn port_with_a_socket_on_each_queue_gets_what_comes_on_any() {
    let Some(cable) = cable_or_skip() else { return };
    let facts = cable.far(|| InterfaceFacts::read(FAR)).unwrap();
    let config = XdpConfig::new(FAR, XdpMode::NativeCopy, STEER).with_queues(facts.rx_queues);
    let mut far = cable.far(|| XdpPort::open(&config)).unwrap();
    for tx_queue in 0..facts.rx_queues {
        let one = XdpConfig { rx_queues: vec![tx_queue], tx_queue, ..XdpConfig::new(NEAR, XdpMode::NativeCopy, STEER) };
        let mut near = cable.near(|| XdpPort::open(&one)).unwrap();
        let sent = frame(&[], tx_queue, 64);
        assert!(near.send(&sent).unwrap());
        assert_eq!(next(&mut far), sent);
    }
}
