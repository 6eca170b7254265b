//! What packs an archive.

use std::io::{self, BufRead, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::BlockDecodingStrategy;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use crate::root::error::ArchiveError;

/// More memory is not given to the unpacker of zstd: what RFC 8878 (3.1.1.1.2) recommends that
/// every decoder supports.
const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// The same for xz: the dictionary of `xz -9`, and as much again for the rest. `sos` packs with `xz -6`, which takes 8 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 128 << 10;

/// Unpacks by what the first bytes say.
pub(super) fn unpack<'r>(mut source: impl BufRead + 'r) -> Result<Box<dyn Read + 'r>, ArchiveError> {
    let start = source.fill_buf().map_err(|source| ArchiveError::Read { source })?;
    Ok(match start {
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Box::new(Zstd::new(source)),
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(source)),
        [b'B', b'Z', b'h', ..] => Box::new(MultiBzDecoder::new(source)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(XzReader::new_mem_limit(source, true, XZ_MEMORY_KIB_MAX)),
        _ => Box::new(source),
    })
}

/// The frames of a zstd file one behind the other, those to be skipped left out.
pub(super) struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self { source, decoder, is_in_frame: false }
    }

    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                    let what = format!("to unpack it {requested} bytes of memory are needed, more than {max}");
                    return Err(io::Error::other(format!("{what}; pack it again with zstd -3")));
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    fn check(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(wanted), Some(found)) if wanted != found => Err(io::Error::other("the check sum is wrong")),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_in_frame {
                self.is_in_frame = self.begin()?;
                if !self.is_in_frame {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, strategy).map_err(io::Error::other)?;
            }
            let length = self.decoder.read(buffer)?;
            if length > 0 {
                return Ok(length);
            }
            self.check()?;
            self.is_in_frame = false;
        }
    }
}
