//! The words of a command line that is being typed, without their quotes.
//!
//! Pure. Used by [`super`].

use std::path::Path;

/// What was typed before the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypedWords {
    /// The arguments of the program that are complete.
    pub(super) before: Vec<String>,
    /// The one that is being typed, as far as it is.
    pub(super) current: String,
    /// So many bytes of it the shell takes for a word of its own, and keeps.
    pub(super) kept: usize,
}

/// Where bash begins a new word within one, unless it is quoted.
const BREAKS: [char; 2] = ['=', ':'];

#[derive(Default)]
struct Word {
    text: String,
    kept: usize,
}

impl TypedWords {
    /// Words as the shell has taken them apart, the program's name first.
    pub(super) fn of(words: &[String]) -> TypedWords {
        let (current, before) = words
            .split_last()
            .map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
        TypedWords {
            before: before.iter().skip(1).cloned().collect(),
            current: current.to_owned(),
            kept: 0,
        }
    }

    /// A line of bash up to the cursor. What stands before the program's name is not its business.
    pub(super) fn of_line(line: &str) -> TypedWords {
        let mut words = split(line);
        let current = words.pop().unwrap_or_default();
        let is_program = |word: &Word| {
            Path::new(&word.text)
                .file_name()
                .is_some_and(|name| name == "arrayfs")
        };
        let program = words.iter().position(is_program).unwrap_or(0);
        let before = words.into_iter().skip(program + 1);
        TypedWords {
            before: before.map(|word| word.text).collect(),
            current: current.text,
            kept: current.kept,
        }
    }
}

/// The last word is that at the end of the line, perhaps an empty one.
fn split(line: &str) -> Vec<Word> {
    let (mut words, mut word, mut quote) = (Vec::new(), Word::default(), None);
    let mut letters = line.chars();
    let mut is_begun = false;
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (' ' | '\t' | '\n', None) => {
                if is_begun {
                    words.push(std::mem::take(&mut word));
                }
                is_begun = false;
                continue;
            }
            ('\'' | '"', None) => quote = Some(letter),
            (end, Some(begun)) if end == begun => quote = None,
            ('\\', None | Some('"')) => word.text.extend(letters.next()),
            (letter, _) => {
                word.text.push(letter);
                if quote.is_none() && BREAKS.contains(&letter) {
                    word.kept = word.text.len();
                }
            }
        }
        is_begun = true;
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> (Vec<String>, String, usize) {
        let typed = TypedWords::of_line(line);
        (typed.before, typed.current, typed.kept)
    }

    fn expected(before: &[&str], current: &str, kept: usize) -> (Vec<String>, String, usize) {
        let before = before.iter().map(|word| (*word).to_owned()).collect();
        (before, current.to_owned(), kept)
    }

    #[test]
    fn quotes_are_taken_off() {
        assert_eq!(
            of("arrayfs show a\\ b/'c d'"),
            expected(&["show"], "a b/c d", 0)
        );
        assert_eq!(
            of("arrayfs show \"a\\\"b/"),
            expected(&["show"], "a\"b/", 0)
        );
        assert_eq!(
            of("arrayfs show ''  x "),
            expected(&["show", "", "x"], "", 0)
        );
        assert_eq!(of("A=1 ./bin/arrayfs ls"), expected(&[], "ls", 0));
        assert_eq!(of(""), expected(&[], "", 0));
        assert_eq!(of("arrayfs ls \\"), expected(&["ls"], "", 0));
    }

    #[test]
    fn bash_keeps_what_stands_before_a_break() {
        let line = "arrayfs mount -o ro,commit=in";
        assert_eq!(of(line), expected(&["mount", "-o"], "ro,commit=in", 10));
        assert_eq!(of("arrayfs ls a:b/c"), expected(&["ls"], "a:b/c", 2));
        assert_eq!(of("arrayfs ls a\\:b/c"), expected(&["ls"], "a:b/c", 0));
    }
}
