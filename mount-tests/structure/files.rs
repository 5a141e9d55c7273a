//! What every file looks like: how it begins, how long it is, what it is called.

use super::sources;

const LONGEST: usize = 500;
const WIDEST: usize = 100;

#[test]
fn comments_are_wrapped() {
    for file in sources("src").into_iter().chain(sources("mount-tests")) {
        let is_comment = |line: &&str| line.trim_start().starts_with("//");
        let wide = |line: &&str| line.chars().count() > WIDEST;
        let mut comments = file.text.lines().filter(is_comment);
        let found = comments.find(wide);
        assert_eq!(found, None, "{}", file.path.display());
    }
}

#[test]
fn every_file_says_what_it_is_and_is_not_long() {
    for file in sources("src").into_iter().chain(sources("mount-tests")) {
        let path = file.path.display();
        assert!(
            file.text.starts_with("//! "),
            "{path} does not say what it is"
        );
        let lines = file.text.lines().count();
        assert!(lines <= LONGEST, "{path} has {lines} lines");
    }
}

#[test]
fn no_file_is_named_for_nothing() {
    for file in sources("src").into_iter().chain(sources("mount-tests")) {
        for part in file.path.with_extension("").components() {
            let name = part.as_os_str().to_string_lossy().to_lowercase();
            for empty in ["util", "helper", "common", "manager", "misc", "_v2"] {
                assert!(!name.contains(empty), "{}", file.path.display());
            }
        }
    }
}
