//! The file that a program writes its trace into: `struct trace` of `script.c`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `STREAMS` of `script.c`.
const STREAMS: u64 = 64;
/// `STREAM_BYTES` of `script.c`.
const STREAM_BYTES: u64 = 32_768;
/// Before the text of a stream: its length in the first four bytes, its name in the rest.
const HEADER_BYTES: usize = 32;
/// What stands behind the streams fits in here.
const TAIL_BYTES: u64 = 8192;

/// An empty trace, to be mapped by the program.
pub fn make_file(path: &Path) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(STREAMS * STREAM_BYTES + TAIL_BYTES).unwrap();
    file
}

/// All streams, each under its name, whether the program ended well or not.
pub fn text(file: &File) -> String {
    let mut all = String::new();
    for start in (0..STREAMS).map(|number| number * STREAM_BYTES) {
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, start).unwrap();
        let (length, name) = header.split_at(4);
        let name: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
        if name.is_empty() {
            break;
        }
        let length = u32::from_ne_bytes(length.try_into().unwrap()) as usize;
        let capacity = usize::try_from(STREAM_BYTES).unwrap() - HEADER_BYTES;
        let mut bytes = vec![0; length.min(capacity)];
        file.read_exact_at(&mut bytes, start + HEADER_BYTES as u64).unwrap();
        let cut = if length > capacity { "(more than a stream holds)\n" } else { "" };
        write!(all, "[{}]\n{}{cut}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&bytes)).unwrap();
    }
    all
}

/// Keeps a trace where `NEARWIRE_TRACES` says.
pub fn keep(script: &str, run: &str, trace: &str) {
    if let Some(directory) = std::env::var_os("NEARWIRE_TRACES") {
        fs::create_dir_all(&directory).unwrap();
        fs::write(Path::new(&directory).join(format!("{script}.{run}")), trace).unwrap();
    }
}
