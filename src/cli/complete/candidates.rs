//! What a word may become. What cannot be looked at gives nothing: somebody is typing.
//!
//! Used by [`super`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Command;

use super::super::{container, definition, remote};
use crate::container::Preferences;
use crate::container::inside::{Located, join};
use crate::daemon::mount_table;
use crate::memory::budget::Budget;

/// More are of no use to who chooses among them.
const MOST: usize = 10_000;

/// Mount options that are no long options and change something, here or for mount(8).
const OFFERED: [&str; 4] = ["nofail", "_netdev", "sync", "dirsync"];

/// Values of options that say so themselves when they get another one.
const CHOICES: [(&str, &[&str]); 4] = [
    (
        "codec",
        &["auto", "blosclz", "lz4", "lz4hc", "zlib", "zstd"],
    ),
    (
        "checksum",
        &[
            "none", "adler32", "crc32", "md5", "sha1", "sha256", "sha512",
        ],
    ),
    ("dialect", &["auto", "spec", "daphne"]),
    ("log", &["syslog"]),
];

/// Arrays and groups of the container that the directory part of a path leads into.
pub(super) fn below(current: &str, preferences: Preferences) -> Vec<String> {
    let Some((above, name)) = current.rsplit_once('/') else {
        return Vec::new();
    };
    if let Some(names) = remote::names_below(above) {
        let begins = names.into_iter().filter(|below| below.starts_with(name));
        return begins
            .map(|name| format!("{above}/{name}"))
            .take(MOST)
            .collect();
    }
    let names = names_in(above, name, preferences);
    names.map(|name| format!("{above}/{name}")).collect()
}

/// Arrays of the container at a path, by their paths in it.
pub(super) fn arrays_of(container: &str, current: &str, preferences: Preferences) -> Vec<String> {
    let (group, name) = current.rsplit_once('/').unwrap_or(("", current));
    let above = match group {
        "" => container.to_owned(),
        group => format!("{}/{group}", container.trim_end_matches('/')),
    };
    let names = names_in(&above, name, preferences);
    names.map(|name| join(group, &name)).collect()
}

/// Names in a container or group that begin so; those of groups end with a slash.
fn names_in(above: &str, start: &str, preferences: Preferences) -> impl Iterator<Item = String> {
    let found = container::find(&at_home(above), preferences).ok();
    let names = found.and_then(|found| {
        let opened = found.open(&Budget::by_default()).ok()?;
        let group = opened.resolve(&found.within);
        let in_group = |array: &Located| {
            let path = array.path();
            let rest = match group.as_str() {
                "" => &path,
                group => path.strip_prefix(group)?.strip_prefix('/')?,
            };
            let name = match rest.split_once('/') {
                Some((below, _)) => format!("{below}/"),
                None => rest.to_owned(),
            };
            name.starts_with(start).then_some(name)
        };
        let arrays = opened.all_written();
        Some(arrays.iter().filter_map(in_group).collect::<BTreeSet<_>>())
    });
    names.unwrap_or_default().into_iter().take(MOST)
}

/// The shell leaves a tilde as it is typed.
fn at_home(path: &str) -> PathBuf {
    let rest = path.strip_prefix('~');
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (rest, std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest.trim_start_matches('/')),
        // The root.
        _ if path.is_empty() => PathBuf::from("/"),
        _ => PathBuf::from(path),
    }
}

/// Where something is mounted: as paths from the root, or from here if the word begins so.
pub(super) fn mounts(current: &str) -> Vec<String> {
    let here = std::env::current_dir().unwrap_or_default();
    let mounts = mount_table::mounts().unwrap_or_default().into_iter();
    let spelled = mounts.filter_map(|mounted| {
        let from_here = mounted.mountpoint.strip_prefix(&here).ok();
        let from_here = from_here.filter(|_| !current.is_empty());
        let spelled = [Some(mounted.mountpoint.as_path()), from_here].into_iter();
        let mut spelled = spelled.flatten().filter_map(Path::to_str);
        let begins = |path: &&str| path.starts_with(current);
        spelled.find(begins).map(str::to_owned)
    });
    spelled.collect()
}

/// The last of a list of mount options.
pub(super) fn mount_options(current: &str) -> Vec<String> {
    let (before, last) = match current.rsplit_once(',') {
        Some((before, last)) => (format!("{before},"), last),
        None => (String::new(), current),
    };
    let given: Vec<&str> = before.split(',').map(option_name).collect();
    let has_value = |option: &str| option.contains('=') && !option.ends_with('=');
    let fits = all_mount_options().into_iter().filter(|option| {
        has_value(option) == last.contains('=')
            && option.starts_with(last)
            && !given.contains(&option_name(option))
    });
    fits.map(|option| format!("{before}{option}")).collect()
}

/// Each by its name (`ro`, `cache=`), and with each of its values if they are few.
fn all_mount_options() -> Vec<String> {
    let whole = definition::arrayfs();
    let mount = whole.find_subcommand("mount");
    let long = mount.into_iter().flat_map(Command::get_arguments);
    let named = long.filter_map(|arg| Some((arg.get_long()?.replace('-', "_"), arg)));
    let mut all: Vec<String> = OFFERED.map(str::to_owned).to_vec();
    for (name, arg) in named {
        if !arg.get_action().takes_values() {
            all.push(name);
            continue;
        }
        let choices = CHOICES.iter().filter(|(of, _)| *of == name);
        let mut values: Vec<String> = choices
            .flat_map(|(_, values)| *values)
            .map(|value| (*value).to_owned())
            .collect();
        let possible = arg.get_possible_values().into_iter();
        values.extend(possible.map(|value| value.get_name().to_owned()));
        all.push(format!("{name}="));
        all.extend(values.iter().map(|value| format!("{name}={value}")));
    }
    all
}

fn option_name(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options::MountOptions;

    #[test]
    fn mount_options_are_completed_one_after_the_other() {
        assert_eq!(mount_options("ro,cac"), ["ro,cache="]);
        assert_eq!(mount_options("commit=in"), ["commit=inplace"]);
        let commits = ["auto", "replace", "inplace"].map(|how| format!("ro,commit={how}"));
        assert_eq!(mount_options("ro,commit="), commits);
        assert_eq!(mount_options("commit"), ["commit="]);
        let rest = mount_options("ro,");
        assert!(rest.contains(&"ro,scratch".to_owned()));
        assert!(!rest.contains(&"ro,ro".to_owned()));
        assert!(mount_options("nonsense").is_empty());
    }

    #[test]
    fn what_is_offered_is_taken() {
        let all = all_mount_options();
        assert!(all.len() > 50, "{all:?}");
        for option in all.iter().filter(|option| !option.ends_with('=')) {
            let is_flag = option != "help";
            let parsed = MountOptions::parse(std::slice::from_ref(option));
            assert!(is_flag && parsed.is_ok(), "{option}");
        }
        for option in all.iter().filter(|option| option.ends_with('=')) {
            let refused = MountOptions::parse(&[option_name(option).to_owned()]).err();
            let said = refused.map(|failure| failure.message).unwrap_or_default();
            assert!(said.contains("needs a value"), "{option}: {said}");
        }
    }

    #[test]
    fn a_tilde_is_home_and_nothing_is_the_root() {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        assert_eq!(at_home("~/x"), home.join("x"));
        assert_eq!(at_home(""), Path::new("/"));
        assert_eq!(at_home("~joe/x"), Path::new("~joe/x"));
    }
}
