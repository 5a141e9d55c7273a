//! The checksums of Bloscpack, by their codes, computed piece by piece.
//!
//! Used for chunks and metadata alike. A [`Digest`] has the form in which it is stored: Adler-32
//! and CRC-32 little-endian, the others in their usual byte order.
//!
//! Source: Bloscpack format, docs/formats.md.

use sha2::Digest as _;

/// Longest digest: SHA-512.
const MAX_LEN: usize = 64;

/// A checksum that Bloscpack knows; the order is that of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    None,
    Adler32,
    Crc32,
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Checksum {
    const ALL: [Self; 9] = [
        Self::None,
        Self::Adler32,
        Self::Crc32,
        Self::Md5,
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha384,
        Self::Sha512,
    ];

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one that [`Checksum::name`] calls so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|checksum| checksum.name() == name)
    }

    /// The name that `blpk` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Adler32 => "adler32",
            Self::Crc32 => "crc32",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// Stored bytes of a digest.
    pub fn digest_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Adler32 | Self::Crc32 => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    pub fn hasher(self) -> Hasher {
        Hasher(match self {
            Self::None => State::None,
            Self::Adler32 => State::Adler32(simd_adler32::Adler32::new()),
            Self::Crc32 => State::Crc32(crc32fast::Hasher::new()),
            Self::Md5 => State::Md5(md5::Md5::new()),
            Self::Sha1 => State::Sha1(sha1::Sha1::new()),
            Self::Sha224 => State::Sha224(sha2::Sha224::new()),
            Self::Sha256 => State::Sha256(sha2::Sha256::new()),
            Self::Sha384 => State::Sha384(sha2::Sha384::new()),
            Self::Sha512 => State::Sha512(sha2::Sha512::new()),
        })
    }

    /// The digest of bytes that are all at hand.
    pub fn digest(self, bytes: &[u8]) -> Digest {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish()
    }
}

/// A checksum under way.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    None,
    Adler32(simd_adler32::Adler32),
    Crc32(crc32fast::Hasher),
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha224(sha2::Sha224),
    Sha256(sha2::Sha256),
    Sha384(sha2::Sha384),
    Sha512(sha2::Sha512),
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::None => (),
            State::Adler32(state) => state.write(bytes),
            State::Crc32(state) => state.update(bytes),
            State::Md5(state) => state.update(bytes),
            State::Sha1(state) => state.update(bytes),
            State::Sha224(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
            State::Sha384(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    pub fn finish(self) -> Digest {
        match self.0 {
            State::None => Digest::new(&[]),
            State::Adler32(state) => Digest::new(&state.finish().to_le_bytes()),
            State::Crc32(state) => Digest::new(&state.finalize().to_le_bytes()),
            State::Md5(state) => Digest::new(&state.finalize()),
            State::Sha1(state) => Digest::new(&state.finalize()),
            State::Sha224(state) => Digest::new(&state.finalize()),
            State::Sha256(state) => Digest::new(&state.finalize()),
            State::Sha384(state) => Digest::new(&state.finalize()),
            State::Sha512(state) => Digest::new(&state.finalize()),
        }
    }
}

/// A finished checksum in its stored form.
#[derive(Clone, Copy)]
pub struct Digest {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Digest {
    fn new(digest: &[u8]) -> Self {
        let mut bytes = [0; MAX_LEN];
        bytes[..digest.len()].copy_from_slice(digest);
        Self {
            bytes,
            len: digest.len(),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Digest {}

/// In hexadecimal, as messages show it.
impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of "abc": Adler-32 0x024d0127 and CRC-32 0x352441c2, the others from RFC 1321 and FIPS 180.
    const ABC: [(Checksum, &str); 9] = [
        (Checksum::None, ""),
        (Checksum::Adler32, "27014d02"),
        (Checksum::Crc32, "c2412435"),
        (Checksum::Md5, "900150983cd24fb0d6963f7d28e17f72"),
        (Checksum::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (
            Checksum::Sha224,
            "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
        ),
        (
            Checksum::Sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            Checksum::Sha384,
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
             8086072ba1e7cc2358baeca134c825a7",
        ),
        (
            Checksum::Sha512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ];

    #[test]
    fn known_digests() {
        for (code, (checksum, hex)) in (0..).zip(ABC) {
            assert_eq!(Checksum::from_code(code), Some(checksum));
            assert_eq!(checksum.code(), code);
            let digest = checksum.digest(b"abc");
            assert_eq!(digest.to_string(), hex, "{}", checksum.name());
            assert_eq!(digest.as_bytes().len(), checksum.digest_len());
        }
        assert_eq!(Checksum::from_code(9), None);
    }

    #[test]
    fn nothing_hashed() {
        assert_eq!(Checksum::Adler32.digest(b"").as_bytes(), [1, 0, 0, 0]);
        assert_eq!(Checksum::Crc32.digest(b"").as_bytes(), [0; 4]);
    }

    #[test]
    fn in_pieces_as_in_one() {
        let bytes: Vec<u8> = (0..10_000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for checksum in Checksum::ALL {
            let mut hasher = checksum.hasher();
            bytes.chunks(777).for_each(|piece| hasher.update(piece));
            assert_eq!(
                hasher.finish(),
                checksum.digest(&bytes),
                "{}",
                checksum.name()
            );
        }
    }
}
