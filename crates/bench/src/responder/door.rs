//! The door of a responder that listens: one initiator at a time, the others are told that it is busy.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::control::{Answer, Ask, Control, Stream};

/// How long a caller who is to be told "busy" may take to say what it wants.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// An initiator that has ended is gone within this: the next command of a script may call before.
const LEAVES_WITHIN: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Accepts on a thread of its own, which sleeps in accept(2) while an experiment runs.
#[derive(Debug)]
pub struct Door {
    callers: Receiver<(TcpStream, SocketAddr)>,
    busy: Arc<AtomicBool>,
}

impl Door {
    /// Opens the door. The thread behind it lives as long as the process.
    #[must_use]
    pub fn open(listener: TcpListener) -> Door {
        let (sender, callers) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let taken = busy.clone();
        std::thread::spawn(move || accept(&listener, &taken, &sender));
        Door { callers, busy }
    }

    /// The next initiator, if one comes within `wait`. Until [`Door::reopen`] all others are turned away.
    #[must_use]
    pub fn next(&self, wait: Duration) -> Option<(TcpStream, SocketAddr)> {
        self.callers.recv_timeout(wait).ok()
    }

    /// The initiator has left.
    pub fn reopen(&self) {
        self.busy.store(false, Ordering::Release);
    }
}

fn accept(listener: &TcpListener, busy: &AtomicBool, callers: &SyncSender<(TcpStream, SocketAddr)>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) if !is_free_soon(busy) => turn_away(stream),
            Ok(caller) => {
                if callers.send(caller).is_err() {
                    return;
                }
            }
            // A caller that left again, or no descriptor left for a while.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Takes the place of an initiator, which may be about to leave.
fn is_free_soon(busy: &AtomicBool) -> bool {
    let give_up = Instant::now() + LEAVES_WITHIN;
    while busy.swap(true, Ordering::AcqRel) {
        if Instant::now() > give_up {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}

/// Hears the caller out, because what is not read when a connection is closed takes the answer with it.
fn turn_away(stream: TcpStream) {
    let why = "busy: another experiment is running; try again when it has ended".to_owned();
    let mut control = Control::new(Stream::Tcp(stream));
    let _ = control.hear::<Ask>(Some(HELLO_TIMEOUT));
    let _ = control.tell(&Answer::Failed { why });
}

/// 128 random bits in hexadecimal.
///
/// # Errors
/// getrandom(2) failed.
pub fn draw_token() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
