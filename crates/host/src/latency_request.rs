//! A request for a short wake-up, held by a program.
//!
//! Whoever holds `/dev/cpu_dma_latency` open keeps all CPUs out of idle states that take longer to
//! leave than it asked for. The smallest request counts, and one goes when its holder closes the
//! device or ends (`Documentation/power/pm_qos_interface.rst`, `kernel/power/qos.c`).

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A request in effect. It ends when this is dropped.
#[derive(Debug)]
pub struct LatencyRequest {
    device: File,
    path: PathBuf,
    asked_us: u32,
}

/// Why there is no request.
#[derive(Debug, Error)]
pub enum LatencyRequestError {
    /// Only root may ask.
    #[error("hold {}: only root may; run it with sudo, or as a service (contrib/systemd/nearwire-hold@.service)", path.display())]
    NotPermitted {
        /// The device.
        path: PathBuf,
    },
    /// The kernel has no such device here.
    #[error("hold {}: this host has no such device; in a container it is the host that must hold it", path.display())]
    Absent {
        /// The device.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("{action} {}: {source}", path.display())]
    Failed {
        /// `hold`, or `read the effect of`.
        action: &'static str,
        /// The device.
        path: PathBuf,
        /// Its word.
        source: io::Error,
    },
    /// The request was taken, and something longer is in effect.
    #[error(
        "{asked_us} us were asked for on {}, and {in_effect_us} us are in effect: this kernel does not follow requests",
        path.display()
    )]
    NoEffect {
        /// The device.
        path: PathBuf,
        /// What was asked for, microseconds.
        asked_us: u32,
        /// What is in effect, microseconds.
        in_effect_us: u32,
    },
}

impl LatencyRequest {
    /// Asks that no wake-up of any CPU takes longer than this many microseconds, and looks that it
    /// is in effect.
    ///
    /// # Errors
    /// See [`LatencyRequestError`]. Nothing is held then.
    pub fn hold(latency_us: u32) -> Result<Self, LatencyRequestError> {
        Self::hold_on(Path::new(DEVICE), latency_us)
    }

    fn hold_on(path: &Path, latency_us: u32) -> Result<Self, LatencyRequestError> {
        let failed = |source: io::Error| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::PermissionDenied => LatencyRequestError::NotPermitted { path },
                io::ErrorKind::NotFound => LatencyRequestError::Absent { path },
                _ => LatencyRequestError::Failed { action: "hold", path, source },
            }
        };
        let mut device = File::options().read(true).write(true).open(path).map_err(failed)?;
        // Four bytes are a number, any other length is text.
        device.write_all(&latency_us.to_ne_bytes()).map_err(failed)?;
        let request = Self { device, path: path.to_owned(), asked_us: latency_us };
        let in_effect_us = request.in_effect_us()?;
        if in_effect_us > latency_us {
            return Err(LatencyRequestError::NoEffect { path: request.path, asked_us: latency_us, in_effect_us });
        }
        Ok(request)
    }

    /// What was asked for, microseconds.
    #[must_use]
    pub fn asked_us(&self) -> u32 {
        self.asked_us
    }

    /// What is in effect, microseconds: the smallest request of all holders.
    ///
    /// # Errors
    /// [`LatencyRequestError::Failed`] where the device does not say.
    pub fn in_effect_us(&self) -> Result<u32, LatencyRequestError> {
        let mut bytes = [0; 4];
        match self.device.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(u32::from_ne_bytes(bytes)),
            Err(source) => {
                Err(LatencyRequestError::Failed { action: "read the effect of", path: self.path.clone(), source })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn device(in_effect: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), in_effect).unwrap();
        file
    }

    #[test]
    fn request_is_four_bytes_and_its_effect_is_read_back() {
        let file = device(&2_000_000_000_u32.to_ne_bytes());
        let request = LatencyRequest::hold_on(file.path(), 2).unwrap();
        assert_eq!((request.asked_us(), request.in_effect_us().unwrap()), (2, 2));
        assert_eq!(fs::read(file.path()).unwrap(), 2_u32.to_ne_bytes());
        // Another holder asks for less.
        fs::write(file.path(), 0_u32.to_ne_bytes()).unwrap();
        assert_eq!(request.in_effect_us().unwrap(), 0);
    }

    #[test]
    fn device_that_is_not_there_or_says_nothing_is_named() {
        let absent = LatencyRequest::hold_on(Path::new("/nonexistent/cpu_dma_latency"), 2).unwrap_err();
        assert!(matches!(absent, LatencyRequestError::Absent { .. }), "{absent}");
        let endless = LatencyRequest::hold_on(Path::new("/dev/zero"), 2).unwrap();
        assert_eq!(endless.in_effect_us().unwrap(), 0);
        let silent = LatencyRequest::hold_on(Path::new("/dev/null"), 2).unwrap_err().to_string();
        assert!(silent.starts_with("read the effect of /dev/null: "), "{silent}");
        let full = LatencyRequest::hold_on(Path::new("/dev/full"), 2).unwrap_err().to_string();
        assert!(full.starts_with("hold /dev/full: "), "{full}");
    }
}
