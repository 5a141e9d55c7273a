//! A file that is read as it is after every commit, until its reader is bound to one version of it.
//!
//! An array that a commit leaves alone lives on in the container as it is then, and goes on with
//! the file. One that the commit changes is another array from then on: whoever has the old one
//! still is to find the old file, or that it has changed, and never the new bytes by the old
//! places. So it is bound before the file is switched ([`super::switched`]); the new one is bound
//! to the file as it is going to be until then. Used by `container::hdf5`.

use std::sync::Arc;

use super::Source;
use super::current::Current;
use crate::sync::RwLock;

pub struct BoundSource {
    file: Arc<dyn Source>,
    to: RwLock<Option<Arc<dyn Source>>>,
}

impl BoundSource {
    /// Goes on with the file.
    pub fn new(file: Arc<dyn Source>) -> BoundSource {
        BoundSource {
            file,
            to: RwLock::default(),
        }
    }

    /// The file that it goes on with as long as it is not bound.
    pub fn file(&self) -> &Arc<dyn Source> {
        &self.file
    }

    /// Reads this, and nothing else; none: the file, whatever it is.
    pub fn bind(&self, to: Option<Arc<dyn Source>>) {
        *self.to.write() = to;
    }
}

impl Current for BoundSource {
    fn current(&self) -> Arc<dyn Source> {
        // Both under the lock: it is bound before the file is switched, and freed after that was
        // taken back.
        let to = self.to.read();
        let file = self.file.switched();
        let bound = to.as_ref().map(Arc::clone);
        bound.or(file).unwrap_or_else(|| Arc::clone(&self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::super::BytesSource;
    use super::super::switched::SwitchedSource;
    use super::*;

    fn bytes(of: &[u8]) -> Arc<dyn Source> {
        Arc::new(BytesSource::new(of.to_vec()))
    }

    fn read(source: &BoundSource) -> Vec<u8> {
        let mut out = vec![0; source.len() as usize];
        source.fetch_one(0, &mut out).unwrap();
        out
    }

    #[test]
    fn what_is_bound_stays_when_the_file_is_switched_and_goes_on_when_it_is_free() {
        let file = Arc::new(SwitchedSource::new(bytes(b"old")));
        let sources = [0, 1].map(|_| BoundSource::new(Arc::clone(&file) as _));
        let [stays, goes_on] = &sources;
        stays.bind(Some(file.now()));
        file.switch(bytes(b"newer"));
        assert_eq!(
            (read(stays), read(goes_on)),
            (b"old".into(), b"newer".into())
        );
        stays.bind(None);
        assert_eq!(read(stays), b"newer");
    }

    #[test]
    fn a_file_that_is_never_switched_is_read_as_it_is() {
        assert_eq!(read(&BoundSource::new(bytes(b"one"))), b"one");
    }
}
