//! Where a scenario works: a plain directory, or a writable mount over one. What holds in the first
//! must hold in the second.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::mounted::Mounted;
use super::{scratch_directory, wait_until};

pub struct Place {
    mounted: Option<Mounted>,
    directory: TempDir,
    /// What lies in the source is not what is shown.
    is_scratch: bool,
}

/// Makes two tests of each scenario, `plain::NAME` and `mounted::NAME`; and a third one,
/// `scratch::NAME`, of those that are `everywhere`; not of those behind `but`.
macro_rules! scenarios {
    (everywhere $($name:ident),+ $(,)? $(; but $($other:ident),+ $(,)?)?) => {
        crate::harness::place::scenarios![$($name),+ $(, $($other),+)?];

        mod scratch {
            $(#[test]
            fn $name() {
                super::$name(&crate::harness::place::Place::scratch());
            })+
        }
    };
    ($($name:ident),+ $(,)?) => {
        mod plain {
            $(#[test]
            fn $name() {
                super::$name(&crate::harness::place::Place::plain());
            })+
        }

        mod mounted {
            $(#[test]
            fn $name() {
                super::$name(&crate::harness::place::Place::mounted(&[]));
            })+
        }
    };
}
pub(crate) use scenarios;

impl Place {
    pub fn plain() -> Self {
        Place {
            mounted: None,
            directory: open_directory(),
            is_scratch: false,
        }
    }

    /// A mount that stores compressed. Its source is looked at through the mount, too.
    pub fn scratch() -> Self {
        Place {
            is_scratch: true,
            ..Place::mounted(&["scratch"])
        }
    }

    /// A writable mount with these options; open to every user if that can be.
    pub fn mounted(options: &[&str]) -> Self {
        Place::over(open_directory(), options)
    }

    /// The same over a source that is there.
    pub fn over(source: TempDir, options: &[&str]) -> Self {
        let mut place = Place {
            mounted: None,
            directory: source,
            is_scratch: false,
        };
        place.mount(options);
        place
    }

    fn mount(&mut self, options: &[&str]) {
        let root = rustix::process::geteuid().is_root();
        let always = if root { "rw,allow_other" } else { "rw" };
        let options: Vec<&str> = [always]
            .into_iter()
            .chain(options.iter().copied())
            .collect();
        self.mounted = Some(Mounted::new(self.directory.path(), &options));
    }

    /// Ends the mount and makes the next one.
    pub fn mount_again(&mut self) {
        self.mount_again_with(&[]);
    }

    /// The same with these options.
    pub fn mount_again_with(&mut self, options: &[&str]) {
        drop(self.mounted.take());
        let scratch = self.is_scratch.then_some("scratch");
        let options: Vec<&str> = options.iter().copied().chain(scratch).collect();
        self.mount(&options);
    }

    /// The directory to work in.
    pub fn path(&self) -> &Path {
        match &self.mounted {
            Some(mounted) => mounted.path(),
            None => self.directory.path(),
        }
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path().join(path)
    }

    /// The directory behind the mount; of a plain one, itself.
    pub fn source(&self) -> &Path {
        match self.is_scratch {
            true => self.path(),
            false => self.directory.path(),
        }
    }

    /// A file as it lies in the source.
    pub fn stored(&self, path: impl AsRef<Path>) -> PathBuf {
        self.source().join(path)
    }

    /// Has a new container packed: as soon as nothing is at work in it.
    pub fn wait_packed(&self, name: &str) {
        let drafts = self.stored(format!(".{name}.arrayfs-drafts"));
        wait_until(&format!("{name} is packed"), || {
            let _not_yet = File::open(self.join(name)).and_then(|directory| directory.sync_all());
            !drafts.exists()
        });
    }

    /// Whether it is a mount that stores compressed.
    pub fn is_scratch(&self) -> bool {
        self.is_scratch
    }

    pub fn is_mounted(&self) -> bool {
        self.mounted.is_some()
    }

    /// Takes the mount out, to be ended by other means.
    pub fn into_parts(mut self) -> (Mounted, TempDir) {
        let mounted = self.mounted.take().expect("a mount");
        (mounted, self.directory)
    }
}

/// Every user may make files in it.
pub fn open_directory() -> TempDir {
    let directory = scratch_directory();
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), all).unwrap();
    directory
}
