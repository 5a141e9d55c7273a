//! Slices as NumPy has them: `0`, `-1`, `2:10`, `::-1`, `:`, `...`, one for each axis.
//!
//! Shapes come from files and slices from users: no arithmetic on them overflows. Pure. Used by
//! [`super::layout`] and the command `show`.

use std::fmt::Write as _;

/// Which elements of an axis are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisSlice {
    /// The first one; means nothing if there is none.
    pub start: u64,
    /// From one to the next; never 0.
    pub step: i64,
    /// How many.
    pub count: u64,
    /// One number was given: the result does not have the axis.
    pub is_single: bool,
}

impl AxisSlice {
    /// All of an axis of this length.
    pub fn whole(len: u64) -> AxisSlice {
        AxisSlice {
            start: 0,
            step: 1,
            count: len,
            is_single: false,
        }
    }

    /// One element.
    pub fn single(index: u64) -> AxisSlice {
        AxisSlice {
            start: index,
            step: 1,
            count: 1,
            is_single: true,
        }
    }

    /// As a slice of an axis of this length is written.
    pub fn spelled(&self, len: u64) -> String {
        if self.is_single {
            return self.start.to_string();
        }
        if *self == AxisSlice::whole(len) {
            return ":".into();
        }
        if self.count == 0 {
            return "0:0".into();
        }
        let behind = i128::from(self.index(self.count - 1)) + i128::from(self.step.signum());
        let stop = if behind < 0 {
            String::new()
        } else {
            behind.to_string()
        };
        match self.step {
            1 => format!("{}:{stop}", self.start),
            step => format!("{}:{stop}:{step}", self.start),
        }
    }

    /// The index in the array of the n-th of them.
    pub fn index(&self, n: u64) -> u64 {
        let moved = i128::from(self.start) + i128::from(self.step) * i128::from(n);
        u64::try_from(moved).unwrap_or(0)
    }
}

/// A slice for each axis of a shape. `names`: of the axes, as far as they have some. What is wrong
/// is said in words for who wrote the slice.
pub fn parse(
    text: &str,
    shape: &[u64],
    names: &[Option<String>],
) -> Result<Vec<AxisSlice>, String> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let mut parts: Vec<&str> = match text.trim() {
        "" => Vec::new(),
        text => text.split(',').map(str::trim).collect(),
    };
    // As in Python, a comma at the end is none.
    if parts.len() > 1 && parts.last() == Some(&"") {
        parts.pop();
    }
    let ellipsis = parts.iter().position(|part| *part == "...");
    if parts.iter().filter(|part| **part == "...").count() > 1 {
        return Err("'...' can stand for the axes between only once, e.g. '0,...,5'".into());
    }
    let given = parts.len() - usize::from(ellipsis.is_some());
    if given > shape.len() {
        return Err(format!(
            "{given} axes are sliced, and the array has {} of them: its shape is {}",
            shape.len(),
            shape_text(shape)
        ));
    }
    let between = shape.len() - given;
    let before = ellipsis.unwrap_or(given);
    let mut slices = Vec::with_capacity(shape.len());
    for (axis, &len) in shape.iter().enumerate() {
        let part = match axis {
            axis if axis < before => parts.get(axis),
            axis if axis < before + between => None,
            axis => parts.get(axis - between + usize::from(ellipsis.is_some())),
        };
        let slice = match part {
            Some(part) => one(part, len),
            None => Ok(AxisSlice::whole(len)),
        };
        slices.push(slice.map_err(|why| wrong(axis, len, names, part.unwrap_or(&":"), &why))?);
    }
    Ok(slices)
}

/// `(12, 4)`, `(12,)`, `()`.
pub fn shape_text(shape: &[u64]) -> String {
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    match &dims[..] {
        [only] => format!("({only},)"),
        dims => format!("({})", dims.join(", ")),
    }
}

fn wrong(axis: usize, len: u64, names: &[Option<String>], part: &str, why: &str) -> String {
    let name = names.get(axis).and_then(Option::as_deref);
    let name = name.map_or(String::new(), |name| format!(" ({name})"));
    let mut text = format!("'{part}' for axis {axis}{name}, which has {len} elements: {why}");
    let example = match len {
        0 => "':'".to_owned(),
        1 => "'0' or ':'".to_owned(),
        len => format!("'{}', '0:{len}:2', '-1' or ':'", len / 2),
    };
    let _ = write!(text, "; e.g. {example}");
    text
}

/// The slice of one axis.
fn one(part: &str, len: u64) -> Result<AxisSlice, String> {
    let fields: Vec<&str> = part.split(':').map(str::trim).collect();
    match fields[..] {
        [index] => single(index, len),
        [start, stop] => range(start, stop, "", len),
        [start, stop, step] => range(start, stop, step, len),
        _ => Err("more than start:stop:step".into()),
    }
}

fn number(text: &str) -> Result<Option<i128>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<i128>();
    let number = number.map_err(|_| format!("'{text}' is no whole number"))?;
    // Far beyond every array, and far from overflowing.
    Ok(Some(number.clamp(-(1 << 70), 1 << 70)))
}

fn single(text: &str, len: u64) -> Result<AxisSlice, String> {
    let Some(index) = number(text)? else {
        return Err("nothing is said for it".into());
    };
    let from_start = if index < 0 {
        index + i128::from(len)
    } else {
        index
    };
    match u64::try_from(from_start) {
        Ok(index) if index < len => Ok(AxisSlice::single(index)),
        _ if len == 0 => Err("there is none".into()),
        _ => Err(format!("there are 0 to {}, and -{len} to -1", len - 1)),
    }
}

/// As Python's `slice.indices`.
fn range(start: &str, stop: &str, step: &str, len: u64) -> Result<AxisSlice, String> {
    let (start, stop) = (number(start)?, number(stop)?);
    let step = number(step)?.unwrap_or(1);
    if step == 0 {
        return Err("a step of 0 leads nowhere".into());
    }
    let len = i128::from(len);
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |given: Option<i128>, default: i128| match given {
        None => default,
        Some(n) if n < 0 => (n + len).max(lowest),
        Some(n) => n.min(highest),
    };
    let (start, stop) = match step > 0 {
        true => (bound(start, 0), bound(stop, len)),
        false => (bound(start, len - 1), bound(stop, -1)),
    };
    let apart = if step > 0 { stop - start } else { start - stop };
    let count = match apart > 0 {
        true => (apart - 1) / step.abs() + 1,
        false => 0,
    };
    Ok(AxisSlice {
        start: u64::try_from(start).unwrap_or(0),
        step: i64::try_from(step).unwrap_or(if step > 0 { i64::MAX } else { -i64::MAX }),
        count: u64::try_from(count).unwrap_or(0),
        is_single: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picked(slice: AxisSlice) -> Vec<u64> {
        (0..slice.count).map(|n| slice.index(n)).collect()
    }

    #[test]
    fn axes_are_found() {
        let shape = [12, 4, 180, 360];
        let counts = |text: &str| -> Vec<(u64, bool)> {
            let slices = parse(text, &shape, &[]).unwrap();
            slices.iter().map(|s| (s.count, s.is_single)).collect()
        };
        let whole = |n| (n, false);
        assert_eq!(counts(""), [whole(12), whole(4), whole(180), whole(360)]);
        assert_eq!(
            counts("[0, :, 10:20]"),
            [(1, true), whole(4), whole(10), whole(360)]
        );
        assert_eq!(
            counts("0,...,-1"),
            [(1, true), whole(4), whole(180), (1, true)]
        );
        assert_eq!(counts("..."), counts(":"));
        assert_eq!(
            counts("...,::90"),
            [whole(12), whole(4), whole(180), whole(4)]
        );
        assert!(parse("", &[], &[]).unwrap().is_empty());
        assert_eq!(parse("...", &[], &[]), Ok(vec![]));
    }

    #[test]
    fn what_is_wrong_names_the_axis_its_length_and_an_example() {
        let names = [None, Some("lon".to_owned())];
        let said = |text: &str| parse(text, &[3, 360], &names).unwrap_err();
        let text = said("0,400");
        for part in ["axis 1 (lon)", "360", "-360 to -1", "'180'"] {
            assert!(text.contains(part), "'{part}' is missing in {text}");
        }
        assert!(said("0,1,2").contains("(3, 360)"));
        assert!(said("::0").contains("a step of 0"));
        assert!(said("x").contains("'x' is no whole number"));
        assert!(said("...,...").contains("once"));
        assert!(said("1,,").contains("nothing is said"));
        assert!(said("1:2:3:4").contains("start:stop:step"));
    }

    #[test]
    fn the_longest_axis_is_no_trouble() {
        let far = "-99999999999999999999999999:99999999999999999999999999999:9223372036854775807";
        let slices = parse(far, &[u64::MAX], &[]).unwrap();
        assert_eq!(picked(slices[0]), [0, i64::MAX as u64, u64::MAX - 1]);
        let slices = parse("::-1", &[u64::MAX], &[]).unwrap();
        assert_eq!((slices[0].start, slices[0].count), (u64::MAX - 1, u64::MAX));
    }

    proptest! {
        /// Against the words of Python's manual: i = a, a + k, a + 2k ... as long as it is before
        /// j.
        #[test]
        fn ranges_are_those_of_python(
            len in 0i64..12,
            start in proptest::option::of(-15i64..15),
            stop in proptest::option::of(-15i64..15),
            step in -4i64..5,
        ) {
            prop_assume!(step != 0);
            let text = |n: Option<i64>| n.map_or(String::new(), |n| n.to_string());
            let given = format!("{}:{}:{step}", text(start), text(stop));
            let slices = parse(&given, &[len as u64], &[]).unwrap();
            let wrapped = |n: i64| if n < 0 { n + len } else { n };
            let before = |n: i64| match stop {
                Some(stop) if step > 0 => n < wrapped(stop),
                Some(stop) => n > wrapped(stop),
                None => true,
            };
            let from = |n: i64| match start {
                Some(start) if step > 0 => n >= wrapped(start),
                Some(start) => n <= wrapped(start),
                None => true,
            };
            let first = match (start.map(wrapped), step > 0) {
                (Some(start), true) => start.max(0),
                (Some(start), false) => start.min(len - 1),
                (None, true) => 0,
                (None, false) => len - 1,
            };
            let expected: Vec<u64> = (0..40)
                .map(|n| first + n * step)
                .filter(|&n| (0..len).contains(&n) && from(n) && before(n))
                .map(|n| n as u64)
                .collect();
            prop_assert_eq!(picked(slices[0]), &expected[..]);
            let again = parse(&slices[0].spelled(len as u64), &[len as u64], &[]).unwrap();
            prop_assert_eq!(picked(again[0]), expected);
        }
    }
}
