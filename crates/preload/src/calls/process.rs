//! fork(2) and exec(3).
