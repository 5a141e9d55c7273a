//! What tests ask of a tree, by paths.

use super::*;

impl Tree {
    pub(crate) fn inode(&self, path: &str) -> Result<InodeId> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(ROOT, |at, name| {
            self.names
                .lookup(at, OsStr::new(name))
                .map(|attr| attr.inode)
        })
    }

    pub(crate) fn parent<'a>(&self, path: &'a str) -> Result<(InodeId, &'a OsStr)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.inode(above)?, OsStr::new(name)))
    }

    pub(crate) fn written(&self, path: &str, truncate: bool) -> Result<(InodeId, HandleId)> {
        let inode = self.inode(path)?;
        let open = self.contents.open_for_writing(inode)?;
        if truncate {
            self.contents.set_len(inode, Some(open.handle), 0, NOBODY)?;
        }
        Ok((inode, open.handle))
    }

    pub(crate) fn names(&self, directory: InodeId) -> Vec<String> {
        let step = self.listing.list(directory, Cookie::START).unwrap();
        let names = step.names().into_iter();
        let mut names: Vec<_> = names
            .map(|(_, name)| name.to_str().unwrap().into())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn content(&self, inode: InodeId) -> String {
        let Ok(open) = self.reading.open(inode) else {
            return "unreadable".into();
        };
        let read = |bytes: Result<&[u8]>| {
            let bytes = bytes.unwrap();
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]);
            format!("{} {start:?} {:08x}", bytes.len(), crc32fast::hash(bytes))
        };
        let content = self
            .reading
            .read(open.handle, 0, 1 << 16, PageCache::Used, read);
        self.closing.release(open.handle);
        content
    }

    /// Everything that is shown below a directory.
    pub(crate) fn shown(&self, directory: InodeId, above: &str) -> String {
        let mut shown = String::new();
        for name in self.names(directory) {
            let attr = self.names.lookup(directory, OsStr::new(&name)).unwrap();
            let path = format!("{above}/{name}");
            let (kind, mode, links) = (attr.kind, attr.mode, attr.nlink);
            write!(shown, "{path} {kind:?} {mode:o} {links}").unwrap();
            match attr.kind {
                FileKind::Directory => {
                    shown = shown + "\n" + &self.shown(attr.inode, &path);
                }
                FileKind::File => writeln!(shown, " {}", self.content(attr.inode)).unwrap(),
                _ => shown.push('\n'),
            }
        }
        shown
    }

    pub(crate) fn remove_all(&self, path: &str) -> Result<()> {
        let inode = self.inode(path)?;
        for name in self.names(inode) {
            let below = format!("{path}/{name}");
            match self.names.lookup(inode, OsStr::new(&name))?.kind {
                FileKind::Directory => self.remove_all(&below)?,
                _ => self.removing.unlink(inode, OsStr::new(&name))?,
            }
        }
        let (parent, name) = self.parent(path)?;
        self.removing.remove_directory(parent, name)
    }

    pub(crate) fn renames(&self, from: &str, to: &str, how: Renaming) -> Result<()> {
        self.renames
            .rename(self.parent(from)?, self.parent(to)?, how)
    }

    pub(crate) fn makes(&self, path: &str, what: NewEntry<'_>) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        self.making.make(parent, name, what, NOBODY).map(drop)
    }
}
