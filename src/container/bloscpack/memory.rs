//! Memory of a size that a file decides: when the system refuses it, the read fails and not the daemon.
//!
//! Used wherever stored bytes are held; sizes are checked against the file before.

use rustix::io::Errno;

use crate::error::{Error, Result};

/// `len` zeros.
pub(super) fn zeros(len: usize) -> Result<Vec<u8>> {
    let mut buf = Vec::new();
    room(&mut buf, len)?;
    Ok(buf)
}

/// The first `len` bytes of a buffer that only grows.
pub(super) fn room(buf: &mut Vec<u8>, len: usize) -> Result<&mut [u8]> {
    if buf.len() < len {
        let more = buf.try_reserve_exact(len - buf.len());
        more.map_err(|_| refused(len))?;
        buf.resize(len, 0);
    }
    Ok(&mut buf[..len])
}

pub(super) fn refused(bytes: usize) -> Error {
    let doing = format!("cannot hold {bytes} bytes");
    Error::io(doing, Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_and_keeps_what_it_has() {
        let mut buf = vec![7; 3];
        assert_eq!(room(&mut buf, 5).unwrap(), [7, 7, 7, 0, 0]);
        assert_eq!(room(&mut buf, 2).unwrap(), [7, 7]);
        assert_eq!(buf.len(), 5);
    }

    #[test]
    fn memory_that_is_refused_is_an_error() {
        let mut buf = vec![7; 3];
        let refused = room(&mut buf, isize::MAX as usize);
        assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
        assert_eq!(buf, [7; 3]);
        assert!(zeros(isize::MAX as usize).is_err());
    }
}
