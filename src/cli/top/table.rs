//! The table of mounts: its columns, how many of them have room, and by which it is sorted.
//!
//! Lines are text, for a terminal and for `--once` alike. Used by [`super`].

use std::cmp::Ordering;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::figures::{Figures, count_rate, percent, short, short_rate};

/// A mount, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MountRow {
    pub(super) mountpoint: String,
    /// None as long as its daemon has not answered.
    pub(super) figures: Option<Figures>,
    /// Why it does not answer.
    pub(super) trouble: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopColumn {
    Mount,
    Read,
    Decoded,
    Written,
    Requests,
    Hits,
    Cache,
    Open,
    Staged,
}

impl TopColumn {
    const ALL: [TopColumn; 9] = [
        TopColumn::Mount,
        TopColumn::Read,
        TopColumn::Decoded,
        TopColumn::Written,
        TopColumn::Requests,
        TopColumn::Hits,
        TopColumn::Cache,
        TopColumn::Open,
        TopColumn::Staged,
    ];

    /// In the order in which they go where there is no room for all.
    const FIRST_TO_GO: [TopColumn; 8] = [
        TopColumn::Open,
        TopColumn::Staged,
        TopColumn::Cache,
        TopColumn::Hits,
        TopColumn::Requests,
        TopColumn::Written,
        TopColumn::Decoded,
        TopColumn::Read,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            TopColumn::Mount => "MOUNT",
            TopColumn::Read => "READ/s",
            TopColumn::Decoded => "DECOD/s",
            TopColumn::Written => "WRITE/s",
            TopColumn::Requests => "REQ/s",
            TopColumn::Hits => "HITS",
            TopColumn::Cache => "CACHE",
            TopColumn::Open => "OPEN",
            TopColumn::Staged => "STAGED",
        }
    }

    /// Of the mounts' column: what it has at least. A title that is marked fits.
    fn width(self) -> usize {
        match self {
            TopColumn::Mount | TopColumn::Decoded | TopColumn::Written => 8,
            TopColumn::Cache => 9,
            TopColumn::Read | TopColumn::Staged => 7,
            TopColumn::Requests | TopColumn::Open => 6,
            TopColumn::Hits => 5,
        }
    }

    pub(super) fn next(self) -> TopColumn {
        let at = TopColumn::ALL.iter().position(|column| *column == self);
        TopColumn::ALL[(at.unwrap_or(0) + 1) % TopColumn::ALL.len()]
    }

    pub(super) fn previous(self) -> TopColumn {
        let at = TopColumn::ALL.iter().position(|column| *column == self);
        let before = at.unwrap_or(0) + TopColumn::ALL.len() - 1;
        TopColumn::ALL[before % TopColumn::ALL.len()]
    }

    fn text(self, figures: &Figures) -> String {
        match self {
            TopColumn::Mount => String::new(),
            TopColumn::Read => short_rate(figures.read),
            TopColumn::Decoded => short_rate(figures.decoded),
            TopColumn::Written => short_rate(figures.written),
            TopColumn::Requests => count_rate(figures.requests),
            TopColumn::Hits => percent(figures.hits),
            TopColumn::Cache => format!(
                "{}/{}",
                short(figures.cache_used),
                short(figures.cache_limit)
            ),
            TopColumn::Open => format!("{}/{}", figures.open_files, figures.open_containers),
            TopColumn::Staged => short(figures.staged_bytes),
        }
    }

    fn value(self, figures: &Figures) -> f64 {
        let rate = |rate: Option<f64>| rate.unwrap_or(-1.0);
        match self {
            TopColumn::Mount => 0.0,
            TopColumn::Read => rate(figures.read),
            TopColumn::Decoded => rate(figures.decoded),
            TopColumn::Written => rate(figures.written),
            TopColumn::Requests => rate(figures.requests),
            TopColumn::Hits => rate(figures.hits),
            TopColumn::Cache => figures.cache_used as f64,
            TopColumn::Open => figures.open_files as f64,
            TopColumn::Staged => figures.staged_bytes as f64,
        }
    }
}

/// By what the table is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SortOrder {
    pub(super) column: TopColumn,
    /// Not as usual: names fall, numbers rise.
    pub(super) reversed: bool,
}

impl SortOrder {
    /// Names rise, numbers fall. Mounts that do not answer come last.
    pub(super) fn sort(self, rows: &mut [MountRow]) {
        rows.sort_by(|one, other| {
            let by_name = one.mountpoint.cmp(&other.mountpoint);
            let answered = other.figures.is_some().cmp(&one.figures.is_some());
            let by_value = match (one.figures, other.figures) {
                (Some(one), Some(other)) if self.column != TopColumn::Mount => {
                    let (one, other) = (self.column.value(&one), self.column.value(&other));
                    other.total_cmp(&one)
                }
                _ => Ordering::Equal,
            };
            let by_column = match self.column {
                TopColumn::Mount => by_name,
                _ => by_value,
            };
            let by_column = match self.reversed {
                true => by_column.reverse(),
                false => by_column,
            };
            answered.then(by_column).then(by_name)
        });
    }
}

/// The columns that a table has, and the width of that of the mounts.
pub(super) struct TableShape {
    columns: Vec<TopColumn>,
    mount: usize,
    /// Of all.
    width: usize,
}

impl TableShape {
    /// For a terminal of this width.
    pub(super) fn of_width(width: usize) -> TableShape {
        let mut columns = TopColumn::ALL.to_vec();
        let taken =
            |columns: &[TopColumn]| columns.iter().map(|c| c.width() + 1).sum::<usize>() - 1;
        for column in TopColumn::FIRST_TO_GO {
            if taken(&columns) <= width {
                break;
            }
            columns.retain(|kept| *kept != column);
        }
        let others = taken(&columns) - TopColumn::Mount.width();
        TableShape {
            mount: width.saturating_sub(others),
            columns,
            width,
        }
    }

    /// With room for all of these mountpoints.
    pub(super) fn with_room_for(rows: &[MountRow]) -> TableShape {
        let longest = rows.iter().map(|row| row.mountpoint.width()).max();
        let mount = longest.unwrap_or(0).max(TopColumn::Mount.width());
        let others = TopColumn::ALL
            .iter()
            .skip(1)
            .map(|column| column.width() + 1);
        TableShape::of_width(mount + others.sum::<usize>())
    }

    pub(super) fn header(&self, order: SortOrder) -> String {
        let mark = |column: TopColumn| match column == order.column {
            true => format!("*{}", column.title()),
            false => column.title().to_owned(),
        };
        self.line(&mark(TopColumn::Mount), mark)
    }

    pub(super) fn row(&self, row: &MountRow) -> String {
        match (&row.figures, &row.trouble) {
            (Some(figures), _) => self.line(&row.mountpoint, |column| column.text(figures)),
            (None, why) => {
                let name = padded(&end_of(&row.mountpoint, self.mount), self.mount);
                let why = why.as_deref().unwrap_or("...");
                beginning_of(&format!("{name} {why}"), self.width)
            }
        }
    }

    fn line(&self, mount: &str, text: impl Fn(TopColumn) -> String) -> String {
        let mut line = padded(&end_of(mount, self.mount), self.mount);
        for column in self.columns.iter().skip(1) {
            let width = column.width();
            line.push_str(&format!(" {:>width$}", text(*column)));
        }
        line
    }
}

fn padded(text: &str, width: usize) -> String {
    let lacking = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(lacking))
}

/// As much of the end of a text as fits: that of a path tells more than its beginning.
pub(super) fn end_of(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let fits = widest(text.chars().rev(), width.saturating_sub(2));
    let kept: Vec<char> = text.chars().rev().take(fits).collect();
    let dots = "..".chars().take(width);
    dots.chain(kept.into_iter().rev()).collect()
}

/// As much of its beginning.
pub(super) fn beginning_of(text: &str, width: usize) -> String {
    text.chars().take(widest(text.chars(), width)).collect()
}

/// How many characters fit.
fn widest(chars: impl Iterator<Item = char>, width: usize) -> usize {
    let ends = chars.scan(0, |end, c| {
        *end += c.width().unwrap_or(0);
        Some(*end)
    });
    ends.take_while(|end| *end <= width).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mountpoint: &str, read: f64) -> MountRow {
        let figures = Figures {
            read: Some(read),
            cache_used: 412 << 20,
            cache_limit: 1 << 30,
            open_files: 2,
            open_containers: 3,
            ..Figures::default()
        };
        MountRow {
            mountpoint: mountpoint.into(),
            figures: Some(figures),
            trouble: None,
        }
    }

    const BY_READ: SortOrder = SortOrder {
        column: TopColumn::Read,
        reversed: false,
    };

    #[test]
    fn every_width_has_a_table_that_fits() {
        for width in 0..200 {
            let shape = TableShape::of_width(width);
            for line in [
                shape.header(BY_READ),
                shape.row(&row("/mnt/größe/data", 2e6)),
            ] {
                assert!(line.width() <= width.max(8), "{width}: '{line}'");
            }
        }
        let wide = TableShape::of_width(80).row(&row("/mnt/data", 2e6));
        let expected = "    1.9M        -        -      -     - 412M/1.0G    2/3       0";
        assert_eq!(wide, format!("{:16}{expected}", "/mnt/data"));
        assert_eq!(
            TableShape::of_width(20).row(&row("/mnt/a/long/one", 0.0)),
            "..a/long/one       0"
        );
    }

    #[test]
    fn what_does_not_answer_says_why() {
        let mut dead = row("/mnt/x", 0.0);
        (dead.figures, dead.trouble) = (None, Some("dead: the daemon has ended".into()));
        let line = TableShape::of_width(40).row(&dead);
        assert!(
            line.contains("/mnt/x") && line.contains("dead") && line.width() <= 40,
            "{line}"
        );
    }

    #[test]
    fn numbers_fall_names_rise_and_the_dead_are_last() {
        let mut rows = vec![
            row("/c", 1.0),
            row("/b", 9.0),
            row("/a", 9.0),
            row("/d", 0.0),
        ];
        rows[0].figures = None;
        let sorted = |order: SortOrder, rows: &[MountRow]| {
            let mut rows = rows.to_vec();
            order.sort(&mut rows);
            let names = rows.iter().map(|row| row.mountpoint.as_str());
            names.collect::<Vec<_>>().join("")
        };
        assert_eq!(sorted(BY_READ, &rows), "/a/b/d/c");
        let reversed = SortOrder {
            reversed: true,
            ..BY_READ
        };
        assert_eq!(sorted(reversed, &rows), "/d/a/b/c");
        let by_name = SortOrder {
            column: TopColumn::Mount,
            reversed: true,
        };
        assert_eq!(sorted(by_name, &rows), "/d/b/a/c");
    }

    #[test]
    fn columns_go_round() {
        let all = TopColumn::ALL
            .iter()
            .fold(TopColumn::Mount, |column, _| column.next());
        assert_eq!(
            (all, TopColumn::Mount.previous()),
            (TopColumn::Mount, TopColumn::Staged)
        );
    }
}
