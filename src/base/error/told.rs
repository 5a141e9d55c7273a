//! Lines of the log: each names the container and what in it, once, whatever the sentence does that
//! they are made of.
//!
//! A sentence may begin with names and colons, as faults do, or with the name of which it says
//! something ("n has at most 40 bytes"). Used by [`super`].

/// How sentences go on that begin with a name.
const VERBS: &[&str] = &["has ", "is ", "cannot "];

/// `within`: what it speaks of in the container; empty if that is all of it.
pub(super) fn line(text: &str, container: &str, within: &str) -> String {
    let rest = without(text, container);
    if within.is_empty() {
        let names_it = rest == text && text.contains(container);
        return match names_it {
            true => text.to_owned(),
            false => format!("{container}: {rest}"),
        };
    }
    let rest = without(rest, within);
    match said_of(rest, within) {
        Some(said) => format!("{container}: {within} {said}"),
        None => format!("{container}: {within}: {rest}"),
    }
}

/// The text behind a name and a colon, however often it begins with them.
fn without<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rest = text;
    let behind =
        |rest: &'t str| ends(name).find_map(|end| rest.strip_prefix(end)?.strip_prefix(": "));
    while let Some(behind) = behind(rest) {
        rest = behind;
    }
    rest
}

/// What a sentence says of the name that it begins with.
fn said_of<'t>(sentence: &'t str, name: &str) -> Option<&'t str> {
    let said = ends(name).find_map(|end| sentence.strip_prefix(end)?.strip_prefix(' '))?;
    let goes_on = VERBS.iter().any(|verb| said.starts_with(verb));
    goes_on.then_some(said)
}

/// A path, and what is left of it in each of the directories that it goes through.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    let below = path
        .match_indices('/')
        .filter_map(|(at, _)| path.get(at + 1..));
    let all = std::iter::once(path).chain(below);
    all.filter(|end| !end.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_named_twice() {
        let told = |within: &str, text: &str| line(text, "/d/o5.h5", within);
        for text in ["o5.h5: why", "/d/o5.h5: o5.h5: why", "why", "d/o5.h5: why"] {
            assert_eq!(told("", text), "/d/o5.h5: why");
        }
        for text in [
            "g/n: why",
            "n: why",
            "o5.h5: g/n: why",
            "g/n: n: why",
            "why",
        ] {
            assert_eq!(told("g/n", text), "/d/o5.h5: g/n: why");
        }
        for text in ["n has 4 bytes", "g/n has 4 bytes", "n: n has 4 bytes"] {
            assert_eq!(told("g/n", text), "/d/o5.h5: g/n has 4 bytes");
        }
        // An article, and another array.
        assert_eq!(told("a", "a line is long"), "/d/o5.h5: a: a line is long");
        assert_eq!(told("n", "n2 has 4"), "/d/o5.h5: n: n2 has 4");
        assert_eq!(
            told("", "cannot read /d/o5.h5: no"),
            "cannot read /d/o5.h5: no"
        );
    }
}
