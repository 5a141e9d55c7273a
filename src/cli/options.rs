//! Mount options: `-o a,b=c`, the long flags and the fields of fstab, in one place.

use std::time::Duration;

use log::LevelFilter;

use super::{Failure, scratch_options, size};
use crate::commit::Preference;
use crate::container::{Dialect, Preferences};
use crate::daemon::log::Destination;
use crate::scratch::EncodeOptions;

/// What the options say; what they don't is left to the defaults.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MountOptions {
    pub(super) cache: Option<u64>,
    /// How far the kernel reads ahead, in bytes.
    pub(super) readahead: Option<u64>,
    pub(super) threads: Option<usize>,
    pub(super) allow_other: bool,
    pub(super) direct_io: bool,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) umask: Option<u16>,
    pub(super) log: Option<Destination>,
    pub(super) log_level: Option<LevelFilter>,
    pub(super) preferences: Preferences,
    /// How changes of arrays are committed.
    pub(super) commit: Preference,
    pub(super) suid: bool,
    pub(super) dev: bool,
    pub(super) noexec: bool,
    pub(super) noatime: bool,
    pub(super) nosymfollow: bool,
    pub(super) noacl: bool,
    pub(super) noviews: bool,
    pub(super) sync: bool,
    pub(super) dirsync: bool,
    pub(super) writing: Writing,
    pub(super) fake: bool,
    /// Files are stored compressed, and nothing is shown as a container.
    pub(super) scratch: bool,
    pub(super) encode: EncodeOptions,
    /// How long a new container is not used before it is packed. For tests, which cannot wait as
    /// long: it is in no help.
    pub(super) settle: Option<Duration>,
    pub(super) slow_commit: Option<Duration>,
}

/// Whether the mount is to be writable.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// Neither `ro` nor `rw`: if the source is, and no other daemon writes to it.
    #[default]
    IfPossible,
    Never,
    /// Otherwise there is no mount.
    Insisted,
}

/// More ahead of every reader is a mistake.
const MOST_AHEAD: u64 = 1 << 30;

/// What `mount.fuse.arrayfs -f` asks for: all checks, no mount.
pub(super) const FAKE: &str = "fake";

/// For tests, which are not to depend on how fast a machine is: a commit that takes more
/// milliseconds is slow.
const SLOW_COMMIT: &str = "slow_commit";

const KNOWN: &[&str] = &[
    "ro",
    "rw",
    "cache",
    "readahead",
    "threads",
    "allow_other",
    "default_permissions",
    "direct_io",
    "uid",
    "gid",
    "umask",
    "log",
    "log_level",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "atime",
    "noatime",
    "dialect",
    "commit",
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "nodiratime",
    "diratime",
    "sync",
    "async",
    "dirsync",
    "lazytime",
    "nolazytime",
    "iversion",
    "noiversion",
    "mand",
    "nomand",
    "silent",
    "loud",
    "symfollow",
    "nosymfollow",
    "acl",
    "noacl",
    "noviews",
    "remount",
    "scratch",
    "codec",
    "level",
    "chunk",
    "checksum",
    "typesize",
];

impl MountOptions {
    pub(super) fn parse(options: &[String]) -> Result<Self, Failure> {
        let mut parsed = MountOptions::default();
        for option in options {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option.as_str(), None),
            };
            parsed.set(name, value)?;
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        match (name, value) {
            (name, _) if name.starts_with("x-") || name.starts_with("X-") => {}
            ("comment" | "user", Some(_)) => {}
            ("remount", None) => {
                return Err(Failure::usage(
                    "option 'remount': a mount cannot be changed; unmount it and mount it again",
                ));
            }
            (
                "cache" | "readahead" | "threads" | "uid" | "gid" | "umask" | "log" | "log_level"
                | "dialect" | "commit" | "settle" | "codec" | "level" | "chunk" | "checksum"
                | "typesize" | "moves" | SLOW_COMMIT,
                None,
            ) => {
                return Err(Failure::usage(format!(
                    "option '{name}' needs a value: {name}=..."
                )));
            }
            (
                "cache" | "readahead" | "threads" | "uid" | "gid" | "umask" | "settle"
                | SLOW_COMMIT,
                Some(value),
            ) => {
                self.set_number(name, value)?;
            }
            ("log", Some(path)) => self.log = Some(destination(path)?),
            ("log_level", Some(level)) => self.log_level = Some(log_level(level)?),
            ("dialect", Some(value)) => self.preferences.dialect = dialect(value)?,
            ("commit", Some(value)) => self.commit = preference(value)?,
            (name, Some(value)) if scratch_options::NAMED.contains(&name) => {
                scratch_options::set(&mut self.encode, name, value)?;
            }
            (name, Some(_)) if KNOWN.contains(&name) => {
                return Err(Failure::usage(format!("option '{name}' takes no value")));
            }
            (name, None) => self.set_flag(name)?,
            (name, Some(_)) => return Err(unknown(name)),
        }
        Ok(())
    }

    fn set_number(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let wrong = |why: String| Failure::usage(format!("option {name}={value}: {why}"));
        let number = |value: &str| value.parse::<u32>().map_err(|e| wrong(e.to_string()));
        match name {
            "cache" => {
                let bytes = size::parse(value).map_err(wrong)?;
                if bytes < 1 << 20 {
                    return Err(wrong("at least 1M is needed".into()));
                }
                self.cache = Some(bytes);
            }
            "readahead" => match size::parse(value).map_err(wrong)? {
                bytes @ ..=MOST_AHEAD => self.readahead = Some(bytes),
                _ => return Err(wrong("expected at most 1G".into())),
            },
            "threads" => match number(value)? {
                n @ 1..=256 => self.threads = Some(n as usize),
                _ => return Err(wrong("expected 1 to 256".into())),
            },
            "settle" => self.settle = Some(Duration::from_millis(number(value)?.into())),
            SLOW_COMMIT => self.slow_commit = Some(Duration::from_millis(number(value)?.into())),
            "uid" => self.uid = Some(number(value)?),
            "gid" => self.gid = Some(number(value)?),
            _ => match u16::from_str_radix(value, 8) {
                Ok(bits) if bits <= 0o777 => self.umask = Some(bits),
                _ => return Err(wrong("expected an octal number up to 777".into())),
            },
        }
        Ok(())
    }

    fn set_flag(&mut self, name: &str) -> Result<(), Failure> {
        match name {
            "allow_other" => self.allow_other = true,
            "direct_io" => self.direct_io = true,
            "suid" => self.suid = true,
            "nosuid" => self.suid = false,
            "dev" => self.dev = true,
            "nodev" => self.dev = false,
            "exec" => self.noexec = false,
            "noexec" => self.noexec = true,
            "atime" => self.noatime = false,
            "noatime" => self.noatime = true,
            "symfollow" => self.nosymfollow = false,
            "nosymfollow" => self.nosymfollow = true,
            "acl" => self.noacl = false,
            "noacl" => self.noacl = true,
            "noviews" => self.noviews = true,
            "scratch" => self.scratch = true,
            "sync" => self.sync = true,
            "async" => self.sync = false,
            "dirsync" => self.dirsync = true,
            "ro" => self.writing = Writing::Never,
            "rw" => self.writing = Writing::Insisted,
            FAKE => self.fake = true,
            // Always on, mount(8)'s and systemd's own business, or without meaning here.
            name if KNOWN.contains(&name) => {}
            name => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn unknown(name: &str) -> Failure {
    let nearest = KNOWN
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let hint = nearest.map_or_else(String::new, |(_, known)| {
        format!("; did you mean '{known}'?")
    });
    Failure::usage(format!("unknown mount option '{name}'{hint}"))
}

/// The daemon leaves the directory that it was started in, so a file's path is made absolute.
fn destination(value: &str) -> Result<Destination, Failure> {
    match value {
        "syslog" => Ok(Destination::System),
        path => std::path::absolute(path)
            .map(Destination::File)
            .map_err(|e| Failure::usage(format!("log={path}: {e}"))),
    }
}

/// How DAPHNE files are to be read.
pub(super) fn dialect(value: &str) -> Result<Dialect, Failure> {
    match value {
        "auto" => Ok(Dialect::Auto),
        "spec" => Ok(Dialect::Spec),
        "daphne" => Ok(Dialect::Daphne),
        other => Err(Failure::usage(format!(
            "dialect={other}: expected auto, spec or daphne"
        ))),
    }
}

/// How changes of arrays are to be committed.
fn preference(value: &str) -> Result<Preference, Failure> {
    match value {
        "auto" => Ok(Preference::Auto),
        "replace" => Ok(Preference::Replace),
        "inplace" => Ok(Preference::InPlace),
        other => Err(Failure::usage(format!(
            "commit={other}: expected auto, replace or inplace"
        ))),
    }
}

fn log_level(level: &str) -> Result<LevelFilter, Failure> {
    level.parse().map_err(|_| {
        Failure::usage(format!(
            "log_level={level}: expected off, error, warn, info, debug or trace"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<MountOptions, Failure> {
        let options: Vec<String> = options.split(',').map(str::to_owned).collect();
        MountOptions::parse(&options)
    }

    #[test]
    fn options_of_every_kind() {
        let parsed =
            parse("rw,cache=64M,threads=3,allow_other,uid=7,umask=027,x-systemd.automount");
        let expected = MountOptions {
            cache: Some(64 << 20),
            threads: Some(3),
            allow_other: true,
            uid: Some(7),
            umask: Some(0o27),
            writing: Writing::Insisted,
            ..MountOptions::default()
        };
        assert_eq!(parsed.unwrap(), expected);
        let generic = "defaults,suid,nodev,exec,noatime,nofail,_netdev,default_permissions,ro";
        assert!(parse(generic).unwrap().noatime);
        for (options, writing) in [
            ("defaults", Writing::IfPossible),
            ("rw,ro", Writing::Never),
            ("ro,rw", Writing::Insisted),
        ] {
            assert_eq!(parse(options).unwrap().writing, writing, "{options}");
        }
        let parsed = parse("sync,dirsync,async").unwrap();
        assert!(!parsed.sync && parsed.dirsync && parse("async,sync").unwrap().sync);
        let log = |options| parse(options).unwrap().log.unwrap();
        assert_eq!(log("log=syslog"), Destination::System);
        for file in ["log=x.log", "log=./syslog"] {
            assert!(matches!(log(file), Destination::File(path) if path.is_absolute()));
        }
        assert_eq!(parse("readahead=1M").unwrap().readahead, Some(1 << 20));
        assert_eq!(parse("readahead=0").unwrap().readahead, Some(0));
        assert_eq!(
            parse("dialect=daphne").unwrap().preferences.dialect,
            Dialect::Daphne
        );
    }

    /// Those that mount(8) itself knows reach every helper.
    #[test]
    fn generic_options_are_taken() {
        let options = "auto,noauto,user,user=joe,nouser,users,nousers,owner,noowner,group,nogroup,\
                       defaults,nofail,_netdev,comment=x,x-y=z,X-mount.mkdir,async,\
                       lazytime,nolazytime,iversion,noiversion,mand,nomand,silent,loud,diratime,\
                       nodiratime,relatime,norelatime,strictatime,nostrictatime,symfollow";
        for option in options.split(',') {
            assert_eq!(parse(option).unwrap(), MountOptions::default(), "{option}");
        }
        assert!(parse("nosymfollow").unwrap().nosymfollow);
        assert!(parse("noviews").unwrap().noviews);
        assert!(parse("noacl").unwrap().noacl && !parse("noacl,acl").unwrap().noacl);
        let refused = parse("remount,rw").unwrap_err();
        assert!(refused.message.contains("unmount it and mount it again"));
        let misspelt = parse("lazitime").unwrap_err().message;
        assert!(misspelt.contains("did you mean 'lazytime'"), "{misspelt}");
    }

    #[test]
    fn a_misspelt_option_is_named() {
        let message = |options| parse(options).unwrap_err().message;
        assert_eq!(
            message("chace=1G"),
            "unknown mount option 'chace'; did you mean 'cache'?"
        );
        assert_eq!(
            message("allow-other"),
            "unknown mount option 'allow-other'; did you mean 'allow_other'?"
        );
        assert_eq!(message("frobnicate"), "unknown mount option 'frobnicate'");
        assert_eq!(message("cache"), "option 'cache' needs a value: cache=...");
        assert_eq!(message("ro=1"), "option 'ro' takes no value");
        assert!(message("cache=lots").starts_with("option cache=lots: 'lots' is not a size"));
        assert!(message("cache=4K").contains("at least 1M"));
        assert!(message("readahead=far").contains("'far' is not a size"));
        assert!(message("readahead=2G").contains("at most 1G"));
        assert!(message("readahead").contains("readahead=..."));
        assert!(message("threads=0").contains("1 to 256"));
        assert!(message("umask=9").contains("octal"));
        assert!(message("dialect=klingon").contains("auto, spec or daphne"));
        assert!(message("codec").contains("codec=..."));
        assert!(parse("scratch,codec=lz4").unwrap().scratch);
        assert_eq!(parse("nonsense").unwrap_err().status, 2);
    }
}
