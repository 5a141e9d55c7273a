//! A container that lives on through a commit: what the commit leaves is the same in the container
//! before and after, and only what it changes is made anew.
//!
//! Otherwise a commit would cost what the container holds. The arrays that stay are read through
//! one file ([`crate::source::switched`]), which is switched when the commit becomes visible; those
//! that change are others from then on ([`crate::source::bound`]). A format offers this where a
//! commit changes values and nothing that is said of the arrays beside. Used by `hdf5`, and by
//! `live`, which opens a container before a commit becomes visible.

use std::sync::Arc;

use super::Container;
use super::rewrite::Rewrite;
use crate::array::Array;
use crate::source::Source;
use crate::source::bound::BoundSource;
use crate::source::switched::SwitchedSource;
use crate::sync::Mutex;

/// An array that is another than before, and its number in the container.
pub type OtherArray = (usize, Arc<dyn Array>);

/// A container after a commit.
pub struct Successor {
    pub container: Container,
    pub changed: Vec<OtherArray>,
    pub handover: Handover,
}

/// How the file passes from one to the other.
pub struct Handover {
    file: Arc<SwitchedSource>,
    /// Of arrays that change: as they were, and as they are going to be.
    before: Vec<Arc<BoundSource>>,
    after: Vec<Arc<BoundSource>>,
    /// The file before, once it has been switched.
    was: Mutex<Option<Arc<dyn Source>>>,
}

impl Handover {
    pub fn of(file: &Arc<SwitchedSource>) -> Handover {
        Handover {
            file: Arc::clone(file),
            before: Vec::new(),
            after: Vec::new(),
            was: Mutex::default(),
        }
    }

    pub fn add(&mut self, before: &Arc<BoundSource>, after: &Arc<BoundSource>) {
        self.before.push(Arc::clone(before));
        self.after.push(Arc::clone(after));
    }

    /// The file has become what it was going to be: the arrays that stay go on with it, and so do
    /// the new ones. In this order no array reads it by places that are not its own.
    pub fn hand_over(&self, file: Arc<dyn Source>) {
        let was = self.file.now();
        for array in &self.before {
            array.bind(Some(Arc::clone(&was)));
        }
        self.file.switch(file);
        for array in &self.after {
            array.bind(None);
        }
        *self.was.lock() = Some(was);
    }

    /// The container after the commit is not shown, after all.
    pub fn take_back(&self) {
        let mut was = self.was.lock();
        if let Some(was) = was.take() {
            for array in &self.after {
                array.bind(Some(self.file.now()));
            }
            self.file.switch(was);
            for array in &self.before {
                array.bind(None);
            }
        }
    }
}

impl Container {
    /// This container with other arrays in the places of some.
    pub(crate) fn succeeded(&self, changed: &[OtherArray], rewrite: Arc<dyn Rewrite>) -> Container {
        let mut arrays = self.arrays.clone();
        for (number, array) in changed {
            if let Some(place) = arrays.get_mut(*number) {
                *place = Arc::clone(array);
            }
        }
        Container {
            format: self.format,
            version: self.version.clone(),
            arrays,
            texts: self.texts.clone(),
            lines: self.lines.clone(),
            groups: Arc::clone(&self.groups),
            links: Arc::clone(&self.links),
            further_names: Arc::clone(&self.further_names),
            unreadable: Arc::clone(&self.unreadable),
            types: self.types.clone(),
            inner: self.inner.clone(),
            attributes: self.attributes.clone(),
            described: Arc::clone(&self.described),
            details: Arc::clone(&self.details),
            file: Arc::clone(&self.file),
            without_space: Arc::clone(&self.without_space),
            faults: self.faults.clone(),
            checks: self.checks.clone(),
            rewrite: Some(rewrite),
            only_read: self.only_read.clone(),
            is_far: self.is_far,
        }
    }
}
