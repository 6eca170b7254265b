use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

/// An ELF file put together for a test, 64-bit little endian.
#[derive(Clone, Default)]
struct Made {
    interpreter: Option<&'static str>,
    needed: Vec<&'static str>,
    go_section: bool,
    go_note: bool,
}

impl Made {
    /// The header, four program headers, then what they speak of, in the order of the file.
    fn bytes(&self) -> Vec<u8> {
        const SEGMENTS: usize = 4;
        const BASE: u64 = 0x40_0000;
        let data_at = 64 + SEGMENTS * 56;
        let mut data = Vec::new();
        let mut segments: Vec<(u32, usize, usize)> = Vec::new();
        if let Some(interpreter) = self.interpreter {
            segments.push((3, data_at + data.len(), interpreter.len() + 1));
            data.extend([interpreter.as_bytes(), b"\0"].concat());
        }
        if !self.needed.is_empty() {
            let names_at = data_at + data.len();
            let mut entries: Vec<(u64, u64)> = Vec::new();
            data.push(0);
            for name in &self.needed {
                entries.push((1, (data_at + data.len() - names_at) as u64));
                data.extend([name.as_bytes(), b"\0"].concat());
            }
            entries.extend([(5, BASE + names_at as u64), (0, 0)]);
            segments.push((2, data_at + data.len(), entries.len() * 16));
            data.extend(entries.iter().flat_map(|(tag, value)| [tag.to_le_bytes(), value.to_le_bytes()].concat()));
        }
        if self.go_note {
            segments.push((4, data_at + data.len(), 20));
            data.extend([4_u32, 4, 4].iter().flat_map(|word| word.to_le_bytes()));
            data.extend(b"Go\0\0id__");
        }
        let sections_at = data_at + data.len();
        if self.go_section {
            let names = b"\0.shstrtab\0.go.buildinfo\0";
            let mut section = |name: u32, offset: usize, length: usize| {
                let mut bytes = [0; 64];
                bytes[..4].copy_from_slice(&name.to_le_bytes());
                bytes[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
                bytes[32..40].copy_from_slice(&(length as u64).to_le_bytes());
                data.extend(bytes);
            };
            section(1, sections_at + 128, names.len());
            section(11, 0, 0);
            data.extend(names);
        }
        // The whole file is one segment in memory.
        segments.push((1, 0, data_at + data.len()));
        let mut file = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        for address in [BASE, 64, if self.go_section { sections_at as u64 } else { 0 }] {
            file.extend(address.to_le_bytes());
        }
        file.extend([0; 4]);
        let sections = if self.go_section { 2 } else { 0 };
        for half in [64_u16, 56, segments.len() as u16, 64, sections, 0] {
            file.extend(half.to_le_bytes());
        }
        for (kind, offset, length) in &segments {
            file.extend(kind.to_le_bytes());
            file.extend([0; 4]);
            for value in [*offset as u64, BASE + *offset as u64, 0, *length as u64, *length as u64, 1] {
                file.extend(value.to_le_bytes());
            }
        }
        file.resize(data_at, 0);
        file.extend(data);
        file
    }

    fn facts(&self) -> ElfFacts {
        ElfFacts::read(&self.bytes()[..]).unwrap()
    }
}

const GLIBC: &str = "/lib64/ld-linux-x86-64.so.2";

fn dynamic() -> Made {
    Made { interpreter: Some(GLIBC), needed: vec!["libm.so.6", "libc.so.6"], ..Made::default() }
}

fn library() -> ElfFacts {
    Made { needed: vec!["libc.so.6"], ..Made::default() }.facts()
}

fn program(facts: ElfFacts) -> Program {
    let kind = Kind::Elf(facts);
    Program { path: "/x/prog".into(), interpreters: vec![], kind, privileges: Privileges::default() }
}

#[track_caller]
fn refused(program: &Program) -> String {
    match judge(program, &library(), &Caller::default()) {
        Judgement::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn program_that_needs_liburing_or_has_its_instruction_is_doubtful() {
    let by_library = Made { needed: vec!["liburing.so.2", "libc.so.6"], ..dynamic() }.facts();
    let mut bytes = dynamic().bytes();
    assert!(by_library.uses_io_uring && !dynamic().facts().uses_io_uring);
    if cfg!(target_arch = "x86_64") {
        // The last segment is the whole file, and becomes text.
        let headers = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
        let last = 64 + (headers - 1) * 56;
        bytes[last + 4] = 5;
        let names = bytes.len() - 32;
        bytes[names..names + 7].copy_from_slice(&[0xb8, 0xa9, 1, 0, 0, 0x0f, 0x05]);
        assert!(ElfFacts::read(&bytes[..]).unwrap().uses_io_uring);
        assert!(!ElfFacts::of_library(&bytes[..]).unwrap().uses_io_uring);
    }
    let Judgement::Doubtful(why) = judge(&program(by_library), &library(), &Caller::default()) else { panic!() };
    assert!(why.contains("uses io_uring"), "{why}");
}

#[test]
fn dynamic_program_read_has_its_interpreter_and_libraries() {
    let facts = dynamic().facts();
    assert_eq!(facts.interpreter.as_deref(), Some(GLIBC));
    assert_eq!(facts.needed, ["libm.so.6", "libc.so.6"]);
    assert_eq!((facts.machine_words().as_str(), facts.is_go), ("64-bit x86-64", false));
    assert_eq!(judge(&program(facts), &library(), &Caller::default()), Judgement::Fine);
}

#[test]
fn static_program_is_refused() {
    assert!(refused(&program(Made::default().facts())).contains("statically linked"));
}

#[test]
fn go_program_is_refused_when_static_and_doubted_when_dynamic() {
    for made in [Made { go_section: true, ..Made::default() }, Made { go_note: true, ..Made::default() }] {
        assert!(refused(&program(made.facts())).contains("static Go program"));
    }
    let dynamic = Made { go_section: true, ..dynamic() };
    let judgement = judge(&program(dynamic.facts()), &library(), &Caller::default());
    assert!(matches!(&judgement, Judgement::Doubtful(why) if why.contains("Go program")), "{judgement:?}");
}

#[test]
fn program_of_another_machine_is_refused() {
    let mut bytes = dynamic().bytes();
    bytes[18] = 183;
    let why = refused(&program(ElfFacts::read(&bytes[..]).unwrap()));
    assert!(why.contains("64-bit AArch64") && why.contains("64-bit x86-64"), "{why}");
    let mut bytes = [0; 52];
    bytes[..20].copy_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0");
    assert!(refused(&program(ElfFacts::read(&bytes[..]).unwrap())).contains("32-bit x86,"));
}

#[test]
fn program_of_another_c_library_is_refused() {
    let musl =
        Made { interpreter: Some("/lib/ld-musl-x86_64.so.1"), needed: vec!["libc.musl-x86_64.so.1"], ..dynamic() };
    assert!(refused(&program(musl.facts())).contains("another C library"));
    let library = Made { needed: vec!["libc.so"], ..Made::default() }.facts();
    assert_eq!(judge(&program(musl.facts()), &library, &Caller::default()), Judgement::Fine);
}

#[test]
fn set_user_program_is_refused_for_others_than_its_owner() {
    let privileges = Privileges { mode: 0o104_755, ..Privileges::default() };
    let program = Program { privileges, ..program(dynamic().facts()) };
    let user = Caller { uid: 9, effective_uid: 9, ..Caller::default() };
    let judgement = judge(&program, &library(), &user);
    assert!(matches!(&judgement, Judgement::Refused(why) if why.contains("ignores LD_PRELOAD")), "{judgement:?}");
    assert_eq!(judge(&program, &library(), &Caller::default()), Judgement::Fine);
}

#[test]
fn script_looked_at_leads_to_its_interpreters_interpreter() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let elf = write("elf", &dynamic().bytes());
    let inner = write("inner", format!("#! \t{} -x\n", elf.display()).as_bytes());
    let outer = write("outer", format!("#!{}\n", inner.display()).as_bytes());
    let program = Program::look(&outer).unwrap();
    assert_eq!((program.executed(), &program.kind), (elf.as_path(), &Kind::Elf(dynamic().facts())));
    assert_eq!(program.interpreters, [inner, elf]);

    let text = write("text", b"echo\n");
    assert_eq!(Program::look(&text).unwrap().interpreters, [Path::new(SHELL)]);
    let missing = write("missing", b"#!/nonexistent/interpreter\n");
    let error = Program::look(&missing).unwrap_err();
    assert!(matches!(error, FindError::NotFound { .. }) && error.to_string().contains("interpreter that"), "{error}");
    let own = directory.path().join("own");
    write("own", format!("#!{}\n", own.display()).as_bytes());
    assert!(matches!(Program::look(&own).unwrap_err(), FindError::NotExecutable { .. }));
}

#[test]
fn name_searched_is_found_as_execvp_does() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    for (directory, mode) in [(&one, 0o644), (&other, 0o755)] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("prog"), "x").unwrap();
        fs::set_permissions(directory.join("prog"), fs::Permissions::from_mode(mode)).unwrap();
    }
    let both = std::env::join_paths([Path::new("/nonexistent"), &one, &other]).unwrap();
    let name = OsStr::new("prog");
    assert_eq!(find(name, Some(&both)), Ok(other.join("prog")));
    let error = find(name, Some(one.as_os_str())).unwrap_err();
    assert!(matches!(&error, FindError::NotExecutable { .. }), "{error}");
    assert!(matches!(find(OsStr::new("nw-none"), Some(&both)).unwrap_err(), FindError::NotFound { .. }));
    assert!(matches!(find(one.as_os_str(), None).unwrap_err(), FindError::NotExecutable { .. }));
    assert!(matches!(find(OsStr::new(""), None).unwrap_err(), FindError::NotFound { .. }));
}

#[test]
fn this_very_test_is_a_dynamic_program() {
    let program = Program::look(&std::env::current_exe().unwrap()).unwrap();
    let Kind::Elf(facts) = &program.kind else { panic!("{program:?}") };
    assert!(facts.interpreter.is_some() && facts.needed.iter().any(|name| name.starts_with("libc.")), "{facts:?}");
}

#[test]
fn broken_files_are_told_apart() {
    assert_eq!(ElfFacts::read(&b"\x7fEL"[..]), Err(elf::ElfError::Header));
    let mut bytes = dynamic().bytes();
    bytes[16] = 1;
    assert_eq!(ElfFacts::read(&bytes[..]), Err(elf::ElfError::Type { found: 1 }));
    let mut bytes = dynamic().bytes();
    bytes[56..58].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(ElfFacts::read(&bytes[..]), Err(elf::ElfError::ProgramHeaders));
}

#[test]
fn capabilities_after_exec_are_the_bounding_set_of_root_and_the_ambient_set_of_others() {
    let status = "Name:\tx\nUid:\t5\t0\t0\t0\nGid:\t6\t7\t7\t7\nNoNewPrivs:\t1\nCapInh:\t0000000000000001\n\
                  CapEff:\t0000000000000002\nCapBnd:\t0000000000003000\nCapAmb:\t0000000000001000\n";
    let caller = Caller::parse(status);
    assert_eq!((caller.uid, caller.effective_uid, caller.gid, caller.effective_gid), (5, 0, 6, 7));
    assert!(caller.has_no_new_privileges);
    assert_eq!(caller.after_exec(), 0x3001);
    let user = Caller { effective_uid: 5, ..caller };
    assert!(Capability::NetAdmin.is_in(user.after_exec()) && !Capability::NetRaw.is_in(user.after_exec()));
}

proptest! {
    #[test]
    fn any_bytes_read_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut file = Vec::from(*b"\x7fELF\x02\x01");
        file.extend(&bytes);
        let _ = ElfFacts::read(&bytes[..]);
        let _ = ElfFacts::read(&file[..]);
        let _ = interpreter(&bytes);
    }

    #[test]
    fn mutated_file_read_never_panics(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut: prop::sample::Index,
        class in 1..3_u8,
        go_note: bool,
    ) {
        let mut bytes = Made { go_section: true, go_note, ..dynamic() }.bytes();
        bytes[4] = class;
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        let _ = ElfFacts::read(&bytes[..]);
        bytes.truncate(cut.index(bytes.len()));
        let _ = ElfFacts::read(&bytes[..]);
    }
}
