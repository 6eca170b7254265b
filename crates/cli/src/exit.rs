//! Exit codes, which scripts may rely on.

/// A comparison or check found a difference.
pub const DIFFERENCE: u8 = 1;
/// Wrong usage or unusable input.
pub const USAGE: u8 = 2;
/// This host cannot do what was asked.
pub const CANNOT: u8 = 3;
/// The command failed while it ran.
pub const FAILED: u8 = 4;
/// The program to run exists and cannot be executed. The code is that of env(1).
pub const NOT_EXECUTABLE: u8 = 126;
/// The program to run was not found. The code is that of env(1).
pub const NOT_FOUND: u8 = 127;
/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// How a command failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to print on standard error; `None` when it was printed already.
    pub error: Option<anyhow::Error>,
}

/// What commands return.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// An exit code whose reason was printed already.
    pub fn silent(code: u8) -> Failure {
        Failure { code, error: None }
    }
}

/// Gives an error its exit code.
pub trait OrExit<T> {
    /// On failure, the error with this exit code.
    fn or_exit(self, code: u8) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, code: u8) -> Result<T, Failure> {
        self.map_err(|error| Failure { code, error: Some(error.into()) })
    }
}
