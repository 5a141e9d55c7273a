//! Options that are taken because users of FUSE and fstab know them, and change nothing here: a
//! word on each that somebody may rely on.
//!
//! Used by `mount`, which says them on standard error. mount(8)'s own, of which nobody expects
//! anything, have none.

/// Option, and why it changes nothing.
const WORDS: &[(&str, &str)] = &[
    ("nonempty", "a mountpoint need not be empty anyway"),
    ("big_writes", "writes are large anyway"),
    (
        "kernel_cache",
        "the kernel keeps what it has read until it changes anyway",
    ),
    (
        "auto_cache",
        "the kernel forgets what it has read when it changes anyway",
    ),
    ("noviews", "views/ is not listed anyway"),
    (
        "fsname",
        "the mount table has SOURCE, by which commands find what is mounted",
    ),
    ("subtype", "the type is fuse.arrayfs"),
];

/// How files of a scratch mount are encoded.
const SCRATCH: [&str; 5] = ["codec", "level", "chunk", "checksum", "typesize"];

/// What to say of the options given, in their order.
pub(super) fn words(options: &[String], scratch: bool) -> Vec<String> {
    let said = options.iter().filter_map(|option| word(option, scratch));
    said.map(|(name, why)| format!("option '{name}' changes nothing: {why}"))
        .collect()
}

fn word(option: &str, scratch: bool) -> Option<(&str, &'static str)> {
    let name = option.split('=').next()?;
    if option == "subtype=arrayfs" {
        return None;
    }
    if !scratch && SCRATCH.contains(&name) {
        return Some((name, "it is for scratch mounts (-o scratch)"));
    }
    if name == "allow_root" && rustix::process::geteuid().is_root() {
        return Some((name, "it is root who mounts"));
    }
    let known = WORDS.iter().find(|(known, _)| *known == name);
    known.map(|(known, why)| (*known, *why))
}
