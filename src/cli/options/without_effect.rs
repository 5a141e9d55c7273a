//! Options that are taken because users of FUSE and fstab know them, and change nothing here: a
//! word on each that somebody may rely on.
//!
//! Used by `mount`, which says them on standard error. mount(8)'s own, of which nobody expects
//! anything, have none.

/// Option, and why it changes nothing.
const WORDS: &[(&str, &str)] = &[
    ("nonempty", "a mountpoint need not be empty"),
    ("big_writes", "writes are large"),
    (
        "kernel_cache",
        "the kernel keeps what it has read until it changes",
    ),
    (
        "auto_cache",
        "the kernel forgets what it has read when it changes",
    ),
];

/// What to say of the options given, in their order.
pub(super) fn words(options: &[String]) -> Vec<String> {
    let word = |option: &String| WORDS.iter().find(|(name, _)| name == option);
    let said = options.iter().filter_map(word);
    said.map(|(name, why)| format!("option '{name}' changes nothing: {why} without it"))
        .collect()
}
