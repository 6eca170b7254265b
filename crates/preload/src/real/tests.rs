use std::io::Error;
use std::thread;

use super::*;

/// Named as in C; no library has it.
static MISSING: Next = Next {
    name: c"nearwire_no_such_function",
    absent: AtomicPtr::new(absent::close_range as *mut c_void),
    found: AtomicPtr::new(ptr::null_mut()),
};

#[test]
fn every_name_is_found_in_this_c_library_or_has_a_stand_in() {
    find_all();
    for name in NAMES {
        let name = std::ffi::CString::new(*name).unwrap();
        // SAFETY: the name ends in NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?} is no function of this C library: a misspelt name?");
    }
}

#[test]
fn name_missing_stand_in_is_called() {
    assert_eq!(MISSING.get(), absent::close_range as *mut c_void);
    assert_eq!(MISSING.get(), MISSING.found.load(Ordering::Relaxed));
    assert_eq!((i32::not_implemented(), Error::last_os_error().raw_os_error()), (-1, Some(libc::ENOSYS)));
}

#[test]
fn threads_look_at_once_all_find_the_same() {
    let addresses = thread::scope(|scope| {
        let finders: Vec<_> = (0..4).map(|_| scope.spawn(|| next::getpeername.get() as usize)).collect();
        finders.into_iter().map(|finder| finder.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(addresses.iter().all(|address| *address == addresses[0]));
}

#[test]
fn functions_called_behave_as_in_c() {
    let mut pair = [0; 2];
    let mut buffer = [0_u8; 8];
    // SAFETY: pointers and lengths are those of the variables.
    unsafe {
        assert_eq!(socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr()), 0);
        assert_eq!(send(pair[0], c"near".as_ptr().cast(), 4, 0), 4);
        assert_eq!(absent::__recv_chk(pair[1], buffer.as_mut_ptr().cast(), 8, 8, 0), 4);
        assert_eq!(fcntl(pair[0], libc::F_GETFD, 0), 0);
        assert_eq!(fcntl64(pair[0], libc::F_SETFD, libc::FD_CLOEXEC as c_ulong), 0);
        assert_eq!(absent::fcntl64(pair[0], libc::F_GETFD, 0), libc::FD_CLOEXEC);
        assert_eq!(syscall(libc::SYS_getpid, 0, 0, 0, 0, 0, 0), c_long::from(libc::getpid()));
        assert_eq!(pair.map(|fd| close(fd)), [0, 0]);
        assert_eq!(close(-1), -1);
    }
    assert_eq!(&buffer[..4], b"near");
}

#[test]
fn system_calls_of_newer_libraries_work_without_them() {
    // SAFETY: pointers and lengths are those of the variables; the range closed holds only a copy made here.
    unsafe {
        let epoll = epoll_create1(libc::EPOLL_CLOEXEC);
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let at_once = timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(absent::epoll_pwait2(epoll, &raw mut event, 1, &raw const at_once, ptr::null()), 0);
        assert_eq!(absent::epoll_pwait2(-1, &raw mut event, 1, &raw const at_once, ptr::null()), -1);
        assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::EBADF));
        let copy = fcntl(epoll, libc::F_DUPFD_CLOEXEC, 900);
        assert!(copy >= 900);
        assert_eq!(absent::close_range(copy as c_uint, copy as c_uint, 0), 0);
        assert_eq!(fcntl(copy, libc::F_GETFD, 0), -1);
        close(epoll);
    }
}
