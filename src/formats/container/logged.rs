//! What logs call arrays.
//!
//! An array goes by its path from the outermost container. One to which a commit may give another
//! name goes by its position as well, behind two `~`, which no name of a container has
//! ([`super::names`]): `columns/a~~0`. The position says which array is meant, whatever it is
//! called by now: so a log fits the container before the commit and after it. The name tells
//! whether somebody else has put another array there. Logs of earlier releases have paths alone.
//! Used by `live` and `commit`.

use std::borrow::Cow;
use std::collections::HashMap;

use super::inside::{Located, join};
use crate::array::Array;

const POSITION: &str = "~~";

/// What logs call an array of a group.
pub fn logged_name(group: &str, array: &dyn Array) -> String {
    let path = join(group, array.name());
    match array.position() {
        Some(position) => format!("{path}{POSITION}{position}"),
        None => path,
    }
}

/// What an array is found by that logs call so.
pub fn key_of(logged: &str) -> Cow<'_, str> {
    let Some((path, position)) = logged.rsplit_once(POSITION) else {
        return Cow::Borrowed(logged);
    };
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    Cow::Owned(by_position(directory, position))
}

/// Whether logs that know an array by its name call it so.
pub fn is_called(located: &Located, logged: &str) -> bool {
    logged_name(&located.group, &*located.array) == logged || located.path() == logged
}

fn by_position(directory: &str, position: impl std::fmt::Display) -> String {
    format!("{directory}{POSITION}{position}")
}

/// What an array of a group is found by: its path first.
pub fn keys_of(group: &str, array: &dyn Array) -> impl Iterator<Item = String> {
    let path = join(group, array.name());
    let position = array.position().map(|position| {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        by_position(directory, position)
    });
    std::iter::once(path).chain(position)
}

/// Arrays by what logs call them.
pub struct ByLoggedName<T>(HashMap<String, T>);

impl<T: Copy> ByLoggedName<T> {
    pub fn new<'a>(arrays: impl Iterator<Item = (&'a Located, T)>) -> ByLoggedName<T> {
        let keyed = arrays.flat_map(|(located, of)| {
            let keys = keys_of(&located.group, &*located.array);
            keys.map(move |key| (key, of))
        });
        ByLoggedName(keyed.collect())
    }

    pub fn find(&self, logged: &str) -> Option<T> {
        self.0.get(&*key_of(logged)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::*;
    use crate::array::{Info, Piece};
    use crate::container::names;
    use crate::error::{Error, Result};

    struct OneColumn(String, Option<u64>);

    impl Array for OneColumn {
        fn name(&self) -> &str {
            &self.0
        }

        fn position(&self) -> Option<u64> {
            self.1
        }

        fn info(&self) -> Result<Info> {
            Err(Error::NotFound)
        }

        fn pieces(&self, _: Range<u64>, _: &mut Vec<Piece>) -> Result<()> {
            Ok(())
        }
    }

    fn frame(labels: &[&str]) -> Vec<Located> {
        let shown = names::shown(labels, false).unwrap();
        let columns = (0..).zip(shown);
        let columns = columns.map(|(at, name)| OneColumn(format!("columns/{name}"), Some(at)));
        let text = OneColumn("labels".into(), None);
        let located = |column| Located {
            container: Default::default(),
            group: "".into(),
            format: "x",
            is_far: false,
            array: Arc::new(column),
        };
        columns.chain([text]).map(located).collect()
    }

    #[test]
    fn columns_are_found_whatever_their_labels_are() {
        let before = frame(&["a", "", "b", "a", "/~~0"]);
        let logged = before.iter();
        let logged: Vec<String> = logged
            .map(|located| logged_name(&located.group, &*located.array))
            .collect();
        assert_eq!(logged[1..3], ["columns/~1~~1", "columns/b~~2"]);
        assert_eq!(logged[5], "labels");
        for labels in [["a", "", "b", "a", "/~~0"], ["b", "a", "a", "x", ""]] {
            let after = frame(&labels);
            let found = ByLoggedName::new(after.iter().zip(0..));
            let numbers = logged.iter().map(|logged| found.find(logged));
            assert!(numbers.eq((0..6).map(Some)), "{labels:?}");
        }
    }

    #[test]
    fn logs_of_earlier_releases_name_columns_by_their_labels() {
        let frame = frame(&["a", "", "a"]);
        let found = ByLoggedName::new(frame.iter().zip(0..));
        assert_eq!(found.find("columns/a~2"), Some(2));
        assert_eq!(found.find("columns/~1"), Some(1));
        assert_eq!(found.find("columns/b"), None);
        assert_eq!(found.find("columns/b~~7"), None);
    }

    #[test]
    fn a_column_that_another_one_has_replaced_is_known_by_its_name() {
        let frame = frame(&["a", "b"]);
        assert!(is_called(&frame[0], "columns/a~~0") && is_called(&frame[0], "columns/a"));
        assert!(!is_called(&frame[0], "columns/b~~0"));
        assert!(is_called(&frame[2], "labels"));
    }
}
