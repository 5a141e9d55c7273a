//! A file that a command makes of another one: it has its name when it is whole, or never.
//!
//! It is written under another name beside its place, gets rights, owner and times of the file that
//! it is made of, is synced, and takes its name. Whatever fails, the user's ^C included, leaves no
//! part of it; of a process that is killed the temporary file stays (`.NAME.PID.tmp`). Assumes that
//! who calls has the right to write there. Used by the commands that pack and unpack, and, for a
//! file that is like no other one, by those that draw.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{getegid, geteuid};

use super::failure::Failure;
use super::given_path::real;
use super::stopping::when_stopped;
use crate::container::writable::{MemberNumber, Recipe};
use crate::disk::local::open_local;
use crate::disk::{
    Caller, Disk, DiskFile, NewAttributes, NewTime, Place, Renaming, Target, XattrSetting,
};
use crate::error::{Error, plain};
use crate::source::{FileId, Source, Stat, Store};

/// The disk begins to write so much as soon as it is there, so that little is left to wait for.
const WRITEBACK: u64 = 8 << 20;

/// The rights of users and groups that are named, beside those of the mode.
const LISTED_RIGHTS: &str = "system.posix_acl_access";

/// Where an output is going to be.
pub(super) struct OutputPlace {
    directory: PathBuf,
    name: OsString,
    /// As messages call it.
    shown: PathBuf,
    /// There is a file of that name, which is to be replaced.
    replaces: bool,
}

impl OutputPlace {
    /// `force`: a file of that name may be replaced, unless it is one of the `inputs`.
    pub(super) fn find(shown: PathBuf, force: bool, inputs: &[&Path]) -> Result<Self, Failure> {
        let failed = |e: io::Error| Failure::new(format!("{}: {}", shown.display(), plain(&e)));
        let refuse = |why: &str| Err(Failure::new(format!("{} {why}", shown.display())));
        let found = match std::fs::metadata(&shown) {
            Ok(found) => Some(found),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(failed(e)),
        };
        let is_input = |input: &&Path| {
            let (input, found) = (std::fs::metadata(input).ok(), found.as_ref());
            let id = |file: &std::fs::Metadata| (file.dev(), file.ino());
            found.is_some() && input.as_ref().map(id) == found.map(id)
        };
        let stored = match &found {
            Some(found) if found.is_dir() => return refuse("is a directory; name a file"),
            Some(found) if !found.is_file() => return refuse("is no regular file"),
            Some(_) if inputs.iter().any(is_input) => return refuse("is the input"),
            Some(_) if !force => return refuse("is there already; --force replaces it"),
            Some(_) => real(&shown).map_err(failed)?,
            None if shown.is_symlink() => return refuse("is a link that leads nowhere"),
            None => shown.clone(),
        };
        let Some(name) = stored.file_name() else {
            return refuse("is no name of a file");
        };
        let above = stored
            .parent()
            .filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        Ok(OutputPlace {
            name: name.to_owned(),
            directory: real(above).map_err(failed)?,
            replaces: found.is_some(),
            shown,
        })
    }

    /// An empty file beside the place.
    pub(super) fn begin(self) -> Result<NewOutput, Failure> {
        let stopped = when_stopped().map_err(Failure::new)?;
        let failed =
            |e: io::Error| Failure::new(format!("{}: {}", self.shown.display(), plain(&e)));
        let above = self.shown.parent().unwrap_or(Path::new(""));
        let (store, disk) = open_local(&self.directory, above).map_err(failed)?;
        let id = store.stat(Path::new(""))?.id;
        let temporary = temporary_name(&self.name);
        let caller = Caller::of(geteuid().as_raw(), getegid().as_raw());
        let file = disk.create(place(id, &temporary), 0o600, caller);
        let file = file.map_err(|e| named(&self.shown, e))?;
        Ok(NewOutput {
            place: self,
            store,
            disk,
            id,
            temporary,
            file,
            caller,
            waiting: 0..0,
            stopped,
            is_whole: false,
        })
    }
}

fn place(id: FileId, name: &OsStr) -> Place<'_> {
    Place {
        directory: Path::new(""),
        id,
        name,
    }
}

/// Users know a file by the name that it is going to have.
fn named(shown: &Path, e: Error) -> Error {
    match e {
        Error::Io { cause, .. } => Error::Io {
            doing: format!("cannot write {}", shown.display()),
            cause,
        },
        other => other,
    }
}

/// A name that has room for what is added to it.
fn temporary_name(name: &OsStr) -> OsString {
    const LONGEST: usize = 200;
    let mut temporary = OsString::from(".");
    match name.len() <= LONGEST {
        true => temporary.push(name),
        false => temporary.push("arrayfs"),
    }
    temporary.push(format!(".{}.tmp", std::process::id()));
    temporary
}

/// A file that is being written.
pub(super) struct NewOutput {
    place: OutputPlace,
    store: Arc<dyn Store>,
    disk: Arc<dyn Disk>,
    /// Of the directory.
    id: FileId,
    temporary: OsString,
    file: Arc<dyn DiskFile>,
    caller: Caller,
    /// The bytes that the disk has not begun to write.
    waiting: Range<u64>,
    /// A signal has asked for an end, which comes with the next bytes.
    stopped: Arc<AtomicBool>,
    /// It has its name.
    is_whole: bool,
}

impl NewOutput {
    /// Writes bytes to a place of the file.
    pub(super) fn put_all(&mut self, at: u64, bytes: &[u8]) -> crate::error::Result<()> {
        if self.stopped.load(Ordering::Relaxed) {
            let cause = io::Error::from_raw_os_error(libc::EINTR);
            let doing = format!("cannot finish {}", self.place.shown.display());
            return Err(Error::io(doing, cause));
        }
        let put = self.file.put_all(at, bytes, self.caller);
        put.map_err(|e| self.named(e))?;
        self.written(at..at.saturating_add(bytes.len() as u64));
        Ok(())
    }

    fn written(&mut self, range: Range<u64>) {
        self.waiting = match self.waiting.end == range.start {
            true => self.waiting.start..range.end,
            false => range,
        };
        if self.waiting.end - self.waiting.start >= WRITEBACK {
            self.file.begin_writeback(self.waiting.clone());
            self.waiting.start = self.waiting.end;
        }
    }

    fn named(&self, e: Error) -> Error {
        named(&self.place.shown, e)
    }

    /// The file gets what `like` has, and its name, when it is on the disk.
    pub(super) fn finish(self, like: &dyn Source) -> crate::error::Result<()> {
        self.become_like(like).map_err(|e| self.named(e))?;
        self.publish()
    }

    /// It gets its name with the rights of the file that it replaces, or those of any new file.
    pub(super) fn finish_new(self) -> crate::error::Result<()> {
        let before = self
            .place
            .replaces
            .then(|| self.store.stat(Path::new(&self.place.name)));
        let mode = before
            .and_then(Result::ok)
            .map(|stat| u32::from(stat.mode) & 0o777);
        let mode = mode.unwrap_or_else(|| {
            // It can only be read by setting another one.
            let umask = rustix::process::umask(rustix::fs::Mode::empty());
            rustix::process::umask(umask);
            0o666 & !umask.bits()
        });
        let attributes = NewAttributes {
            mode: Some(mode),
            ..NewAttributes::default()
        };
        let target = Target::Open(self.file.source());
        let set = self.disk.set_attributes(target, &attributes);
        set.map_err(|e| self.named(e))?;
        self.publish()
    }

    fn publish(mut self) -> crate::error::Result<()> {
        let file = Target::Open(self.file.source());
        self.disk.sync(file, false).map_err(|e| self.named(e))?;
        self.take_name().map_err(|e| self.named(e))?;
        self.is_whole = true;
        let path = Path::new("");
        let directory = Target::Named { path, id: self.id };
        match self.disk.sync(directory, false) {
            // Not every file system has directories that can be synced.
            Err(e) if is_no_such_call(&e) => Ok(()),
            synced => synced,
        }
    }

    fn take_name(&self) -> crate::error::Result<()> {
        let (from, to) = (
            place(self.id, &self.temporary),
            place(self.id, &self.place.name),
        );
        if self.place.replaces {
            return self.disk.rename(from, to, Renaming::Over);
        }
        match self.disk.rename(from, to, Renaming::NoReplace) {
            // Not every file system knows how.
            Err(e) if is_no_such_call(&e) => {
                self.disk.link(Target::Open(self.file.source()), to)?;
                self.disk.unlink(from)
            }
            renamed => renamed,
        }
    }

    /// Rights that cannot be given as they are become fewer, never more.
    fn become_like(&self, like: &dyn Source) -> crate::error::Result<()> {
        let (like_stat, own) = (like.stat_opened()?, self.file.source().stat()?);
        let target = Target::Open(self.file.source());
        let set = |to: NewAttributes| self.disk.set_attributes(target, &to).is_ok();
        if own.uid != like_stat.uid {
            set(NewAttributes {
                uid: Some(like_stat.uid),
                ..NewAttributes::default()
            });
        }
        let has_group = own.gid == like_stat.gid
            || set(NewAttributes {
                gid: Some(like_stat.gid),
                ..NewAttributes::default()
            });
        let has_list = self.take_listed_rights(like);
        let mode = mode_of(&like_stat, has_group && has_list);
        let attributes = NewAttributes {
            mode: Some(mode),
            atime: Some(NewTime::At(like_stat.atime)),
            mtime: Some(NewTime::At(like_stat.mtime)),
            ..NewAttributes::default()
        };
        self.disk.set_attributes(target, &attributes)
    }

    /// The list of rights of another file, or none if that has none: a directory may give one to
    /// files that are made in it.
    fn take_listed_rights(&self, like: &dyn Source) -> bool {
        let (name, file) = (OsStr::new(LISTED_RIGHTS), self.file.source());
        let target = Target::Open(file);
        let listed = |file: &dyn Source| file.posix()?.xattr(name);
        match (listed(like), listed(file)) {
            (Ok(list), _) => {
                let set = self.disk.set_xattr(target, name, &list, XattrSetting::Any);
                set.is_ok()
            }
            (Err(_), Ok(_)) => self.disk.remove_xattr(target, name).is_ok(),
            (Err(_), Err(_)) => true,
        }
    }
}

fn is_no_such_call(e: &Error) -> bool {
    matches!(e, Error::Io { cause, .. } if cause.raw_os_error() == Some(libc::EINVAL))
}

/// Without the group's rights, those of a file whose group others would be.
fn mode_of(like: &Stat, has_group: bool) -> u32 {
    let mode = u32::from(like.mode) & 0o777;
    match has_group {
        true => mode,
        false => (mode & !0o070) | (mode & ((mode & 0o007) << 3)),
    }
}

impl Recipe for NewOutput {
    fn copy(&mut self, _: MemberNumber, _: Range<u64>, _: u64) -> crate::error::Result<()> {
        let why = "a new file has nothing to copy from";
        Err(Error::Bug(why.into()))
    }

    fn put(&mut self, _: MemberNumber, at: u64, bytes: &[u8]) -> crate::error::Result<()> {
        self.put_all(at, bytes)
    }

    /// A hole, which reads as such.
    fn zeros(&mut self, _: MemberNumber, _: Range<u64>) -> crate::error::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, len: u64) -> crate::error::Result<()> {
        let set = self.file.set_len(len, self.caller);
        set.map_err(|e| self.named(e))
    }
}

impl Drop for NewOutput {
    fn drop(&mut self) {
        let temporary = Path::new(&self.temporary);
        let ours = self.file.source().id();
        let is_ours = |stat: Stat| stat.id == ours;
        if !self.is_whole
            && self.store.stat(temporary).is_ok_and(is_ours)
            && let Err(e) = self.disk.unlink(place(self.id, &self.temporary))
        {
            log::warn!("{e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Ground(tempfile::TempDir);

    impl Ground {
        fn new() -> Ground {
            Ground(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn names(&self) -> Vec<String> {
            let names = std::fs::read_dir(self.0.path()).unwrap();
            let mut names: Vec<String> = names
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }

        fn find(&self, name: &str, force: bool) -> Result<OutputPlace, Failure> {
            OutputPlace::find(self.at(name), force, &[&self.at("in")])
        }
    }

    fn refusal(found: Result<OutputPlace, Failure>) -> String {
        found
            .err()
            .map(|failure| failure.message)
            .unwrap_or_default()
    }

    #[test]
    fn it_has_mode_and_time_of_what_it_is_made_of_and_nothing_else_is_left() {
        let ground = Ground::new();
        std::fs::write(ground.at("in"), "input").unwrap();
        let rights = std::fs::Permissions::from_mode(0o641);
        std::fs::set_permissions(ground.at("in"), rights).unwrap();
        let (store, _) = open_local(ground.0.path(), ground.0.path()).unwrap();
        let like = store.open(Path::new("in")).unwrap();
        for (force, text) in [(false, &b"one"[..]), (true, b"another")] {
            let mut output = ground.find("out", force).unwrap().begin().unwrap();
            output.put_all(0, text).unwrap();
            assert_eq!(ground.names().len(), 2 + usize::from(force));
            output.finish(&*like).unwrap();
            assert_eq!(std::fs::read(ground.at("out")).unwrap(), text);
            let (input, output) = (ground.at("in").metadata(), ground.at("out").metadata());
            let (input, output) = (input.unwrap(), output.unwrap());
            assert_eq!(input.permissions(), output.permissions());
            assert_eq!(input.modified().unwrap(), output.modified().unwrap());
            assert_eq!(ground.names(), ["in", "out"]);
        }
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let ground = Ground::new();
        std::fs::write(ground.at("in"), "input").unwrap();
        let mut output = ground.find("out", false).unwrap().begin().unwrap();
        output.put_all(0, b"half of").unwrap();
        output.stopped.store(true, Ordering::Relaxed);
        assert!(output.put_all(7, b" it").is_err());
        drop(output);
        assert_eq!(ground.names(), ["in"]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let ground = Ground::new();
        std::fs::write(ground.at("in"), "input").unwrap();
        let (store, _) = open_local(ground.0.path(), ground.0.path()).unwrap();
        let like = store.open(Path::new("in")).unwrap();
        let output = ground.find("out", false).unwrap().begin().unwrap();
        std::fs::write(ground.at("out"), "another's").unwrap();
        assert!(output.finish(&*like).is_err());
        assert_eq!(std::fs::read(ground.at("out")).unwrap(), b"another's");
        assert_eq!(ground.names(), ["in", "out"]);
    }

    #[test]
    fn places_that_will_not_do_are_refused() {
        let ground = Ground::new();
        std::fs::write(ground.at("in"), "input").unwrap();
        std::fs::write(ground.at("there"), "kept").unwrap();
        std::os::unix::fs::symlink("none", ground.at("dangling")).unwrap();
        std::os::unix::fs::symlink("in", ground.at("link")).unwrap();
        assert!(refusal(ground.find("there", false)).contains("--force"));
        assert!(refusal(ground.find("in", true)).contains("is the input"));
        assert!(refusal(ground.find("link", true)).contains("is the input"));
        assert!(refusal(ground.find("", true)).contains("is a directory"));
        assert!(refusal(ground.find("dangling", true)).contains("leads nowhere"));
        assert!(refusal(ground.find("none/out", false)).contains("No such file"));
    }

    #[test]
    fn rights_of_a_group_that_cannot_be_given_go() {
        let ground = Ground::new();
        std::fs::write(ground.at("in"), "input").unwrap();
        let (store, _) = open_local(ground.0.path(), ground.0.path()).unwrap();
        let mut stat = store.stat(Path::new("in")).unwrap();
        for (mode, with, without) in [
            (0o660, 0o660, 0o600),
            (0o4755, 0o755, 0o755),
            (0o674, 0o674, 0o644),
        ] {
            stat.mode = mode;
            assert_eq!(
                (mode_of(&stat, true), mode_of(&stat, false)),
                (with, without)
            );
        }
    }
}
