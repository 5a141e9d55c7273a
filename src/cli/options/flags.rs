//! Mount options without a value: each is a row here, from which `-o`, the long flag, its help and
//! what it sets follow.
//!
//! Used by [`super`] for `-o`, and by the command line for long flags ([`FlagWords`]).

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::Writing;

/// What the flags say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) writing: Writing,
    pub(crate) allow_other: bool,
    /// Root and the user who mounts, and nobody else.
    pub(crate) allow_root: bool,
    /// A daemon that dies is not to leave its mount behind.
    pub(crate) auto_unmount: bool,
    pub(crate) direct_io: bool,
    pub(crate) suid: bool,
    pub(crate) dev: bool,
    pub(crate) noexec: bool,
    pub(crate) noatime: bool,
    pub(crate) nosymfollow: bool,
    pub(crate) noacl: bool,
    pub(crate) views: bool,
    pub(crate) sync: bool,
    pub(crate) dirsync: bool,
    /// What `mount.fuse.arrayfs -f` asks for: all checks, no mount.
    pub(crate) fake: bool,
    /// A source that is not there is no failure.
    pub(crate) nofail: bool,
    /// Of remote sources: requests are not signed; their cost is ours; how buckets are named.
    pub(crate) anonymous: bool,
    pub(crate) requester_pays: bool,
    pub(crate) path_style: bool,
    /// Files are stored compressed, and nothing is shown as a container.
    pub(crate) scratch: bool,
}

/// An option without a value.
pub(super) struct Flag {
    pub(super) word: &'static str,
    /// Of the long flag, if there is one.
    help: Option<&'static str>,
    /// The heading in the help, if not that of all options.
    heading: Option<&'static str>,
    pub(super) set: fn(&mut Flags),
}

/// What `mount.fuse.arrayfs -f` asks for.
pub(super) const FAKE: &str = "fake";

/// The heading of those of scratch mounts, as the command line has it.
const SCRATCH: &str = "Scratch storage";

/// In the order of the help.
pub(super) const FLAGS: &[Flag] = &[
    long("ro", "Read-only", |on| on.writing = Writing::Never),
    long(
        "rw",
        "Writable, or no mount; without --ro and --rw it is writable if it can be",
        |on| on.writing = Writing::Insisted,
    ),
    long(
        "allow_other",
        "Let other users in; permissions are checked",
        |on| on.allow_other = true,
    ),
    long("allow_root", "Let root in, too", |on| on.allow_root = true),
    long("auto_unmount", "Unmount if the daemon dies", |on| {
        on.auto_unmount = true;
    }),
    long(
        "default_permissions",
        "The kernel checks permissions (always on)",
        |_| {},
    ),
    long(
        "direct_io",
        "Bypass the kernel's page cache for array files",
        |on| on.direct_io = true,
    ),
    long("suid", "Heed set-user-id bits", |on| on.suid = true),
    long("nosuid", "Ignore them (default)", |on| on.suid = false),
    long("dev", "Heed device files", |on| on.dev = true),
    long("nodev", "Ignore them (default)", |on| on.dev = false),
    long("exec", "Let programs be run (default)", |on| {
        on.noexec = false;
    }),
    long("noexec", "Let none be run", |on| on.noexec = true),
    long("atime", "As in mount(8)", |on| on.noatime = false),
    long("noatime", "As in mount(8)", |on| on.noatime = true),
    long(
        "nosymfollow",
        "Follow no symbolic link of the mount; root only",
        |on| on.nosymfollow = true,
    ),
    long("noacl", "Modes alone decide who may do what", |on| {
        on.noacl = true;
    }),
    long(
        "views",
        "List 'views' in containers, which can be entered in any case",
        |on| on.views = true,
    ),
    Flag {
        heading: Some(SCRATCH),
        ..long(
            "scratch",
            "Store every file compressed in SOURCE, and show none as a container",
            |on| on.scratch = true,
        )
    },
    word("anonymous", |on| on.anonymous = true),
    word("requester_pays", |on| on.requester_pays = true),
    word("path_style", |on| on.path_style = true),
    word("symfollow", |on| on.nosymfollow = false),
    word("acl", |on| on.noacl = false),
    word("noviews", |on| on.views = false),
    word("sync", |on| on.sync = true),
    word("async", |on| on.sync = false),
    word("dirsync", |on| on.dirsync = true),
    word("nofail", |on| on.nofail = true),
    word(FAKE, |on| on.fake = true),
    // Refused with a word of its own.
    word("remount", |_| {}),
    // Always on, mount(8)'s and systemd's own business, or without meaning here.
    word("nonempty", |_| {}),
    word("kernel_cache", |_| {}),
    word("auto_cache", |_| {}),
    word("big_writes", |_| {}),
    word("defaults", |_| {}),
    word("auto", |_| {}),
    word("noauto", |_| {}),
    word("user", |_| {}),
    word("users", |_| {}),
    word("nouser", |_| {}),
    word("nousers", |_| {}),
    word("owner", |_| {}),
    word("noowner", |_| {}),
    word("group", |_| {}),
    word("nogroup", |_| {}),
    word("_netdev", |_| {}),
    word("relatime", |_| {}),
    word("norelatime", |_| {}),
    word("strictatime", |_| {}),
    word("nostrictatime", |_| {}),
    word("nodiratime", |_| {}),
    word("diratime", |_| {}),
    word("lazytime", |_| {}),
    word("nolazytime", |_| {}),
    word("iversion", |_| {}),
    word("noiversion", |_| {}),
    word("mand", |_| {}),
    word("nomand", |_| {}),
    word("silent", |_| {}),
    word("loud", |_| {}),
];

const fn long(word: &'static str, help: &'static str, set: fn(&mut Flags)) -> Flag {
    Flag {
        word,
        help: Some(help),
        heading: None,
        set,
    }
}

const fn word(word: &'static str, set: fn(&mut Flags)) -> Flag {
    Flag {
        word,
        help: None,
        heading: None,
        set,
    }
}

impl Flag {
    pub(super) fn of(word: &str) -> Option<&'static Flag> {
        FLAGS.iter().find(|flag| flag.word == word)
    }

    /// The long flags that cannot be given with it.
    fn excluded(&self) -> Option<&'static str> {
        let other = match self.word {
            "rw" => "ro",
            "allow_root" => "allow_other",
            word => word.strip_prefix("no")?,
        };
        let excluded = Flag::of(other).filter(|flag| flag.help.is_some());
        excluded.map(|flag| flag.word)
    }

    fn arg(&self, help: &'static str) -> Arg {
        let mut arg = Arg::new(self.word)
            .long(self.word.replace('_', "-"))
            .action(ArgAction::SetTrue)
            .help(help);
        if self.word.contains('_') {
            arg = arg.alias(self.word);
        }
        if let Some(excluded) = self.excluded() {
            arg = arg.conflicts_with(excluded);
        }
        match self.heading {
            Some(heading) => arg.help_heading(heading),
            None => arg,
        }
    }
}

/// The words of the long flags that were given.
#[derive(Default)]
pub(crate) struct FlagWords(pub(crate) Vec<&'static str>);

impl Args for FlagWords {
    fn augment_args(command: Command) -> Command {
        let long = FLAGS.iter().filter_map(|flag| Some(flag.arg(flag.help?)));
        command.args(long)
    }

    fn augment_args_for_update(command: Command) -> Command {
        FlagWords::augment_args(command)
    }
}

impl FromArgMatches for FlagWords {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FlagWords, Error> {
        let long = FLAGS.iter().filter(|flag| flag.help.is_some());
        let given = long.filter(|flag| matches.get_flag(flag.word));
        Ok(FlagWords(given.map(|flag| flag.word).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = FlagWords::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_stands_once_and_the_opposite_of_one_undoes_it() {
        for (number, flag) in FLAGS.iter().enumerate() {
            let again = FLAGS[..number].iter().find(|other| other.word == flag.word);
            assert!(again.is_none(), "{}", flag.word);
            let opposite = flag.word.strip_prefix("no").and_then(Flag::of);
            if let Some(opposite) = opposite {
                let mut flags = Flags::default();
                for set in [flag.set, opposite.set, flag.set] {
                    set(&mut flags);
                }
                let mut at_once = Flags::default();
                (flag.set)(&mut at_once);
                assert_eq!(flags, at_once, "{}", flag.word);
            }
        }
    }
}
