use super::*;

const EXIT: Instruction = Instruction { code: 0x95, registers: 0, offset: 0, immediate: 0 };

fn return_value(immediate: i32) -> [Instruction; 2] {
    [Instruction { code: 0xb7, registers: 0, offset: 0, immediate }, EXIT]
}

/// Runs `test` where the kernel lets this process use bpf(2); elsewhere says so, or fails when told to.
pub(super) fn with_bpf(test: impl FnOnce()) {
    match Map::create(MapKind::Array, "probe", 4, 4, 1) {
        Ok(_) => test(),
        Err(error) if std::env::var_os("NEARWIRE_REQUIRE").is_none() => println!("SKIP bpf(2) is refused: {error}"),
        Err(error) => panic!("NEARWIRE_REQUIRE is set and bpf(2) is refused: {error}"),
    }
}

#[test]
fn instruction_has_the_kernels_layout() {
    assert_eq!(size_of::<Instruction>(), 8);
    assert_eq!(std::mem::offset_of!(Instruction, immediate), 4);
}

#[test]
fn array_updated_lookup_returns_value_and_delete_is_refused() {
    with_bpf(|| {
        let map = Map::create(MapKind::Array, "array", 4, 8, 2).unwrap();
        map.update(&1u32.to_ne_bytes(), &7u64.to_ne_bytes()).unwrap();
        let mut value = [0; 8];
        assert!(map.lookup(&1u32.to_ne_bytes(), &mut value).unwrap());
        assert_eq!(u64::from_ne_bytes(value), 7);
        assert_eq!(map.delete(&1u32.to_ne_bytes()).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let beyond = map.update(&2u32.to_ne_bytes(), &value).unwrap_err();
        assert_eq!(beyond.raw_os_error(), Some(libc::E2BIG));
    });
}

#[test]
fn hash_deleted_lookup_finds_nothing() {
    with_bpf(|| {
        let map = Map::create(MapKind::Hash, "hash", 6, 4, 4).unwrap();
        map.update(&[1; 6], &[2; 4]).unwrap();
        assert!(map.delete(&[1; 6]).unwrap());
        assert!(!map.delete(&[1; 6]).unwrap());
        assert!(!map.lookup(&[1; 6], &mut [0; 4]).unwrap());
    });
}

#[test]
fn map_called_with_wrong_lengths_is_refused_before_the_kernel_reads_beyond() {
    with_bpf(|| {
        let map = Map::create(MapKind::Hash, "hash", 6, 8, 4).unwrap();
        assert_eq!(map.update(&[1; 5], &[2; 8]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(map.update(&[1; 6], &[2; 7]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(map.lookup(&[1; 6], &mut [0; 4]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    });
}

#[test]
fn xskmap_given_a_non_socket_is_refused() {
    with_bpf(|| {
        let map = Map::xskmap("sockets", 1).unwrap();
        let file = std::fs::File::open("/proc/self/status").unwrap();
        map.set_socket(0, &file).unwrap_err();
    });
}

#[test]
fn program_test_run_returns_its_action_and_the_packet() {
    with_bpf(|| {
        let program = Program::load_xdp("pass", &return_value(2)).unwrap();
        let packet = [0xab; 60];
        let run = program.test_run(&packet).unwrap();
        assert_eq!((run.retval, run.data_out.as_slice()), (2, packet.as_slice()));
        assert_ne!(program.id().unwrap(), 0);
    });
}

#[test]
fn program_reading_uninitialised_register_is_rejected_with_log() {
    with_bpf(|| {
        let error = Program::load_xdp("broken", &[EXIT]).unwrap_err();
        assert!(error.log.contains("R0 !read_ok"), "{error}");
        assert!(error.to_string().starts_with("load XDP program broken: "), "{error}");
    });
}

#[test]
fn link_to_missing_interface_is_refused() {
    with_bpf(|| {
        let program = Program::load_xdp("pass", &return_value(2)).unwrap();
        assert!(Link::attach_xdp(&program, 0x7fff_fff0, XdpAttach::Skb).is_err());
    });
}

/// What Linux 6.12 said of a program that every later kernel takes.
#[test]
fn verifiers_last_words_are_what_an_error_shows() {
    let log = "0: R1=ctx() R10=fp0\n0: (bf) r6 = r1                       ; R1=ctx() R6_w=ctx()\n\
               120: (0f) r3 += r4\n\
               math between pkt pointer and register with unbounded min value is not allowed\n\
               processed 121 insns (limit 1000000) max_states_per_insn 0 total_states 8 peak_states 8 mark_read 4";
    let source = std::io::Error::from_raw_os_error(libc::EACCES);
    let error = LoadError { name: "nw_filters".to_owned(), source, log: log.to_owned() };
    assert_eq!(
        error.to_string(),
        "load XDP program nw_filters: Permission denied (os error 13); the verifier said: math between pkt pointer and \
         register with unbounded min value is not allowed (at 120: (0f) r3 += r4)"
    );
    let unread = LoadError { log: "R0 !read_ok".to_owned(), ..error };
    assert!(unread.to_string().ends_with("the verifier said: R0 !read_ok"), "{unread}");
}
