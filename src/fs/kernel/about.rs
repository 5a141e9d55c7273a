//! Which request a thread is serving, for lines of the log: an error of the tree says what was
//! wrong, and not always of what.
//!
//! Set by `dispatch` for as long as a request is served, asked by `serving` when it fails.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};

use crate::tree::InodeId;

thread_local! {
    static ABOUT: RefCell<Option<Asked>> = const { RefCell::new(None) };
}

/// An inode, or a name in it.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) inode: InodeId,
    pub(super) name: Option<OsString>,
}

/// Until it is dropped, this thread serves a request.
pub(super) struct AskedNow(());

impl AskedNow {
    pub(super) fn about(inode: InodeId, name: Option<&OsStr>) -> AskedNow {
        let name = name.map(OsStr::to_owned);
        ABOUT.set(Some(Asked { inode, name }));
        AskedNow(())
    }
}

impl Drop for AskedNow {
    fn drop(&mut self) {
        ABOUT.set(None);
    }
}

/// What this thread is asked.
pub(super) fn asked() -> Option<Asked> {
    ABOUT.with_borrow(Clone::clone)
}
