//! What an interrupted conversion has left of files: those that were being written go, and
//! exchanges that have begun are finished, in the direction in which they were made.
//!
//! A temporary name that is the only one of its file was not finished. If it is not, the file has
//! new names, and the old ones are those of the inode that the temporary name says, unless they
//! have been changed since: then both stay, and are told as a collision. Used by
//! [`super::Conversion`] before anything else is changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::exchange::ChangedName;
use super::walk::{self, Becomes, WalkedDirectory};
use super::{Conversion, ConvertDirection};
use crate::disk::{Place, Target};
use crate::error::Result;
use crate::source::{FileId, FileKind, Stat};

/// A new file that has a second name.
struct BegunExchange {
    direction: ConvertDirection,
    stat: Stat,
    directory: PathBuf,
    id: FileId,
    /// Names of the file that it stands for, and what is at their new names.
    old: Vec<(ChangedName, Stat, Option<Stat>)>,
}

impl Conversion<'_> {
    pub(super) fn finish_leftovers(&self, temporaries: &[PathBuf]) -> Result<()> {
        let mut begun: HashMap<(u64, PathBuf), BegunExchange> = HashMap::new();
        for path in temporaries {
            let stat = self.store.stat(path)?;
            let name = path.file_name().unwrap_or_default();
            let directory = path.parent().unwrap_or(Path::new(""));
            let id = self.store.stat(directory)?.id;
            let Some((direction, inode)) = walk::temporary_of(name) else {
                continue;
            };
            if stat.nlink < 2 {
                self.disk.unlink(Place {
                    directory,
                    id,
                    name,
                })?;
                self.restore_times(directory, id);
                continue;
            }
            let (directory, old) = (directory.to_owned(), Vec::new());
            begun.insert(
                (inode, path.clone()),
                BegunExchange {
                    direction,
                    stat,
                    directory,
                    id,
                    old,
                },
            );
        }
        if begun.is_empty() {
            return Ok(());
        }
        self.find_old(&mut begun)?;
        begun
            .iter()
            .try_for_each(|((_, path), begun)| self.finish(path, begun))
    }

    /// The old names, wherever they are.
    fn find_old(&self, begun: &mut HashMap<(u64, PathBuf), BegunExchange>) -> Result<()> {
        let mut directories = vec![PathBuf::new()];
        while let Some(path) = directories.pop() {
            let Ok(directory) = walk::walked(self.store, &path, &mut |_, _| {}) else {
                continue;
            };
            let below = walk::below(&directory, &mut |_| {});
            directories.extend(below.into_iter().map(|(_, path)| path));
            for ((inode, _), begun) in begun.iter_mut() {
                self.find_old_in(&directory, *inode, begun);
            }
        }
        Ok(())
    }

    fn find_old_in(&self, directory: &WalkedDirectory, inode: u64, begun: &mut BegunExchange) {
        let device = begun.stat.id.device;
        let is_it = |stat: &Stat| {
            let id = stat.id;
            (id.inode, id.device, stat.kind) == (inode, device, FileKind::File)
        };
        for (name, stat) in directory.entries.iter().filter(|(_, stat)| is_it(stat)) {
            let becomes = directory.becomes(name, begun.direction, self.log);
            if let Becomes::Converted(new) = becomes {
                let there = directory.entries.get(&new).cloned();
                let name = ChangedName {
                    directory: directory.path.clone(),
                    id: directory.stat.id,
                    old: name.clone(),
                    new,
                };
                begun.old.push((name, stat.clone(), there));
            }
        }
    }

    fn finish(&self, path: &Path, begun: &BegunExchange) -> Result<()> {
        let made = &begun.stat;
        let target = Target::Named { path, id: made.id };
        // Another user could have made one with such a name.
        let rights = |stat: &Stat| (stat.uid, stat.gid, stat.mode);
        let is_same = |old: &Stat| old.mtime == made.mtime && rights(old) == rights(&begun.stat);
        for (name, old, there) in &begun.old {
            match there {
                Some(there) if there.id == made.id && is_same(old) => {}
                None if is_same(old) => self.disk.link(target, name.place(&name.new))?,
                _ => continue,
            }
            let directory = Target::Named {
                path: &name.directory,
                id: name.id,
            };
            self.disk.sync(directory, false)?;
            self.disk.unlink(name.place(&name.old))?;
            self.restore_times(&name.directory, name.id);
        }
        self.disk.unlink(Place {
            directory: &begun.directory,
            id: begun.id,
            name: path.file_name().unwrap_or_default(),
        })?;
        self.restore_times(&begun.directory, begun.id);
        Ok(())
    }
}
