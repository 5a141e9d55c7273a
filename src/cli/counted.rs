//! Numbers of things: `1 block`, `2 blocks`. Used by whatever counts for people.

/// A number and what it is of, `what` being its singular.
pub(super) fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {}", plural(what)),
    }
}

/// Of a number of things that stand beside a verb: `keeps`, `keep`.
pub(super) fn verb<'a>(count: u64, of_one: &'a str, of_many: &'a str) -> &'a str {
    match count {
        1 => of_one,
        _ => of_many,
    }
}

/// As far as the words are those that are counted here.
fn plural(what: &str) -> String {
    match what.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(counted(0, "block"), "0 blocks");
        assert_eq!(counted(1, "block"), "1 block");
        assert_eq!(counted(2, "open file"), "2 open files");
        assert_eq!(counted(3, "directory"), "3 directories");
        assert_eq!(counted(3, "array"), "3 arrays");
        assert_eq!(verb(1, "keeps", "keep"), "keeps");
        assert_eq!(verb(0, "keeps", "keep"), "keep");
    }
}
