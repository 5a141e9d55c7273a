//! Mount options: `-o a,b=c`, the long flags and the fields of fstab, in one place.
//!
//! [`known`] names them all, [`values`] reads what they are set to, [`scratch`] those of scratch
//! mounts, [`without_effect`] has a word for those that change nothing. Every error says the
//! option, the value and an example.

mod flags;
mod known;
mod remote;
mod scratch;
mod values;
mod without_effect;

use std::time::Duration;

use log::LevelFilter;

pub(super) use flags::FlagWords;
use flags::{Flag, Flags};
pub(super) use remote::RemoteFlags;

use super::failure::Failure;
use crate::commit::Preference;
use crate::container::{Dialect, Preferences};
use crate::daemon::log::Destination;
use crate::scratch::EncodeOptions;
use crate::source::remote::RemoteSettings;

/// What the options say; what they don't is left to the defaults.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MountOptions {
    /// Those without a value.
    pub(super) flags: Flags,
    pub(super) cache: Option<u64>,
    /// How far the kernel reads ahead, in bytes.
    pub(super) readahead: Option<u64>,
    pub(super) threads: Option<usize>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) umask: Option<u16>,
    pub(super) log: Option<Destination>,
    pub(super) log_level: Option<LevelFilter>,
    pub(super) preferences: Preferences,
    /// How changes of arrays are committed.
    pub(super) commit: Preference,
    pub(super) encode: EncodeOptions,
    pub(super) remote: RemoteSettings,
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

/// What `mount.fuse.arrayfs -f` asks for: all checks, no mount.
pub(super) const FAKE: &str = flags::FAKE;

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
        if parsed.flags.allow_other && parsed.flags.allow_root {
            return Err(Failure::usage(
                "options 'allow_other' and 'allow_root' exclude each other: everybody, or root alone",
            ));
        }
        parsed.remote.anonymous = parsed.flags.anonymous;
        parsed.remote.requester_pays = parsed.flags.requester_pays;
        parsed.remote.path_style = parsed.flags.path_style;
        Ok(parsed)
    }

    /// A word on each of the options given that is taken and changes nothing.
    pub(super) fn words(&self, given: &[String]) -> Vec<String> {
        without_effect::words(given, self.flags.scratch)
    }

    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        match (name, value) {
            (name, _) if name.starts_with("x-") || name.starts_with("X-") => Ok(()),
            ("comment" | "user", Some(_)) => Ok(()),
            ("remount", None) => Err(Failure::usage(
                "option 'remount': a mount cannot be changed; unmount it and mount it again",
            )),
            (name, value) => match (known::example(name), value) {
                (Some(example), None) => Err(Failure::usage(format!(
                    "option '{name}' needs a value; for example {name}={example}"
                ))),
                (Some(example), Some(value)) => self.set_value(name, value).map_err(|why| {
                    Failure::usage(format!(
                        "option {name}={value}: {why}; for example {name}={example}"
                    ))
                }),
                (None, Some(value)) if name != FAKE && Flag::of(name).is_some() => {
                    Err(Failure::usage(format!(
                        "option '{name}={value}': {name} takes no value; for example {name}"
                    )))
                }
                (None, Some(_)) => Err(known::unknown(name)),
                (None, None) => self.set_flag(name),
            },
        }
    }

    /// Sets an option that has a value; the error says what is wrong with it.
    fn set_value(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "cache" => self.cache = Some(values::cache(value)?),
            "readahead" => self.readahead = Some(values::readahead(value)?),
            "threads" => self.threads = Some(values::threads(value)?),
            "uid" => self.uid = Some(values::user(value)?),
            "gid" => self.gid = Some(values::group(value)?),
            "umask" => self.umask = Some(values::umask(value)?),
            "log" => self.log = Some(values::destination(value)?),
            "log_level" => self.log_level = Some(values::log_level(value)?),
            "dialect" => self.preferences.dialect = values::dialect(value)?,
            "commit" => self.commit = values::preference(value)?,
            known::FSNAME | known::SUBTYPE => {}
            known::SETTLE => self.settle = Some(values::milliseconds(value)?),
            known::SLOW_COMMIT => self.slow_commit = Some(values::milliseconds(value)?),
            name if remote::VALUED.iter().any(|(known, _)| *known == name) => {
                remote::set(&mut self.remote, name, value)?;
            }
            name => scratch::set(&mut self.encode, name, value)?,
        }
        Ok(())
    }

    fn set_flag(&mut self, name: &str) -> Result<(), Failure> {
        let flag = Flag::of(name).ok_or_else(|| known::unknown(name))?;
        (flag.set)(&mut self.flags);
        Ok(())
    }
}

/// How DAPHNE files are to be read, as every command is told.
pub(super) fn dialect(value: &str) -> Result<Dialect, Failure> {
    values::dialect(value).map_err(|why| Failure::usage(format!("dialect={value}: {why}")))
}

/// Sets one of scratch mode's options that say how files are encoded; `pack` has them, too.
pub(super) fn set_encoding(
    options: &mut EncodeOptions,
    name: &str,
    value: &str,
) -> Result<(), Failure> {
    let wrong = |why| Failure::usage(format!("--{name}={value}: {why}"));
    scratch::set(options, name, value).map_err(wrong)
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
            uid: Some(7),
            umask: Some(0o27),
            flags: Flags {
                allow_other: true,
                writing: Writing::Insisted,
                ..Flags::default()
            },
            ..MountOptions::default()
        };
        assert_eq!(parsed.unwrap(), expected);
        assert!(parse("nofail").unwrap().flags.nofail);
        let generic = "defaults,suid,nodev,exec,noatime,nofail,_netdev,default_permissions,ro";
        assert!(parse(generic).unwrap().flags.noatime);
        for (options, writing) in [
            ("defaults", Writing::IfPossible),
            ("rw,ro", Writing::Never),
            ("ro,rw", Writing::Insisted),
        ] {
            assert_eq!(parse(options).unwrap().flags.writing, writing, "{options}");
        }
        let parsed = parse("sync,dirsync,async").unwrap();
        assert!(
            !parsed.flags.sync && parsed.flags.dirsync && parse("async,sync").unwrap().flags.sync
        );
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
                       defaults,_netdev,comment=x,x-y=z,X-mount.mkdir,async,\
                       lazytime,nolazytime,iversion,noiversion,mand,nomand,silent,loud,diratime,\
                       nodiratime,relatime,norelatime,strictatime,nostrictatime,symfollow";
        for option in options.split(',') {
            assert_eq!(parse(option).unwrap(), MountOptions::default(), "{option}");
        }
        assert!(parse("nosymfollow").unwrap().flags.nosymfollow);
        let taken = "nonempty,big_writes,kernel_cache,auto_cache,fsname=x,subtype=arrayfs";
        let taken = parse(taken).unwrap();
        assert_eq!(taken, MountOptions::default());
        let fuse = parse("allow_root,auto_unmount,uid=root,cache=1.5M").unwrap();
        assert!(fuse.flags.allow_root && fuse.flags.auto_unmount);
        assert_eq!((fuse.uid, fuse.cache), (Some(0), Some(3 << 19)));
        assert!(
            parse("views").unwrap().flags.views && !parse("views,noviews").unwrap().flags.views
        );
        assert!(parse("noacl").unwrap().flags.noacl && !parse("noacl,acl").unwrap().flags.noacl);
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
            "unknown mount option 'chace'; did you mean 'cache', as in cache=2G?"
        );
        assert_eq!(
            message("allow-other"),
            "unknown mount option 'allow-other'; did you mean 'allow_other'?"
        );
        assert!(message("frobnicate").contains("'frobnicate'; 'arrayfs mount --help'"));
        assert_eq!(
            message("cache"),
            "option 'cache' needs a value; for example cache=2G"
        );
        assert_eq!(
            message("ro=1"),
            "option 'ro=1': ro takes no value; for example ro"
        );
        assert_eq!(
            message("cache=lots"),
            "option cache=lots: 'lots' is not a size: expected a number and K, M, G or T; \
             for example cache=2G"
        );
        assert!(message("cache=999T").contains("more than the memory here"));
        assert!(message("uid=nobody-at-all").contains("no such user"));
        assert!(message("allow_root,allow_other").contains("exclude each other"));
        assert!(message("cache=4K").contains("at least 1M"));
        assert!(message("readahead=far").contains("'far' is not a size"));
        assert!(message("readahead=2G").contains("at most 1G"));
        assert!(message("readahead").contains("readahead=1M"));
        assert!(message("threads=0").contains("from 1 to 256; for example threads=8"));
        assert!(message("umask=9").contains("octal"));
        assert!(message("dialect=klingon").contains("auto, spec or daphne"));
        assert!(message("codec").contains("codec=zstd"));
        assert!(message("scratch,level=11").contains("up to 9; for example level=5"));
        assert!(parse("scratch,codec=lz4").unwrap().flags.scratch);
        assert_eq!(parse("nonsense").unwrap_err().status, 2);
    }
}
