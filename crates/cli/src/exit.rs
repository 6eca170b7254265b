//! Exit codes, which scripts may rely on.

/// A comparison or check found a difference.
pub const DIFFERENCE: u8 = 1;
/// Wrong usage or unusable input.
pub const USAGE: u8 = 2;
/// This host cannot do it.
pub const CANNOT: u8 = 3;
/// It failed while running.
pub const FAILED: u8 = 4;
/// A program to run is there and cannot be executed, as env(1) has it.
pub const NOT_EXECUTABLE: u8 = 126;
/// A program to run was not found, as env(1) has it.
pub const NOT_FOUND: u8 = 127;
/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// How a command ended other than well.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to say on standard error; none when it has been said.
    pub error: Option<anyhow::Error>,
}

/// What commands return.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// A code whose reason is already on the screen.
    pub fn silent(code: u8) -> Failure {
        Failure { code, error: None }
    }
}

/// Gives an error its exit code.
pub trait OrExit<T> {
    /// With this code on failure.
    fn or_exit(self, code: u8) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, code: u8) -> Result<T, Failure> {
        self.map_err(|error| Failure { code, error: Some(error.into()) })
    }
}
