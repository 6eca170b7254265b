//! The exported C symbols of a program that runs past the kernel, and nothing else.
//!
//! * [`wiring`]: what the engines' state calls in files above it; [`own_process`]: whose that state is;
//! * [`gate`]: one thread at a time is in an engine's state; [`state`]: the engines; [`marks`]: which of them serves an fd;
//! * [`start`]: what the first socket begins; [`engines`]: how threads come to engines of their own;
//! * [`real`]: the functions that the program would call without us;
//! * [`c_types`]: C structures <-> Rust types;
//! * [`thread`]: what is kept of each thread; [`signals`], [`cancellation`]: handlers and cancellation wait for the end of
//!   a call;
//! * [`first_thread`]: what is done before a program has threads;
//! * [`errno`]: the errno of the calling thread;
//! * [`probe`]: memory that cannot be read;
//! * [`io_uring`]: programs whose requests are not seen;
//! * [`internal_fd`]: our own descriptors, out of the program's way;
//! * [`timer`]: a thread that does what is due when the program does not call;
//! * [`exports`]: the symbols. They exist outside unit tests only, where they would replace those of the test's own
//!   process.

pub mod c_types;
pub mod calls;
pub mod cancel_state;
pub mod cancellation;
pub mod engines;
pub mod errno;
#[cfg(not(test))]
pub mod exports;
pub mod first_thread;
pub mod gate;
pub mod internal_fd;
pub mod io_uring;
pub mod marks;
pub mod own_process;
pub mod probe;
pub mod real;
pub mod signals;
pub mod start;
pub mod state;
pub mod thread;
pub mod timer;
pub mod turn;
pub mod wiring;
