//! Mount options as users of other FUSE file systems type them: done, or taken with a word; names
//! of users, shares of the memory; and what is said of nonsense.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::harness::is_root;
use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::places::{CONTENT, places};
use crate::harness::process::{ARRAYFS, Ran, arrayfs, install, run};
use crate::harness::reads::assert_content;
use crate::harness::tools::{shell, tools};

fn mount(options: &str, source: &Path, mountpoint: &Path) -> Ran {
    let options = [OsStr::new("mount"), OsStr::new("-o"), OsStr::new(options)];
    let places = [source.as_os_str(), mountpoint.as_os_str()];
    arrayfs(options.into_iter().chain(places))
}

#[test]
fn what_changes_nothing_is_taken_with_a_word() {
    let places = places();
    let (source, mountpoint) = places.both();
    std::fs::write(mountpoint.join("hidden"), "").unwrap();
    let ran = mount(
        "nonempty,big_writes,kernel_cache,nofail,fsname=x,subtype=arrayfs",
        source,
        mountpoint,
    );
    let said = ran.success().stderr;
    drop(Mounted::adopt(mountpoint));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    let words = ["nonempty", "big_writes", "kernel_cache", "fsname"];
    for (line, option) in lines.iter().zip(words) {
        let start = format!("arrayfs: option '{option}' changes nothing: ");
        assert!(line.starts_with(&start), "{line}");
    }
}

#[test]
fn nonsense_is_refused_with_option_value_and_example() {
    let places = places();
    let (source, mountpoint) = places.both();
    let wrong = |options: &str, parts: &[&str]| {
        mount(options, source, mountpoint).failed_saying(2, parts);
    };
    wrong(
        "cache=999T",
        &["cache=999T", "more than the memory here", "cache=2G"],
    );
    wrong("cache=150%", &["cache=150%", "up to 90%", "cache=2G"]);
    wrong(
        "uid=no-such-user",
        &["uid=no-such-user", "no such user", "uid=1000"],
    );
    wrong("gid=-1", &["gid=-1", "no such group", "gid=1000"]);
    wrong("umask=888", &["umask=888", "octal", "umask=022"]);
    wrong(
        "commit=maybe",
        &["commit=maybe", "replace", "commit=replace"],
    );
    wrong("scratch,chunk=1", &["chunk=1", "4K to 64M", "chunk=128K"]);
    wrong("threads", &["'threads' needs a value", "threads=8"]);
    wrong("direct_io=yes", &["direct_io=yes", "takes no value"]);
    wrong("allow_other,allow_root", &["exclude each other"]);
    wrong("frobnicate", &["'frobnicate'", "arrayfs mount --help"]);
    assert!(!is_mounted(mountpoint));
}

#[test]
fn users_have_names_and_the_cache_a_share_of_the_memory() {
    let places = places();
    let (source, mountpoint) = places.both();
    mount("uid=daemon,gid=daemon,cache=1.5M", source, mountpoint).success();
    let mounted = Mounted::adopt(mountpoint);
    assert_eq!(mounted.status()["cache"]["limit"], 3 << 19);
    let shown = std::fs::metadata(mounted.join("x.blp/data")).unwrap();
    let number = |database: &str| {
        let line = run(Command::new("getent").args([database, "daemon"])).text();
        line.split(':').nth(2).unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(
        (shown.uid(), shown.gid()),
        (number("passwd"), number("group"))
    );
    drop(mounted);
    mount("cache=1%", source, mountpoint).success();
    let mounted = Mounted::adopt(mountpoint);
    let limit = mounted.status()["cache"]["limit"].as_u64().unwrap();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = memory.lines().find(|line| line.starts_with("MemTotal:"));
    let kib = total.unwrap().split_whitespace().nth(1).unwrap();
    // A control group may have less.
    let most = kib.parse::<u64>().unwrap() * 1024 / 100;
    assert!((1 << 20..=most + 1).contains(&limit), "{limit} of {most}");
}

#[test]
fn scratch_options_are_long_flags() {
    let places = places();
    let (source, mountpoint) = places.both();
    let flags = ["mount", "--scratch", "--codec=zlib", "--chunk", "64K"].map(OsStr::new);
    let places = [source.as_os_str(), mountpoint.as_os_str()];
    arrayfs(flags.into_iter().chain(places)).success();
    let mounted = Mounted::adopt(mountpoint);
    assert_content(&mounted.join("x"), CONTENT);
    drop(mounted);
    let flags = ["mount", "--codec=zlib"].map(OsStr::new);
    arrayfs(flags.into_iter().chain(places)).failed_saying(2, &["--scratch"]);
}

/// In a name space of its own, where `/etc/fuse.conf` says what it has to.
#[test]
fn allow_root_lets_root_in_and_nobody_else() {
    if !is_root("mounting as another user") || !tools(&["setpriv", "fusermount3", "unshare"]) {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let directory = source.parent().unwrap();
    install(Path::new(ARRAYFS), &directory.join("arrayfs"));
    shell(
        directory,
        r#"
        chmod 755 . "$1" && chmod 644 "$1"/x.blp && chown 65534 "$2"
        mknod -m 666 fuse c 10 229
        echo user_allow_other > conf
        cat > steps <<'END'
        other() { setpriv --reuid "$1" --regid "$1" --clear-groups sh -c "$2" sh "$3" "$4"; }
        mount --bind fuse /dev/fuse
        refused=$(other 65534 './arrayfs mount -o allow_root "$1" "$2" 2>&1' "$1" "$2" || true)
        case $refused in *allow_root*user_allow_other*) ;; *) echo "$refused"; exit 1 ;; esac
        mount --bind conf /etc/fuse.conf
        told=$(other 65534 './arrayfs mount -o allow_root,suid "$1" "$2" 2>&1' "$1" "$2")
        case $told in *"option 'suid' has no effect"*) ;; *) echo "$told"; exit 2 ;; esac
        cmp "$2"/x.blp/data "$2"/x.blp/data
        other 65534 'cat "$2"/x.blp/data > /dev/null' "$1" "$2"
        if other 65533 'cat "$2"/x.blp/data' "$1" "$2" > /dev/null 2>&1; then exit 3; fi
        other 65534 './arrayfs umount "$2"' "$1" "$2"
END
        unshare -m sh -eu steps "$1" "$2"
        "#,
        &[source, mountpoint],
    );
}

/// What somebody tries who has never read anything of it.
#[test]
fn a_path_instead_of_a_command_is_answered_with_the_commands_for_it() {
    let places = places();
    let (source, _) = places.both();
    let shown = source.join("x.blp");
    let shown = shown.to_str().unwrap();
    let (info, show) = (
        format!("arrayfs info {shown}"),
        format!("arrayfs show {shown}"),
    );
    arrayfs([shown]).failed_saying(2, &["a command is expected", &info, &show]);
    let array = format!("{shown}/data");
    let show = format!("arrayfs show {array}");
    arrayfs([&array]).failed_saying(2, &["a command is expected", &show]);
    let ls = format!("arrayfs ls -l {}", source.display());
    arrayfs([source]).failed_saying(2, &[&ls, "arrayfs mount"]);
    arrayfs(["no-such-thing"]).failed_saying(2, &["unrecognized subcommand"]);
}
